//! The rules of the kernel as stories: sequences of requests with their expected answers.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod admit;
mod blobs;
mod budget;
mod default;
mod flow;
mod grant;
mod hold;
mod idempotency;
mod jobs;
mod on_expiry;
mod rebuild;
mod render;
mod schedules;
mod settlement;
mod story;
mod submit;
mod windows;
mod work;
