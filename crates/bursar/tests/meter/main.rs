//! The meter in front of real services, on both databases.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod app;
mod callers;
mod failures;
mod fuzz;
mod phases;
mod quota;
mod signed;
mod slices;
