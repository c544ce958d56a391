//! The steps of a move, and of taking it back.

use std::sync::PoisonError;

use bursar_core::event::Entry;
use bursar_core::id::CommandId;
use tokio::time::Instant;

use super::marks::{Marks, MovedFrom, Moving, Switch};
use super::pass::{Changes, Passed, pass};
use super::summary::{JournalDigest, summarize};
use super::tables::{JOURNAL, Row, TABLES, Table, Value};
use super::{MoveOptions, MovePlace, MoveProgress, MoveReport, MoveStep, Side, SourceLock, journal_row, refused};
use crate::clock::SystemClock;
use crate::codec::from_json;
use crate::error::StoreError;
use crate::store::Setup;
use crate::{Clock as _, postgres, sqlite};

/// The most passes before the switch.
const PASSES_MAX: u32 = 8;
/// A pass that changes fewer rows is followed by the switch.
const FEW_ROWS: u64 = 1_000;

/// Moves a database. Running it again after an interruption goes on. See the module for what is guaranteed.
pub async fn relocate(from: &MovePlace, to: &MovePlace, options: MoveOptions) -> Result<MoveReport, StoreError> {
    let (source, target) = MovePlace::open_both(from, to, &options.setup).await?;
    let report = Run::begin(&*source, &*target, &options).await;
    source.close().await;
    target.close().await;
    report
}

/// Takes back a move whose target cannot be used: the source may be written again. A target that is given is made read-only before, and
/// must have had no event since the move. Returns the last position of the journal.
pub async fn abandon(from: &MovePlace, to: Option<&MovePlace>, options: &MoveOptions) -> Result<u64, StoreError> {
    let Some(to) = to else {
        let source = from.open(&options.setup, false).await?;
        let done = take_back(&*source, None).await;
        source.close().await;
        return done;
    };
    let (source, target) = MovePlace::open_both(from, to, &options.setup).await?;
    let done = take_back(&*source, Some(&*target)).await;
    source.close().await;
    target.close().await;
    done
}

async fn take_back(source: &dyn Side, target: Option<&dyn Side>) -> Result<u64, StoreError> {
    let Some(moved) = source.marks().await?.moved else {
        return Err(refused(
            format!("{} was not moved, or the move was abandoned already", source.place()),
            "nothing was changed; it can be used",
        ));
    };
    let position = moved.position.unsigned_abs();
    if let Some(target) = target {
        if target.place() != moved.to {
            return Err(refused(
                format!("{} was moved to {}, not to {}", source.place(), moved.to, target.place()),
                "nothing was changed; correct --to",
            ));
        }
        let marks = target.marks().await?;
        // Nothing can have been written to a target that was never opened, or is read-only already.
        if marks.moved_from.is_some() && marks.moved.is_none() {
            let switched = target.switch(&source.place(), Switch::Abandoned(position)).await?;
            if switched.is_none() {
                return Err(refused(
                    format!("{} was written after the move", target.place()),
                    "nothing was changed; keep using it, or move it back with `bursar move --follow` to an empty database",
                ));
            }
        }
    }
    source.switch_back().await?;
    Ok(position)
}

/// A run of `bursar move`.
struct Run<'a> {
    source: &'a dyn Side,
    target: &'a dyn Side,
    progress: &'a MoveProgress,
    /// The id with which this run claims the target.
    id: String,
    /// Whether the next pass reads the whole journal, and not only rows that the target lacks.
    whole_journal: bool,
    changed: u64,
    passes: u32,
}

/// Where a move begins.
#[derive(Clone, Copy)]
enum Beginning {
    /// At an empty target, or one that an earlier run has claimed.
    Copy,
    /// After the switch of an earlier run.
    CopyRest,
    /// It has ended already.
    Ended,
}

