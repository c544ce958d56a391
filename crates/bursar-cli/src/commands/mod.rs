//! One module per command: its arguments, the requests it makes, and its output. `crate::cli` lists and runs them; a
//! command imports shared code from the modules next to this folder, never from another command.

pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod blob;
pub(crate) mod budget;
pub(crate) mod command;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod credential;
pub(crate) mod dead;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod grant;
pub(crate) mod hold;
pub(crate) mod job;
pub(crate) mod journal;
pub(crate) mod maintenance;
pub(crate) mod meter;
pub(crate) mod migrate;
pub(crate) mod moving;
pub(crate) mod namespace;
pub(crate) mod openapi;
pub(crate) mod queue;
pub(crate) mod schedule;
pub(crate) mod serve;
pub(crate) mod top;
