//! The interface of every store, in five traits: [`Commit`] executes requests, [`Read`] answers queries, [`Maintain`] maintains the
//! tables, [`Archive`] moves old rows of the journal out of them, and [`Notify`] tells other processes that something was committed.

mod archive;
mod commit;
mod maintain;
mod notify;
mod read;

use std::sync::{Arc, Mutex};

use bursar_core::decide::Rules;
use bursar_core::event::Batch;
use bursar_core::id::IdSource;
use bursar_core::page::PageItem;

pub use self::archive::{Archive, ArchivedRows, ArchivedSender, Detached, without_payloads};
pub(crate) use self::archive::{CANDIDATES_MAX, Positions, follows, keys_of, prunable};
pub use self::commit::{Commit, LockPolicy, RequestOutcome};
pub use self::maintain::{Forgotten, Health, Maintain, Overdue, RowSecurity};
pub use self::notify::Notify;
pub use self::read::{QUEUES_COUNTED, Read};
use crate::clock::Clock;
pub use crate::transaction::lock_order::Lock;

/// A store: a database with Bursar's tables.
pub trait Store: Commit + Read + Maintain + Archive + Notify {}

impl<S: Commit + Read + Maintain + Archive + Notify> Store for S {}

/// The settings with which a store is opened.
#[derive(Clone)]
pub struct Setup {
    /// The settings that decisions depend on.
    pub rules: Rules,
    /// The clock. By default PostgreSQL uses the clock of the database server, and SQLite that of the system.
    pub clock: Option<Arc<dyn Clock>>,
    /// The source of new ids.
    pub ids: Arc<Mutex<dyn IdSource + Send>>,
    /// Whether to create or upgrade the tables when opening.
    pub migrate: bool,
}

/// A row of the journal with its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Journaled {
    /// The position of its first event. The other events follow without gaps.
    pub position: u64,
    /// The batch that the row records.
    pub batch: Batch,
}

impl PageItem for Journaled {
    fn bytes(&self) -> usize {
        self.batch.bytes()
    }
}
