//! Wake-ups: how a waiting worker learns that a job is ready.
//!
//! ```text
//!  commit ──▶ Feed ──▶ LeaseWaiters     wakes workers of this process that wait for the queue
//!                  ├─▶ NotificationSender ──▶ other processes (PostgreSQL: NOTIFY)
//!                  ├─▶ BudgetWaiters    resumes jobs that wait for units of a scope
//!                  └─▶ listeners of `Bursar::listen`
//!  other processes ──▶ NotificationListener ──▶ LeaseWaiters
//!                      (PostgreSQL: LISTEN; SQLite on Linux: a watch on the write-ahead log)
//! ```
//!
//! Notifications are hints that may get lost. So while a worker waits, `LeaseWaiters` also polls the change counter of the store: every
//! few milliseconds where no notifications arrive, once a second where they do. Due jobs need no notification: the waiting process sets a
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
