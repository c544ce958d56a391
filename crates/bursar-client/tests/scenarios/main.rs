//! What can happen to a worker, told once, and run against the worker in the process and the worker over HTTP, on both engines.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod ends;
mod leases;
mod payloads;
mod restart;
mod world;
