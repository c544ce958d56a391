//! Commands in the guides run in a test, or the guide says why not.

use crate::Problem;
use crate::tree::Tree;

/// The accepted reasons.
const REASONS: [&str; 6] = [
    "it builds the project",
    "it needs a PostgreSQL of your own",
    "it needs root",
    "it runs until it is stopped",
    "it takes minutes",
    "names stand for yours",
];

/// Checks that a block of commands which `crates/bursar-cli/tests/docs` does not run has one of these reasons in the line before
/// it: `<!-- not run: REASON -->`.
pub(super) fn untested_commands(tree: &Tree) -> Vec<Problem> {
    let guides = tree.ending(".md").filter(|(path, _)| path.starts_with("docs/") || *path == "README.md");
    guides.flat_map(|(path, text)| check(path, text)).collect()
}

fn check(path: &str, text: &str) -> Vec<Problem> {
    let lines: Vec<&str> = text.lines().collect();
    let mut problems = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        let fence = line.trim_start();
        if matches!(fence, "```bash" | "```shell") {
            problems.push(Problem::at(
                path,
                place + 1,
                "use `sh` for commands, or `console` for commands with their output",
            ));
        }
        if fence != *line && matches!(fence, "```sh" | "```console") {
            problems.push(Problem::at(path, place + 1, "a block of commands must not be indented"));
        }
        let reason = line.strip_prefix("<!-- not run: ").and_then(|rest| rest.strip_suffix(" -->"));
        let next = lines.get(place + 1).copied().unwrap_or_default();
        match reason {
            Some(reason) if !REASONS.contains(&reason) => {
                let known = REASONS.join("; ");
                problems.push(Problem::at(
                    path,
                    place + 1,
                    format!("{reason:?} is not an accepted reason; use one of: {known}"),
                ));
            }
            Some(_) if !matches!(next, "```sh" | "```console") => {
                problems.push(Problem::at(path, place + 1, "is not followed by a block of commands"));
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
    fn a_block_that_is_not_run_needs_a_reason() {
        let guide = "```sh\na\n```\n<!-- not run: it needs root -->\n```sh\nb\n```\n<!-- not run: I like it so -->\n```sh\nc\n```\n\
            <!-- not run: it takes minutes -->\ntext\n```bash\nd\n```\n  ```sh\n  e\n  ```\n";
        let tree = tree([("docs/a.md", guide), ("bench/README.md", "```bash\nx\n```")]);
        let found: Vec<String> = untested_commands(&tree).iter().map(Problem::to_string).collect();
        assert_eq!(
            found,
            [
                &format!("docs/a.md:8: \"I like it so\" is not an accepted reason; use one of: {}", REASONS.join("; ")),
                "docs/a.md:12: is not followed by a block of commands",
                "docs/a.md:14: use `sh` for commands, or `console` for commands with their output",
                "docs/a.md:17: a block of commands must not be indented",
            ]
        );
    }
}
