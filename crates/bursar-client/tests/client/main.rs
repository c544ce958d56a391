//! Tests of the client: retries against a scripted transport, and every call against a real server.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod api;
mod events;
mod retries;
mod script;
mod test_server;
