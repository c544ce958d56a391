//! The rules of Bursar: what may be spent, held, granted and started, and what follows from it.
//!
//! Everything here is plain data and pure functions. A request is decided against rows that were loaded before,
//! and comes to events; applying the events changes the rows; the answer is rendered from the events.
//!
//! ```text
//! Request ─▶ Needs ─▶ Workspace (loaded rows) ─▶ decide ─▶ Events ─▶ apply ─▶ Workspace (changed rows)
//!                                                            └─▶ Answer
//! ```
//!
//! This crate knows nothing of SQL, of clocks, of randomness or of threads.

pub mod answer;
mod apply;
pub mod bounds;
mod bucket;
pub mod budget;
pub mod context;
pub mod credential;
pub mod cron;
pub mod decide;
pub mod event;
pub mod failure;
pub mod grant;
pub mod hold;
pub mod id;
pub mod job;
pub mod live;
pub mod mutant;
pub mod name;
pub mod needs;
pub mod page;
pub mod payload;
pub mod refusal;
pub mod request;
pub mod scope;
pub mod state;
pub mod time;
pub mod trace;
pub mod wakes;
pub mod window;
