//! Jobs: API, wake-up, maintenance and worker, on every database.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod acts;
mod api;
mod home;
mod processes;
mod rows;
mod schedules;
mod server_log;
mod upkeep;
mod wake;
mod worker;
