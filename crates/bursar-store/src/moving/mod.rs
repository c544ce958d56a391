//! Moving a database to another place, which may be another engine: `bursar move`.
//!
//! A move copies the rows of all tables, not only the journal. A rebuild from the journal would lose what events do not record: how long
//! heartbeats have extended a lease, and what retention has deleted. It would also apply a million commands one by one.
//!
//! The one mechanism is a pass (`pass.rs`): it reads a table on both sides in the order of its key and writes what differs to the target.
//! Passes are repeated, so an interrupted move goes on by running it again. The first pass of a run
//! reads the whole journal, further ones only the rows that the target lacks. Older rows change only if payloads are erased; if that happened
//! during the run, the last pass reads the whole journal again.
//!
//! Without `follow` nothing may write to the source: the move refuses a source that other processes have open, and keeps it locked. With
//! `follow` the source stays in use:
//!
//! 1. Passes copy while the source is written. Each has less to write than the one before.
//! 2. The switch: one transaction on the source waits for the writers and creates triggers that refuse every write, from any process
//!    and any build. It fixes the last position of the journal. A write is before it, and moved, or refused. Requests do not pay for a
//!    check.
//! 3. The last pass. Both sides are verified and compared. Then the target may be opened.
//!
//! If step 3 fails, the triggers are dropped again. A process that is killed in step 3 leaves the source read-only; running the move again
//! ends it, and [`abandon`] takes it back.
//!
//! | module | what it does |
//! | --- | --- |
//! | `tables` | the tables and columns, and rows that both engines share |
//! | `pass` | makes a table of the target equal to that of the source |
//! | `links` | replaces ids of journal rows by positions, for SQLite |
//! | `summary` | digests, counts and sums of both sides |
//! | `marks` | the rows that keep an incomplete or moved database from being used |
//! | `sqlite::moving`, `postgres::moving` | reading, writing and locking on each engine |

pub(crate) mod links;
pub(crate) mod marks;
pub(crate) mod pass;
mod run;
mod summary;
pub(crate) mod tables;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::marks::{Marks, Moved, MovedFrom, Moving, Switch};
use self::pass::{Changes, RowStream};
pub use self::run::{abandon, relocate};
pub use self::summary::{MoveSummary, TableSummary, UnitSums};
use self::tables::{Row, Table};
use crate::error::StoreError;
use crate::postgres::moving::PostgresSide;
use crate::sqlite::moving::SqliteSide;
use crate::store::Setup;
use crate::verify::Report;

/// The options of a move.
#[derive(Clone)]
pub struct MoveOptions {
    /// Whether the source stays in use until the switch.
    pub follow: bool,
    /// The settings with which both databases are opened.
    pub setup: Setup,
    /// Called after each step.
    pub progress: MoveProgress,
}

/// A callback that gets each step of a move.
pub type MoveProgress = Arc<dyn Fn(&MoveStep) + Send + Sync>;

/// A step of a move that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveStep {
    /// The target is marked as incomplete.
    Claimed,
    /// Rows of a table were read and, where they differ, written.
    Copying {
        /// The table.
        table: &'static str,
        /// The rows read in this pass.
        rows: u64,
    },
    /// A table has been passed.
    Copied {
        /// The table.
        table: &'static str,
        /// Its rows in the source; of the journal, the new ones.
        rows: u64,
        /// The rows that differed.
        changed: u64,
    },
    /// All tables have been passed.
    Passed {
        /// The number of the pass, from 1.
        pass: u32,
        /// The rows that differed.
        changed: u64,
    },
    /// The source is read-only.
    Switched {
        /// The last position of its journal.
        position: u64,
    },
    /// The move failed after the switch, and the source is still read-only. Running it again, or [`abandon`], resolves that.
    LeftSwitched,
    /// Both sides were read again and compared.
    Compared,
    /// Both sides were verified.
    Verified,
    /// The target may be used.
    Opened,
}

/// The result of a move.
#[derive(Clone, Debug)]
pub struct MoveReport {
    /// The place of the source, without secrets.
    pub from: String,
    /// The place of the target, without secrets.
    pub to: String,
    /// Whether the target may be used. False if the sides differ; then the source may still be used.
    pub complete: bool,
    /// Whether an earlier run had ended the move, so that this one only compared.
    pub ended_before: bool,
    /// The rows that this run wrote or deleted.
    pub changed: u64,
    /// The passes of this run.
    pub passes: u32,
    /// Whether the source is read-only now.
    pub switched: bool,
    /// How long this run had kept the source read-only when the target could be used; `None` without a switch.
    pub pause: Option<Duration>,
    /// What both sides contain.
    pub summaries: (MoveSummary, MoveSummary),
    /// How the sides differ, as sentences.
    pub differences: Vec<String>,
    /// The verification of both sides.
    pub reports: (Report, Report),
}

