//! Parses the commands of a document.

/// A command and its expected output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The line number, from one.
    pub(crate) line: usize,
    pub(crate) command: String,
    /// `None` if the document does not show the output.
    pub(crate) expected: Option<Vec<String>>,
}

/// Returns the commands of a document, in order.
pub(crate) fn steps(text: &str) -> Vec<Step> {
    let lines: Vec<&str> = text.lines().collect();
    let (mut steps, mut at) = (Vec::new(), 0);
    while at < lines.len() {
        let fence = lines[at].trim();
        at += 1;
        if !fence.starts_with("```") {
            continue;
        }
        let block: Vec<&str> = lines[at..].iter().take_while(|line| line.trim() != "```").copied().collect();
        let skipped = at >= 2 && lines[at - 2].starts_with("<!-- not run: ");
        match fence {
            "```sh" if !skipped => steps.push(Step { line: at + 1, command: block.join("\n"), expected: None }),
            "```console" if !skipped => steps.extend(dialogue(&block, at + 1)),
            _ => {}
        }
        at += block.len() + 1;
    }
    steps
}

fn dialogue(block: &[&str], first: usize) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (line, text) in (first..).zip(block) {
        match (text.strip_prefix("$ "), text.strip_prefix("> "), steps.last_mut()) {
            (Some(command), ..) => {
                steps.push(Step { line, command: command.to_owned(), expected: Some(Vec::new()) });
            }
            (None, Some(more), Some(step)) if step.expected.as_ref().is_some_and(Vec::is_empty) => {
                step.command.push('\n');
                step.command.push_str(more);
            }
            (None, _, Some(step)) => step.expected.get_or_insert_default().push((*text).to_owned()),
            (None, _, None) => panic!("line {line}: output without a command"),
        }
    }
    steps
}

#[test]
fn code_blocks_are_parsed_into_steps() {
    let text = "```sh\na\nb\n```\n<!-- not run: why -->\n```sh\nc\n```\n```console\n$ d \\\n>   e\nout\n> more\n$ f\n```\n```text\n$ g\n```";
    let step = |line, command: &str, expected: Option<&[&str]>| Step {
        line,
        command: command.to_owned(),
        expected: expected.map(|lines| lines.iter().map(|line| (*line).to_owned()).collect()),
    };
    let expected = [step(2, "a\nb", None), step(10, "d \\\n  e", Some(&["out", "> more"])), step(14, "f", Some(&[]))];
    assert_eq!(steps(text), expected);
}
