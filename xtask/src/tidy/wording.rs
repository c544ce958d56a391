//! Words that leave the reader guessing.

use crate::Problem;
use crate::mask::is_word;
use crate::tidy::links::outside_fences;
use crate::tree::Tree;

/// Words without a referent. Each is split, so that this list does not report itself.
const VAGUE: [&str; 2] = [concat!("some", "body"), concat!("who", "ever")];

/// Reports vague words in documents and in Rust comments, strings and names. Code in documents does not count.
pub(super) fn vague_words(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.ending(".md") {
        for (line, text) in outside_fences(text) {
            report(path, line, &without_code(text), &mut problems);
        }
    }
    for (path, text) in tree.ending(".rs") {
        for (line, text) in (1..).zip(text.lines()) {
            report(path, line, text, &mut problems);
        }
    }
    problems
}

fn report(path: &str, line: usize, text: &str, problems: &mut Vec<Problem>) {
    let text = text.to_lowercase();
    for word in VAGUE {
        if text.match_indices(word).any(|(place, _)| is_word(&text, place, word)) {
            let advice = "name the caller, worker, transaction or request";
            problems.push(Problem::at(path, line, format!("`{word}` says nothing: {advice}")));
        }
    }
}

/// Returns a line of a document without its `code`.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tree;

    #[test]
    fn vague_words_are_found_in_prose_and_source() {
        let [first, second] = VAGUE;
        let document = format!("{first} asks\n`{first}` is a name\n```\n{second}\n```\nfine");
        let capital = format!("// {}{} waits\nlet {first}_else = 1;\nlet text = \"{second}\";", "S", &first[1..]);
        let tree = tree([("a.md", document.as_str()), ("b.rs", capital.as_str()), ("c.toml", first)]);
        let found: Vec<String> = vague_words(&tree).iter().map(Problem::to_string).collect();
        let advice = "says nothing: name the caller, worker, transaction or request";
        assert_eq!(
            found,
            [
                format!("a.md:1: `{first}` {advice}"),
                format!("b.rs:1: `{first}` {advice}"),
                format!("b.rs:3: `{second}` {advice}"),
            ]
        );
    }
}
