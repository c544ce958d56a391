//! Suggests what a word from another tool means: `bursar budget create` is `bursar budget define`, and `--count 5` is `--most 5`.

use std::ffi::OsString;

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::args::{amount, limit};

/// Words that mean the same in other tools, in groups. The first one that a command has is suggested.
const SYNONYMS: [&[&str]; 11] = [
    &["define", "set", "create", "mint", "place", "enqueue", "submit", "new", "add", "make", "put", "update"],
    &["show", "get", "describe", "view", "info", "inspect", "status", "cat", "read"],
    &["list", "ls", "all", "find", "search"],
    &["delete", "remove", "revoke", "discard", "release", "cancel", "rm", "del", "destroy", "drop"],
    &["commit", "settle", "confirm", "capture", "spend"],
    &["pause", "stop", "disable", "suspend", "freeze", "lock"],
    &["resume", "start", "enable", "continue", "unfreeze", "unlock"],
    &["retry", "rerun", "replay", "again"],
    &["history", "events", "log", "logs"],
    &["migrate", "init", "setup", "install"],
    &["serve", "server", "start", "up"],
];

/// Flags that mean the same in other tools, in groups. The first one that a command has is suggested.
const FLAGS: [&[&str]; 3] = [
    &["most", "limit", "count", "lines", "n"],
    &["actual", "usage", "amount", "cost"],
    &["ttl", "expires-in", "expires", "expiry", "duration"],
];

/// The most actions that are suggested for a word without its noun.
const NOUNS_MAX: usize = 3;

/// Replaces the suggestion of an error about an unknown action or argument, if one has the same meaning.
pub(crate) fn suggest(mut error: clap::Error, arguments: &[OsString], command: &Command) -> clap::Error {
    let of = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => return error,
    };
    let Some(ContextValue::String(word)) = error.get(of).cloned() else { return error };
    // The commands before the unknown word lead to the one that does not know it.
    let before = arguments.iter().skip(1).take_while(|argument| **argument != *word);
    let parent = before.fold(command, |at, argument| at.find_subcommand(argument).unwrap_or(at));
    if error.kind() == ErrorKind::InvalidSubcommand {
        let meant = actions(&word, parent);
        if !meant.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(meant));
        }
    } else if let Some(meant) = argument(&word, parent) {
        // The usage is that of the flag that only looks similar.
        if error.remove(ContextKind::SuggestedArg).is_some() {
            error.remove(ContextKind::Usage);
        }
        let tip = StyledStr::from(format!("write {meant}"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

/// Returns the action that a word means below a command: one of the same meaning, or one of its name below a noun.
fn actions(word: &str, parent: &Command) -> Vec<String> {
    let groups = SYNONYMS.iter().filter(|group| group.contains(&word));
    let same = groups.flat_map(|group| group.iter()).find(|name| parent.find_subcommand(name).is_some());
    if let Some(name) = same {
        return vec![(*name).to_owned()];
    }
    let nouns = parent.get_subcommands().filter(|noun| noun.find_subcommand(word).is_some());
    let meant: Vec<String> = nouns.map(|noun| format!("{} {word}", noun.get_name())).collect();
    if meant.len() <= NOUNS_MAX { meant } else { Vec::new() }
}

/// Returns what to write instead of an argument that a command does not know: a flag of the same meaning, or the flag that a limit or
/// an amount belongs to.
fn argument(word: &str, command: &Command) -> Option<String> {
    let has = |flag: &str| command.get_arguments().any(|known| known.get_long() == Some(flag));
    if word.starts_with('-') {
        let name = word.trim_start_matches('-').split('=').next()?;
        let group = FLAGS.iter().find(|group| group.contains(&name))?;
        return group.iter().find(|flag| has(flag)).map(|flag| format!("--{flag}"));
    }
    let flag = if limit(word).is_ok() {
        "limit"
    } else if amount(word).is_ok() {
        ["actual", "usage"].into_iter().find(|flag| has(flag))?
    } else {
        return None;
    };
    has(flag).then(|| format!("--{flag} {word}"))
}
