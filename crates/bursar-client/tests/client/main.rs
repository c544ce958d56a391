//! The client: how it tries again, and everything it can ask of a real server.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod events;
mod faces;
mod home;
mod retries;
mod script;
