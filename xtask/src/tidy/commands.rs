//! Commands in the guides: they are run by a test, or it is said why not.

use crate::Problem;
use crate::tree::Tree;

/// Why a block may be left out.
const REASONS: [&str; 6] = [
    "it builds the project",
    "it needs a PostgreSQL of your own",
    "it needs root",
    "it runs until it is stopped",
    "it takes minutes",
    "names stand for yours",
];

/// Every block of commands in a guide is run by `crates/bursar-cli/tests/docs`, unless the line before it says why not:
/// `<!-- not run: REASON -->`, with a reason of the list.
pub(super) fn unreasoned(tree: &Tree) -> Vec<Problem> {
    let guides = tree.ending(".md").filter(|(path, _)| path.starts_with("docs/") || *path == "README.md");
    guides.flat_map(|(path, text)| check(path, text)).collect()
}

fn check(path: &str, text: &str) -> Vec<Problem> {
    let lines: Vec<&str> = text.lines().collect();
    let mut problems = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        let fence = line.trim_start();
        if matches!(fence, "```bash" | "```shell") {
            problems.push(Problem::at(path, place + 1, "commands are `sh`, or `console` with what they print"));
        }
        if fence != *line && matches!(fence, "```sh" | "```console") {
            problems.push(Problem::at(path, place + 1, "a block of commands begins at the start of its line"));
        }
        let said = line.strip_prefix("<!-- not run: ").and_then(|rest| rest.strip_suffix(" -->"));
        let next = lines.get(place + 1).copied().unwrap_or_default();
        match said {
            Some(reason) if !REASONS.contains(&reason) => {
                let known = REASONS.join("; ");
                problems.push(Problem::at(path, place + 1, format!("{reason:?} is no reason; there are: {known}")));
            }
            Some(_) if !matches!(next, "```sh" | "```console") => {
                problems.push(Problem::at(path, place + 1, "stands before no block of commands"));
            }
            _ => {}
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tree;

    #[test]
    fn a_block_that_is_not_run_says_why() {
        let guide = "```sh\na\n```\n<!-- not run: it needs root -->\n```sh\nb\n```\n<!-- not run: I like it so -->\n```sh\nc\n```\n\
            <!-- not run: it takes minutes -->\ntext\n```bash\nd\n```\n  ```sh\n  e\n  ```\n";
        let tree = tree([("docs/a.md", guide), ("bench/README.md", "```bash\nx\n```")]);
        let found: Vec<String> = unreasoned(&tree).iter().map(Problem::to_string).collect();
        assert_eq!(
            found,
            [
                &format!("docs/a.md:8: \"I like it so\" is no reason; there are: {}", REASONS.join("; ")),
                "docs/a.md:12: stands before no block of commands",
                "docs/a.md:14: commands are `sh`, or `console` with what they print",
                "docs/a.md:17: a block of commands begins at the start of its line",
            ]
        );
    }
}
