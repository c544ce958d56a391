//! Tests of the stores beyond the rules: closures, maintenance, verification, files, backups.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod ask;
mod backup;
mod closure;
mod damage;
mod dead_groups;
mod files;
mod log;
mod second_thread;
mod set_back;
mod upkeep;
mod verify;