/// The end of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EndOfJournal {
    /// The position of the first event of the last row; 0 without rows.
    pub(crate) last_row: i64,
    /// The position of the next event.
    pub(crate) next: i64,
}

impl EndOfJournal {
    pub(crate) fn position(self) -> u64 {
        self.next.saturating_sub(1).unsigned_abs()
    }
}

/// A database in a move.
#[async_trait]
pub(crate) trait Side: Send + Sync {
    /// Where it is, without secrets, as in a URL.
    fn place(&self) -> String;
    /// Reads its marks. All are missing from a database without tables.
    async fn marks(&self) -> Result<Marks, StoreError>;
    /// Creates or upgrades the tables of a database without marks of a move.
    async fn migrate(&self) -> Result<(), StoreError>;
    /// Returns whether any table has a row.
    async fn has_rows(&self) -> Result<bool, StoreError>;
    /// Returns whether rows of the journal are in segments of an archive.
    async fn is_archived(&self) -> Result<bool, StoreError>;
    /// Returns the end of the journal, after positions were assigned.
    async fn end_of_journal(&self) -> Result<EndOfJournal, StoreError>;
    /// Reads a table in the order of its key, of the journal the rows after the position of a row.
    fn read(&self, table: &'static Table, after: i64) -> RowStream;

    /// Marks a database as an incomplete target. Fails if it has rows and is none yet.
    async fn claim(&self, moving: &Moving) -> Result<(), StoreError>;
    /// Changes rows of the target. Fails if another run has claimed it.
    async fn write(&self, run: &str, table: &'static Table, changes: Changes) -> Result<(), StoreError>;
    /// Allows the target to be used. Fails if another run has claimed it.
    async fn open(&self, run: &str, from: &MovedFrom) -> Result<(), StoreError>;

    /// Fails if other processes may write. Keeps writers out until the guard ends.
    async fn lock(&self) -> Result<Box<dyn SourceLock>, StoreError>;
    /// Waits for running writers and makes the database read-only, because `to` is used in place of it. Changes nothing and returns `None` if
    /// the journal does not end where it must.
    async fn switch(&self, to: &str, why: Switch) -> Result<Option<Moved>, StoreError>;
    /// Makes the database writable again.
    async fn switch_back(&self) -> Result<(), StoreError>;

    /// Gathers statistics after many rows were written, without which the queries of a verification can be slow.
    async fn analyze(&self) -> Result<(), StoreError>;
    async fn verify(&self) -> Result<Report, StoreError>;
    async fn close(&self);
}

/// Keeps writers out of a source.
#[async_trait]
pub(crate) trait SourceLock: Send {
    /// Fails if writers were not kept out all the time.
    async fn release(self: Box<Self>) -> Result<(), StoreError>;
}

/// A database of a move: its engine and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MovePlace {
    /// The path of a SQLite file.
    Sqlite(std::path::PathBuf),
    /// The URL of a PostgreSQL database. It must lead to the server, not to a pooler.
    Postgres(String),
}

impl MovePlace {
    /// Opens both sides of a move, without using the tables.
    async fn open_both(
        from: &MovePlace,
        to: &MovePlace,
        setup: &Setup,
    ) -> Result<(Box<dyn Side>, Box<dyn Side>), StoreError> {
        let positions = matches!(to, MovePlace::Sqlite(_));
        let source = from.open(setup, positions).await?;
        match to.open(setup, false).await {
            Ok(target) => Ok((source, target)),
            Err(error) => {
                source.close().await;
                Err(error)
            }
        }
    }

    async fn open(&self, setup: &Setup, positions: bool) -> Result<Box<dyn Side>, StoreError> {
        Ok(match self {
            MovePlace::Sqlite(path) => Box::new(SqliteSide::new(path, setup.clone())),
            MovePlace::Postgres(url) => Box::new(PostgresSide::connect(url, setup.clone(), positions).await?),
        })
    }
}

/// An error that only another command or another state of a database resolves.
pub(crate) fn refused(what: impl Into<String>, hint: &'static str) -> StoreError {
    StoreError::Unavailable { what: what.into(), hint, permanent: true, source: None }
}

/// Fails unless a run has the target.
pub(crate) fn check_run(marks: &Marks, run: &str) -> Result<(), StoreError> {
    match &marks.moving {
        Some(moving) if moving.run == run => Ok(()),
        _ => Err(refused(
            "another `bursar move` has taken over the target",
            "this one stops and has not changed the target since; wait for the other one",
        )),
    }
}

/// Returns a journal row of a table, by its position.
async fn journal_row(side: &dyn Side, position: i64) -> Result<Option<Row>, StoreError> {
    let mut rows = pass::Cursor::new(side.read(tables::JOURNAL, position - 1));
    Ok(rows.next().await?.filter(|row| row[0].int() == Some(position)))
}
