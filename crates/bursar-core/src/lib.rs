//! The rules of Bursar: what may be spent, held, granted and run, and what follows from it.
//!
//! This crate is plain data and deterministic functions. A store loads the rows that a request needs. `decide` turns the
//! request into events, or refuses it. `apply` changes the rows by the events, and the answer is rendered from the events.
//!
//! ```text
//! Request ─▶ Needs ─▶ Workspace (loaded rows) ─▶ decide ─▶ Events ─▶ apply ─▶ Workspace (changed rows)
//!                                                            └─▶ Answer
//! ```
//!
//! The crate knows nothing about SQL, clocks, randomness or threads. The store passes in the instant of a batch and a
//! source of ids.
//!
//! # What is where
//!
//! The way of a request, in order:
//!
//! | module | contents |
//! | --- | --- |
//! | [`request`], [`context`] | operations, the checks that need no stored row, idempotency fingerprints |
//! | [`needs`] | the keys of the rows that a request needs |
//! | [`state`] | the workspace: the loaded rows of a batch, and their changes |
//! | [`decide`] | the rules, one module for each kind of operation |
//! | [`event`] | the events that a decision consists of, and the journal entry that records them |
//! | `apply` | the effect of each event on the rows |
//! | [`answer`], [`refusal`] | the result of a request, or why it was refused |
//! | [`wakes`] | which waiting workers and parked jobs a request makes ready |
//!
//! The things that rows describe:
//!
//! | module | contents |
//! | --- | --- |
//! | [`budget`], [`window`] | limits, and the period over which each counts |
//! | [`scope`], `bucket` | the balances of a scope, and how time changes them |
//! | [`hold`], [`live`] | holds, and their charges on a scope in order of expiry |
//! | [`slice`](mod@slice) | units of a quota that a node has held, to admit requests from memory |
//! | [`grant`], [`credential`] | single-use tokens, and tokens that authenticate callers over HTTP |
//! | [`job`], [`cron`] | jobs, queues, leases, flow control and schedules |
//! | [`blob`] | the metadata of stored bytes, and what refers to them |
//!
//! Vocabulary: [`id`], [`name`], [`time`], [`notation`], [`trace`], [`payload`], [`page`] and [`bounds`], which has every
//! bound on input and on the work of one transaction. [`notation`] is how people read and write durations, windows and
//! amounts. [`failure`] classifies failed requests. [`mutant`] has the faults that tests and the simulator switch on to
//! check that they are detected.

pub mod answer;
mod apply;
pub mod blob;
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
pub mod notation;
pub mod page;
pub mod payload;
pub mod refusal;
pub mod request;
pub mod scope;
pub mod slice;
pub mod state;
pub mod time;
pub mod trace;
pub mod wakes;
pub mod window;
