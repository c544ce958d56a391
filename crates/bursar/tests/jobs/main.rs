//! Jobs: the faces, the wake-up, the upkeep and the worker, on every engine.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod acts;
mod faces;
mod home;
mod processes;
mod rows;
mod schedules;
mod upkeep;
mod wake;
mod worker;
