//! A tip for a cron expression without quotes, which the shell has split into words.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Adds the tip to an error about arguments, if the expression of `--cron` is more than one word.
pub(crate) fn suggest(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let about_words = matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::ValueValidation);
    if about_words && is_split(arguments) {
        let tip = "put the cron expression in quotes, since the shell splits it into words: --cron '0 3 * * *'";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

/// Whether words follow the value of `--cron` that look like more of it.
fn is_split(arguments: &[OsString]) -> bool {
    let mut words = arguments.iter().map(|word| word.to_string_lossy());
    let first = loop {
        match words.next() {
            None => return false,
            Some(word) if word == "--cron" => break words.next(),
            Some(word) if word.starts_with("--cron=") => break Some(word),
            Some(_) => {}
        }
    };
    let is_whole = first.is_none_or(|word| word.contains(char::is_whitespace) || word.contains('@'));
    !is_whole && words.next().is_some_and(|word| !word.starts_with("--"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_expression_of_several_words_is_split() {
        let words = |line: &str| line.split('|').map(OsString::from).collect::<Vec<_>>();
        for (line, split) in [
            ("schedule|set|n|--cron|0|3|*|*|*|--queue|q", true),
            ("schedule|set|n|--cron=0|3|*|*|*", true),
            ("schedule|set|n|--cron|0 3 * * *|--queue|q", false),
            ("schedule|set|--cron|@daily|n", false),
            ("schedule|set|n|--cron|0|--queue|q", false),
            ("schedule|set|n|--cron", false),
            ("schedule|set|n|0|3", false),
        ] {
            assert_eq!(is_split(&words(line)), split, "{line}");
        }
    }
}
