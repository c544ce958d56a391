//! Where Bursar keeps its tables: SQLite, PostgreSQL and an in-memory model, behind one trait.
//!
//! A store loads and locks what requests need, lets `bursar-core` decide, writes what changed, and answers when it is
//! durable. No rule lives here: the three engines differ in how rows are found and written, in nothing else. An engine
//! elsewhere, such as a simulated one, implements [`rows::Rows`] and runs the same [`work`] and the same [`attempt`]s,
//! [`swift`] ones among them.

pub mod attempt;
pub mod claims;
pub mod clock;
mod codec;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod error;
pub mod figures;
pub mod hint;
mod job_row;
pub mod memory;
pub mod postgres;
pub mod rows;
pub mod sqlite;
pub mod store;
pub mod swift;
pub mod turn;
pub mod verify;
pub mod work;

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::StoreError;
pub use figures::{Cost, CostMark, DueJobs, Figures, HeldMark, HeldSum, JobFilter};
pub use memory::MemoryStore;
pub use postgres::{PostgresOptions, PostgresStore};
pub use sqlite::{Copied, CopyOptions, CopyProgress, SqliteStore};
pub use store::{Health, Journaled, Lock, Patience, Setup, Store, Verdict};
pub use verify::Report;

/// The SQL that prepares a database of the kind `url` names, for tools that run migrations themselves.
pub fn migration_sql(url: &str) -> String {
    if url.starts_with("postgres") { postgres::migration_sql() } else { sqlite::schema::migration_sql() }
}
