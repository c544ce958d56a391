//! Tests of the stores beyond the rules: closures, maintenance, verification, files, backups.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod ahead;
mod ask;
mod backup;
mod closure;
mod damage;
mod files;
mod log;
mod set_back;
mod upkeep;
mod verify;
