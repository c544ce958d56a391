//! The API on both databases: each test runs on SQLite and on PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod archive;
mod context;
mod erasure;
mod grants;
mod growth;
mod held;
mod home;
mod journal;
mod ledger;
mod locks;
mod past;
mod reservations;
mod upkeep;