impl Run<'_> {
    async fn begin(source: &dyn Side, target: &dyn Side, options: &MoveOptions) -> Result<MoveReport, StoreError> {
        let id = new_id(&options.setup);
        let mut run =
            Run { source, target, progress: &options.progress, id, whole_journal: true, changed: 0, passes: 0 };
        let beginning = run.check().await?;
        if let Beginning::Ended = beginning {
            return run.compare(JournalDigests::default(), true).await;
        }
        let lock = match beginning {
            Beginning::Copy if !options.follow => Some(source.lock().await?),
            _ => None,
        };
        run.claim().await?;
        match (beginning, lock) {
            (Beginning::CopyRest, _) => run.finish(JournalDigests::default(), None).await,
            (_, Some(lock)) => run.copy(lock).await,
            (_, None) => run.follow().await,
        }
    }

    /// Checks both sides. Changes neither.
    async fn check(&self) -> Result<Beginning, StoreError> {
        let (from, to) = (self.source.place(), self.target.place());
        if from == to {
            return Err(refused(
                format!("{from} is both the source and the target"),
                "nothing was changed; correct --to",
            ));
        }
        let source = self.source.marks().await?;
        let switched = source.moved.as_ref().is_some_and(|moved| moved.to == to);
        if !switched {
            source.check()?;
        }
        check_version(self.source, &source)?;
        if self.source.is_archived().await? {
            // The rows in segments link to each other by ids, which differ between the engines.
            return Err(refused(
                "a part of the journal of the source is in an archive, which cannot be moved",
                "nothing was changed; run `bursar journal unarchive` on the source first",
            ));
        }
        let target = self.target.marks().await?;
        if target.moved.is_some() {
            target.check()?;
        }
        if let Some(before) = &target.moved_from {
            let end = |position: u64| i64::try_from(position).unwrap_or(i64::MAX) == before.position;
            let (left, right) = (self.source.end_of_journal().await?, self.target.end_of_journal().await?);
            if before.from == from && end(left.position()) && end(right.position()) {
                return Ok(Beginning::Ended);
            }
        }
        if target.moving.is_some() {
            self.check_prefix().await?;
        } else if target.schema.is_some() && self.target.has_rows().await? {
            return Err(refused(
                format!("the target {to} is not empty"),
                "nothing was changed; name a database that has no rows of Bursar",
            ));
        }
        Ok(if switched { Beginning::CopyRest } else { Beginning::Copy })
    }

    /// Fails if the journal of the target is not the beginning of that of the source.
    async fn check_prefix(&self) -> Result<(), StoreError> {
        let last = self.target.end_of_journal().await?.last_row;
        let (source, target) = (journal_row(self.source, last).await?, journal_row(self.target, last).await?);
        let commands = |row: Option<Row>| row.map_or(Ok(Vec::new()), |row| commands_of(&row));
        if last == 0 || commands(source)? == commands(target)? {
            return Ok(());
        }
        Err(refused(
            format!("the target {} is that of the move of another source", self.target.place()),
            "nothing was changed; name that source with --from, or an empty database with --to",
        ))
    }

    /// Creates the tables of an empty target, and claims the target for this run.
    async fn claim(&self) -> Result<(), StoreError> {
        if self.target.marks().await?.moving.is_none() {
            self.target.migrate().await?;
        }
        let schema = known_version(self.target);
        self.target.claim(&Moving { from: self.source.place(), run: self.id.clone(), schema }).await?;
        self.note(&MoveStep::Claimed);
        Ok(())
    }

    /// Copies a source that nothing writes to.
    async fn copy(&mut self, lock: Box<dyn SourceLock>) -> Result<MoveReport, StoreError> {
        self.pass().await?;
        let report = self.compare(JournalDigests::default(), false).await?;
        lock.release().await?;
        self.open(report).await
    }

    /// Copies a source in use, switches and ends the move.
    async fn follow(&mut self) -> Result<MoveReport, StoreError> {
        let erasures = self.source.marks().await?.erasures;
        let (mut journals, mut before) = (JournalDigests::default(), u64::MAX);
        while self.passes < PASSES_MAX {
            let changed = self.pass().await?;
            journals.advance(self).await?;
            // A pass takes at least as long as reading all rows. More passes do not help once they stop getting shorter.
            if changed < FEW_ROWS || changed > before / 2 {
                break;
            }
            before = changed;
        }
        let began = Instant::now();
        let moved = self.source.switch(&self.target.place(), Switch::Moved).await?;
        let position = moved.map_or(0, |moved| moved.position.unsigned_abs());
        self.note(&MoveStep::Switched { position });
        if self.source.marks().await?.erasures != erasures {
            // Rows that were read before may have changed since.
            (journals, self.whole_journal) = (JournalDigests::default(), true);
        }
        self.finish(journals, Some(began)).await
    }

    /// Copies the rest of a source that was switched, and opens the target. If that fails, the source may be written again.
    async fn finish(&mut self, journals: JournalDigests, began: Option<Instant>) -> Result<MoveReport, StoreError> {
        let rest = async {
            self.pass().await?;
            self.compare(journals, false).await
        };
        let report = match rest.await {
            Ok(report) if report.differences.is_empty() && sound(&report) => report,
            failed => {
                // Another run may have opened the target meanwhile.
                let marks = self.target.marks().await;
                let mine = marks.map(|marks| marks.moving.is_some_and(|moving| moving.run == self.id));
                if let Ok(true) = mine {
                    self.source.switch_back().await?;
                    return Ok(MoveReport { switched: false, ..failed? });
                }
                self.note(&MoveStep::LeftSwitched);
                return failed;
            }
        };
        let opened = self.open(report).await;
        if opened.is_err() {
            // The target may be open: the answer to the last commit may be lost.
            self.note(&MoveStep::LeftSwitched);
        }
        Ok(MoveReport { pause: began.map(|began| began.elapsed()), ..opened? })
    }

    /// Makes all tables of the target equal to those of the source, and returns how many rows differed.
    async fn pass(&mut self) -> Result<u64, StoreError> {
        let mut changed = 0;
        for table in TABLES {
            let Passed { rows, changed: some } = self.pass_table(table).await?;
            self.note(&MoveStep::Copied { table: table.name, rows, changed: some });
            changed += some;
        }
        self.whole_journal = false;
        self.passes += 1;
        self.changed += changed;
        self.note(&MoveStep::Passed { pass: self.passes, changed });
        Ok(changed)
    }

    async fn pass_table(&self, table: &'static Table) -> Result<Passed, StoreError> {
        let mut after = 0;
        if table.is_journal() {
            // Positions are assigned before the rows are read.
            self.source.end_of_journal().await?;
            if !self.whole_journal {
                after = self.target.end_of_journal().await?.last_row;
            }
        }
        let (source, target) = (self.source.read(table, after), self.target.read(table, after));
        let write = |changes: Changes| self.target.write(&self.id, table, changes);
        pass(table, source, target, write, |rows| self.note(&MoveStep::Copying { table: table.name, rows })).await
    }

    /// Reads both sides again, compares and verifies them.
    async fn compare(&self, journals: JournalDigests, ended_before: bool) -> Result<MoveReport, StoreError> {
        let JournalDigests { source, target } = journals;
        let summaries = tokio::try_join!(summarize(self.source, source), summarize(self.target, target))?;
        let differences = summaries.0.differences(&summaries.1);
        self.note(&MoveStep::Compared);
        self.target.analyze().await?;
        let reports = tokio::try_join!(self.source.verify(), self.target.verify())?;
        self.note(&MoveStep::Verified);
        Ok(MoveReport {
            from: self.source.place(),
            to: self.target.place(),
            complete: ended_before,
            ended_before,
            changed: self.changed,
            passes: self.passes,
            switched: self.source.marks().await?.moved.is_some(),
            pause: None,
            summaries,
            differences,
            reports,
        })
    }

    /// Allows the target to be used, if both sides are equal and sound.
    async fn open(&self, report: MoveReport) -> Result<MoveReport, StoreError> {
        if !report.differences.is_empty() || !sound(&report) {
            return Ok(report);
        }
        let position = i64::try_from(report.summaries.0.position).unwrap_or(i64::MAX);
        self.target.open(&self.id, &MovedFrom { from: self.source.place(), position }).await?;
        self.note(&MoveStep::Opened);
        Ok(MoveReport { complete: true, ..report })
    }

    fn note(&self, step: &MoveStep) {
        (self.progress)(step);
    }
}

