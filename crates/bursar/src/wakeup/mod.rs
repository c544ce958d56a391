//! Wake-ups: how waiting workers and waiting jobs learn that they can continue.
//!
//! ```text
//!  commit ──▶ Feed ──▶ LeaseWaiters     wakes workers of this process that wait for the queue
//!                  │    └─▶ NotificationSender ──▶ other processes (PostgreSQL: NOTIFY)
//!                  ├─▶ BudgetWaiters    resumes jobs that wait for units of a scope
//!                  └─▶ listeners of `Bursar::listen`
//!  other processes ──▶ NotificationListener ──▶ LeaseWaiters
//!                      (PostgreSQL: LISTEN; SQLite on Linux: a watch on the write-ahead log)
//! ```
//!
//! Notifications are hints that may get lost. So while workers wait, the `Watcher` also polls the change counter of the store: every few
//! milliseconds if this process cannot listen, once a second if it can. Jobs that become due need no notification: the watcher sets a
//! timer for the next one.

pub(crate) mod budget_waiters;
pub(crate) mod feed;
pub(crate) mod lease_waiters;
mod listener;
mod sender;
pub(crate) mod watcher;

pub(crate) use self::budget_waiters::BudgetWaiters;
pub(crate) use self::feed::Feed;
pub use self::feed::{Missed, Notice, Notices, ProgressNotices, Progressed};
pub(crate) use self::lease_waiters::LeaseWaiters;
