//! Scenarios of workers, run with a worker of the library and a worker over HTTP, on SQLite and on PostgreSQL.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod blobs;
mod ends;
mod leases;
mod payloads;
mod restart;
mod world;
