//! Suggests the action that a word from another tool means: `bursar budget create` is `bursar budget define`.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Words that mean the same in other tools, in groups. The first one that a command has is suggested.
const SYNONYMS: [&[&str]; 9] = [
    &["define", "set", "create", "mint", "place", "enqueue", "submit", "new", "add", "make", "put", "update"],
    &["show", "get", "describe", "view", "info", "inspect", "status", "cat", "read"],
    &["list", "ls", "all", "find", "search"],
    &["delete", "remove", "revoke", "discard", "release", "cancel", "rm", "del", "destroy", "drop"],
    &["commit", "settle", "confirm", "capture", "spend"],
    &["pause", "stop", "disable", "suspend", "freeze", "lock"],
    &["resume", "start", "enable", "continue", "unfreeze", "unlock"],
    &["retry", "rerun", "replay", "again"],
    &["history", "events", "log", "logs"],
];

/// Replaces the suggestion of an error about an unknown action, if one has the same meaning.
pub(crate) fn suggest(mut error: clap::Error, arguments: &[OsString], command: &Command) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand).cloned() else { return error };
    // The commands before the unknown word lead to the one that does not know it.
    let before = arguments.iter().skip(1).take_while(|argument| **argument != *word);
    let parent = before.fold(command, |at, argument| at.find_subcommand(argument).unwrap_or(at));
    let groups = SYNONYMS.iter().filter(|group| group.contains(&word.as_str()));
    let meant: Vec<String> = groups
        .flat_map(|group| group.iter())
        .filter(|name| parent.find_subcommand(name).is_some())
        .take(1)
        .map(|name| (*name).to_owned())
        .collect();
    if !meant.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(meant));
    }
    error
}