/// The digests of the journals of both sides so far.
#[derive(Default)]
struct JournalDigests {
    source: JournalDigest,
    target: JournalDigest,
}

impl JournalDigests {
    /// Reads what both sides have. The source may have rows that the target lacks: they are read later, before the digests are compared.
    async fn advance(&mut self, run: &Run<'_>) -> Result<(), StoreError> {
        tokio::try_join!(self.source.advance(run.source), self.target.advance(run.target)).map(drop)
    }
}

/// Returns the commands of a row of the journal. They stay if payloads are erased.
fn commands_of(row: &Row) -> Result<Vec<CommandId>, StoreError> {
    let Some(Value::Text(entries)) = JOURNAL.column("entries").map(|column| &row[column]) else {
        return Ok(Vec::new());
    };
    let entries: Vec<Entry> = from_json("journal row", entries)?;
    Ok(entries.into_iter().map(|entry| entry.id).collect())
}

fn sound(report: &MoveReport) -> bool {
    report.reports.0.is_ok() && report.reports.1.is_ok()
}

fn new_id(setup: &Setup) -> String {
    let mut ids = setup.ids.lock().unwrap_or_else(PoisonError::into_inner);
    format!("{:032x}", ids.next_id(SystemClock.now()))
}

/// Fails unless the tables of the source have the version of this build.
fn check_version(source: &dyn Side, marks: &Marks) -> Result<(), StoreError> {
    let known = known_version(source);
    match marks.schema {
        Some(found) if found > known => Err(StoreError::NewerSchema { found, known }),
        Some(found) if found == known => Ok(()),
        Some(found) => Err(StoreError::NotMigrated { found, needed: known }),
        None => Err(refused(
            format!("the source {} has no tables of Bursar", source.place()),
            "nothing was changed; correct --from, or exchange --from and --to",
        )),
    }
}

/// Returns the schema version of this build.
fn known_version(side: &dyn Side) -> i64 {
    if side.place().starts_with("postgres") { postgres::SCHEMA_VERSION } else { sqlite::schema::KNOWN }
}
