//! Links from documents to files and headings.

use crate::Problem;
use crate::tree::{Tree, resolve};

/// Reports relative links to missing files, and anchors without a heading.
pub(super) fn broken_links(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.ending(".md") {
        for (line, target) in links(text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { path.to_owned() } else { resolve(path, file) };
            if !tree.has(&file) {
                problems.push(Problem::at(path, line, format!("links to {target}, which does not exist")));
            } else if !anchor.is_empty() && !tree.text(&file).is_some_and(|text| has_heading(text, anchor)) {
                problems.push(Problem::at(path, line, format!("links to {target}, but that heading does not exist")));
            }
        }
    }
    problems
}

/// Returns the targets of `[text](target)` outside of code, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in outside_fences(text) {
        let mut at = 0;
        while let Some(place) = line[at..].find("](") {
            let start = at + place + 2;
            let end = line[start..].find(')').map_or(line.len(), |length| start + length);
            // An odd number of backticks before it: the link is in code.
            if line[..start].matches('`').count() % 2 == 0 {
                found.push((number, line[start..end].split_whitespace().next().unwrap_or_default()));
            }
            at = end;
        }
    }
    found
}

/// Returns the lines of a document outside of fenced blocks, counted from one.
pub(super) fn outside_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Returns whether a heading has this anchor, formed as Markdown renderers do.
fn has_heading(text: &str, anchor: &str) -> bool {
    let headings = outside_fences(text).filter_map(|(_, line)| line.strip_prefix('#'));
    let mut anchors = headings.map(|heading| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>()
    });
    anchors.any(|known| known == anchor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tree;

    #[test]
    fn broken_links_are_found() {
        let tree = tree([
            (
                "README.md",
                "[a](docs/a.md) [b](docs/gone.md) [c](https://example.org/x)\n`[d](gone)`\n```\n[e](gone)\n```",
            ),
            ("docs/a.md", "## Two words, `code`\n[up](../README.md) [here](#two-words-code) [there](#nowhere) [f](.)"),
        ]);
        let found: Vec<String> = broken_links(&tree).iter().map(Problem::to_string).collect();
        assert_eq!(
            found,
            [
                "README.md:1: links to docs/gone.md, which does not exist",
                "docs/a.md:2: links to #nowhere, but that heading does not exist"
            ]
        );
    }
}
