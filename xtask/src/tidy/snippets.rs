//! Rust code in documents is copied from compiled files, and other blocks are equal to the files that they name.

use crate::Problem;
use crate::tree::Tree;

/// Reports Rust blocks without their source in the line before, `<!-- from: PATH -->`, and blocks of any language that differ
/// from their source in more than indentation.
pub(super) fn outdated_snippets(tree: &Tree) -> Vec<Problem> {
    tree.ending(".md").flat_map(|(path, text)| check(tree, path, text)).collect()
}

fn check(tree: &Tree, path: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let fences = lines.iter().enumerate().filter(|(_, line)| line.trim_start().starts_with("```"));
    for (place, fence) in fences {
        let source = lines[..place].last().and_then(|line| line.strip_prefix("<!-- from: ")?.strip_suffix(" -->"));
        if source.is_none() && !fence.trim_start().starts_with("```rust") {
            continue;
        }
        let block: Vec<&str> = lines[place + 1..].iter().take_while(|line| line.trim() != "```").copied().collect();
        let problem = match source.map(|source| (source, tree.text(source))) {
            None => Some("a Rust block needs `<!-- from: PATH -->` in the line before it".to_owned()),
            Some((source, None)) => Some(format!("is from {source}, which does not exist")),
            Some((source, Some(text))) => (!is_in(&block, text)).then(|| format!("differs from {source}")),
        };
        problems.extend(problem.map(|problem| Problem::at(path, place + 1, problem)));
    }
    problems
}

/// Returns whether a file contains the lines of a block in sequence.
fn is_in(block: &[&str], text: &str) -> bool {
    let block: Vec<&str> = block.iter().map(|line| line.trim()).collect();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.windows(block.len().max(1)).any(|window| window == block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tree;

    #[test]
    fn a_block_must_match_its_file() {
        let block = |from: &str, code: &str| format!("{from}\n```rust\n{code}\n```\n");
        let doc = [
            block("<!-- from: a.rs -->", "two();\nthree();"),
            block("<!-- from: a.rs -->", "two();\nfour();"),
            block("<!-- from: b.rs -->", "two();"),
            block("", "two();"),
            "<!-- from: c.ini -->\n```ini\na = 1\n```\n<!-- from: c.ini -->\n```ini\na = 2\n```\n".to_owned(),
        ]
        .concat();
        let tree =
            tree([("a.md", doc.as_str()), ("a.rs", "one();\n    two();\n    three();\nfour();"), ("c.ini", "a = 1\n")]);
        let found: Vec<String> = outdated_snippets(&tree).iter().map(Problem::to_string).collect();
        assert_eq!(
            found,
            [
                "a.md:7: differs from a.rs",
                "a.md:12: is from b.rs, which does not exist",
                "a.md:16: a Rust block needs `<!-- from: PATH -->` in the line before it",
                "a.md:24: differs from c.ini"
            ]
        );
    }
}
