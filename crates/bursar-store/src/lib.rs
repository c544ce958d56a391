//! Where Bursar keeps its tables: SQLite, PostgreSQL and an in-memory model, behind one trait.
//!
//! A store loads and locks the rows that requests need, lets `bursar-core` decide, writes what changed, and returns when that is
//! durable. No rule lives here: the three engines differ only in how they find and write rows.
//!
//! - [`store`]: the interface of an engine: what commits, reads, maintains and notifies.
//! - [`transaction`]: load, decide, store; the same for all engines. An engine outside of this crate, such as a simulated one, implements
//!   [`transaction::Rows`] and uses the same code.
//! - [`sqlite`], [`postgres`], [`memory`]: the engines.
//! - [`past`]: how one row was at an earlier moment.
//! - [`moving`]: moving a database to another place or engine.
//! - [`segment`]: the format of the archived journal.
//! - [`wakeup`]: notifications between processes.
//! - `conformance`: the tests that every engine must pass.

pub mod claims;
pub mod clock;
mod codec;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod error;
pub mod figures;
mod job_list;
mod job_row;
pub mod memory;
pub mod moving;
#[cfg(test)]
mod only_adds;
pub mod past;
pub mod postgres;
pub mod segment;
pub mod sqlite;
pub mod store;
pub mod transaction;
pub mod verify;
pub mod wakeup;

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::StoreError;
pub use figures::{
    BlobFilter, Cost, CostMark, DeadGroup, DeadGroupMark, DueJobs, Figures, HeldMark, HeldSum, JobFilter,
};
pub use memory::MemoryStore;
pub use moving::{MoveOptions, MovePlace, MoveProgress, MoveReport, MoveStep, MoveSummary, TableSummary, UnitSums};
pub use past::{Moment, Past, Wanted};
pub use postgres::{PostgresOptions, PostgresStore};
pub use segment::{ArchivedRow, Chain, Segment, SegmentError};
pub use sqlite::{Copied, CopyOptions, CopyProgress, SqliteStore};
pub use store::{
    Archive, ArchivedRows, ArchivedSender, Commit, Detached, Forgotten, Health, Journaled, Lock, LockPolicy, Maintain,
    Notify, Overdue, Read, RequestOutcome, RowSecurity, Setup, Store, without_payloads,
};
pub use verify::Report;

/// The methods of a store, for callers that name its type.
pub mod prelude {
    pub use crate::store::{Archive as _, Commit as _, Maintain as _, Notify as _, Read as _};
}

/// The SQL that prepares a database of the kind `url` names, for tools that run migrations themselves.
pub fn migration_sql(url: &str) -> String {
    if url.starts_with("postgres") { postgres::migration_sql() } else { sqlite::schema::migration_sql() }
}
