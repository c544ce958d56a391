//! The engine's limit: the rows that Bursar wrote, written again with the engine's fastest inserts.
//!
//! After a round the journal shows which transaction wrote which rows. The same rows, byte for byte where they still exist,
//! are written to a database with the same schema, in transactions of the same sizes, equally durable. Nothing is decided,
//! searched or answered. Reading the rows beforehand is not timed.

mod postgres;
mod sqlite;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar::{Charged, Event, HoldId, Rules};
use bursar_core::id::{BatchId, GrantId, JobId};
use bursar_core::live::RECENT_MAX;
use bursar_core::name::{Scope, Tenant};
use bursar_store::{Journaled, PostgresOptions, PostgresStore, Setup, SqliteStore, Store};

use crate::engine::{Database, DatabaseHost};
use crate::error::BenchError;
use crate::load::Round;
use crate::plan::{Bench, Measurement};
use crate::subject::{ScatteredIds, Subject};

/// The writer that repeats a subject's writes.
pub(crate) struct Limit {
    /// Reads the subject's database.
    reader: Arc<dyn Store>,
    writer: Writer,
    /// The position up to which the journal was read.
    after: u64,
    /// The charges of this round's open holds.
    live: HashMap<HoldId, Vec<Charge>>,
    /// The charges stored in scope rows.
    recent: HashMap<(String, String), Vec<Charge>>,
    /// The last sequence number of a posting.
    postings: i64,
}

enum Writer {
    Sqlite(Box<sqlite::Writer>),
    Postgres(postgres::Writer),
}

/// The rows of one transaction.
#[derive(Debug, Default)]
struct Transaction {
    journal: u128,
    scopes: BTreeSet<(String, String)>,
    placed: Vec<HoldId>,
    live: Vec<Charge>,
    settled: Vec<HoldId>,
    ended: Vec<Charge>,
    postings: Vec<(Charge, i64)>,
    redeemed: Vec<GrantId>,
    jobs: Vec<JobId>,
}

/// A charge of a hold.
#[derive(Clone, Debug)]
struct Charge {
    tenant: String,
    scope: String,
    expires_at: i64,
    hold: HoldId,
    placed_at: i64,
    amount: i64,
}

/// The seed of random ids, different from the subject's.
const COPY_SEED: u64 = 3;
/// Journal rows per page: a row has up to a thousand commands, whose memory must not be counted as Bursar's.
const PAGE: usize = 2;
/// The most operations and transactions kept in memory.
const OPERATIONS_MAX: usize = 5_000;
const TRANSACTIONS_MAX: usize = 2_000;
/// Scopes per page.
const SCOPES_PAGE: usize = 1_000;

impl Limit {
    /// Prepares a database with the same scopes and history.
    pub(crate) async fn open(
        home: &mut DatabaseHost,
        subject: &Subject,
        line: &Measurement,
    ) -> Result<Limit, BenchError> {
        let copy = Subject::open(home, line, COPY_SEED).await?.into_database().await;
        let ids = Arc::new(Mutex::new(ScatteredIds::new(1)));
        let setup = Setup { rules: Rules::default(), clock: None, ids, migrate: false };
        let url = subject.database.url();
        let (reader, writer): (Arc<dyn Store>, Writer) = match (&subject.database, copy) {
            (Database::Sqlite(from), Database::Sqlite(to)) => {
                let reader = SqliteStore::open(from.path(), setup).await?;
                (Arc::new(reader), Writer::Sqlite(Box::new(sqlite::Writer::new(from, to)?)))
            }
            (Database::Postgres(from), Database::Postgres(to)) => {
                let reader = PostgresStore::open(&url, setup, PostgresOptions::default()).await?;
                (Arc::new(reader), Writer::Postgres(postgres::Writer::new(from, to).await?))
            }
            _ => return Err(BenchError::Failed("both databases must be on one engine".into())),
        };
        Ok(Limit { reader, writer, after: 0, live: HashMap::new(), recent: HashMap::new(), postings: 0 })
    }

    /// Marks the start of the next round in the journal.
    pub(crate) async fn mark(&mut self) -> Result<(), BenchError> {
        self.after = self.reader.health().await?.position;
        let tenant = Tenant::built_in();
        let mut last: Option<Scope> = None;
        loop {
            let page = self.reader.list_scopes(&tenant, "", last.as_ref(), SCOPES_PAGE).await?;
            for (scope, row) in &page {
                let key = (tenant.as_str().to_owned(), scope.as_str().to_owned());
                let charges = row.recent.iter().map(|charge| Charge {
                    tenant: key.0.clone(),
                    scope: key.1.clone(),
                    expires_at: charge.expires_at.micros(),
                    hold: charge.hold,
                    placed_at: charge.placed_at.micros(),
                    amount: charge.amount,
                });
                let charges = charges.collect();
                self.recent.insert(key, charges);
            }
            let Some((scope, _)) = page.into_iter().next_back() else { return Ok(()) };
            last = Some(scope);
        }
    }

    /// Writes the rows of the round again.
    pub(crate) async fn round(&mut self, bench: Bench) -> Result<Round, BenchError> {
        self.copy_grants().await?;
        let (mut done, mut took) = (0, Duration::ZERO);
        loop {
            let transactions = self.next_transactions().await?;
            if transactions.is_empty() {
                // Free memory before the next round of Bursar.
                (self.live, self.recent) = (HashMap::new(), HashMap::new());
                return Ok(Round { done, took, p50_ms: 0.0, p99_ms: 0.0 });
            }
            done += transactions.iter().map(|transaction| transaction.operations(bench)).sum::<usize>();
            took += match &mut self.writer {
                Writer::Sqlite(writer) => tokio::task::block_in_place(|| writer.write(bench, &transactions))?,
                Writer::Postgres(writer) => writer.write(bench, &transactions).await?,
            };
        }
    }

    /// Copies all grants of the round before the first is redeemed, as Bursar had them.
    async fn copy_grants(&mut self) -> Result<(), BenchError> {
        let (mut after, mut grants) = (self.after, Vec::new());
        loop {
            let page = self.reader.list_journal(after, PAGE).await?;
            for row in &page {
                after = row.position + row.batch.count() as u64 - 1;
                let events = row.batch.entries.iter().flat_map(|entry| &entry.events);
                grants.extend(events.filter_map(|recorded| match &recorded.e {
                    Event::GrantRedeemed { grant, .. } => Some(*grant),
                    _ => None,
                }));
            }
            if page.is_empty() || grants.len() >= OPERATIONS_MAX {
                match &mut self.writer {
                    Writer::Sqlite(writer) => tokio::task::block_in_place(|| writer.copy_grants(&grants))?,
                    Writer::Postgres(writer) => writer.copy_grants(&grants).await?,
                }
                grants.clear();
            }
            if page.is_empty() {
                return Ok(());
            }
        }
    }

    async fn next_transactions(&mut self) -> Result<Vec<Transaction>, BenchError> {
        let (mut found, mut operations): (Vec<Transaction>, _) = (Vec::new(), 0);
        while operations < OPERATIONS_MAX && found.len() < TRANSACTIONS_MAX {
            let page = self.reader.list_journal(self.after, PAGE).await?;
            for row in &page {
                self.after = row.position + row.batch.count() as u64 - 1;
                operations += row.batch.entries.len();
                found.push(self.transaction(row)?);
            }
            if page.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    fn transaction(&mut self, row: &Journaled) -> Result<Transaction, BenchError> {
        let BatchId(journal) = row.batch.id;
        let mut wrote = Transaction { journal, ..Transaction::default() };
        for entry in &row.batch.entries {
            let tenant = entry.context.tenant.as_str();
            for event in entry.events.iter().map(|recorded| &recorded.e) {
                wrote.scopes.extend(event.scopes().iter().map(|scope| (tenant.to_owned(), scope.as_str().to_owned())));
                match event {
                    Event::HoldPlaced { hold, charges, expires_at, .. } => {
                        let live: Vec<Charge> = charges
                            .iter()
                            .map(|charge| Charge {
                                tenant: tenant.to_owned(),
                                scope: charge.scope.as_str().to_owned(),
                                expires_at: expires_at.micros(),
                                hold: *hold,
                                placed_at: row.batch.at.micros(),
                                amount: charge.amount,
                            })
                            .collect();
                        wrote.placed.push(*hold);
                        live.iter().for_each(|charge| self.add_live(&mut wrote, charge));
                        self.live.insert(*hold, live);
                    }
                    Event::HoldCommitted { hold, charges, .. } => self.settled(&mut wrote, *hold, charges)?,
                    Event::GrantRedeemed { grant, .. } => wrote.redeemed.push(*grant),
                    Event::JobEnqueued { job, .. } => wrote.jobs.push(*job),
                    other => return Err(BenchError::Failed(format!("unexpected event {}", other.kind()))),
                }
            }
        }
        Ok(wrote)
    }

    fn settled(&mut self, wrote: &mut Transaction, hold: HoldId, charges: &[Charged]) -> Result<(), BenchError> {
        let live = self.live.remove(&hold);
        let live = live.ok_or_else(|| BenchError::Failed(format!("{hold} was placed before the round")))?;
        for (charge, charged) in live.iter().zip(charges) {
            self.postings += 1;
            let amount = charged.actual.unwrap_or(charged.amount);
            wrote.postings.push((Charge { amount, ..charge.clone() }, self.postings));
        }
        wrote.settled.push(hold);
        live.into_iter().for_each(|charge| self.remove_live(&mut wrote.live, &mut wrote.ended, charge));
        Ok(())
    }

    /// Adds a charge to its scope's row; when that is full, its charges move to the table.
    fn add_live(&mut self, wrote: &mut Transaction, charge: &Charge) {
        let recent = self.recent.entry((charge.tenant.clone(), charge.scope.clone())).or_default();
        if recent.len() >= RECENT_MAX {
            wrote.live.append(recent);
        }
        recent.push(charge.clone());
    }

    fn remove_live(&mut self, live: &mut Vec<Charge>, ended: &mut Vec<Charge>, charge: Charge) {
        let recent = self.recent.entry((charge.tenant.clone(), charge.scope.clone())).or_default();
        for charges in [recent, live] {
            if let Some(found) =
                charges.iter().position(|known| known.hold == charge.hold && known.scope == charge.scope)
            {
                charges.remove(found);
                return;
            }
        }
        ended.push(charge);
    }

    pub(crate) async fn close(self) -> Result<Database, BenchError> {
        self.reader.close().await;
        match self.writer {
            Writer::Sqlite(writer) => Ok(Database::Sqlite(writer.close())),
            Writer::Postgres(writer) => writer.close().await.map(Database::Postgres),
        }
    }
}

impl Transaction {
    fn operations(&self, bench: Bench) -> usize {
        match bench {
            Bench::Command | Bench::Hold => self.placed.len(),
            Bench::Settle => self.settled.len(),
            _ => self.jobs.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rusqlite::types::Value;
    use sqlx::AssertSqlSafe;

    use super::*;
    use crate::plan::{Baseline, Keys};
    use crate::postgres::Server;
    use crate::sqlite::Folder;

    /// Returns the rows of a table as text, without the sequence numbers of postings.
    async fn rows(database: &Database, table: &str) -> BTreeSet<String> {
        let columns = if table == "postings" { "tenant, scope, at, amount, hold" } else { "*" };
        match database {
            Database::Sqlite(file) => {
                let conn = file.connect().unwrap();
                let mut select = conn.prepare(&format!("SELECT {columns} FROM bursar_{table}")).unwrap();
                let width = select.column_count();
                let found = select.query_map([], |row| (0..width).map(|column| row.get::<_, Value>(column)).collect());
                found.unwrap().map(|row: rusqlite::Result<Vec<Value>>| format!("{:?}", row.unwrap())).collect()
            }
            Database::Postgres(named) => {
                let mut conn = named.connect().await.unwrap();
                let select = format!("SELECT t::text FROM (SELECT {columns} FROM bursar.{table}) t");
                let found = sqlx::query_scalar::<_, String>(AssertSqlSafe(select)).fetch_all(&mut conn).await;
                found.unwrap().into_iter().collect()
            }
        }
    }

    async fn assert_same_rows(mut home: DatabaseHost, bench: Bench) {
        let line = Measurement {
            bench,
            work: None,
            callers: 4,
            scopes: if bench.is_on_jobs() { 0 } else { 3 },
            jobs: (bench == Bench::EnqueueBulk).then_some(2_500),
            child_process: false,
            history: 0,
            backlog: 0,
            keys: Keys::Time,
            snapshot: false,
            through: None,
            baseline: Baseline::BulkInsert,
        };
        let mut subject = Subject::open(&mut home, &line, 1).await.unwrap();
        let mut limit = Limit::open(&mut home, &subject, &line).await.unwrap();
        subject.prepare(Duration::from_millis(500)).await.unwrap();
        limit.mark().await.unwrap();
        let done = subject.round(Duration::from_millis(500)).await.unwrap().done;
        assert!(done > 0);
        assert_eq!(limit.round(bench).await.unwrap().done, done);
        let (copy, subject) = (limit.close().await.unwrap(), subject.close().await.unwrap());
        for table in ["scopes", "holds", "live_charges", "postings", "jobs", "keys", "job_keys", "payloads"] {
            let (written, expected) = (rows(&copy, table).await, rows(&subject, table).await);
            assert!(written == expected, "{table} of {bench:?}: {:?}", written.symmetric_difference(&expected).next());
        }
        let redeemed: BTreeSet<String> = rows(&copy, "grants").await;
        assert_eq!(redeemed.len(), if bench == Bench::Command { done } else { 0 });
        assert!(redeemed.is_subset(&rows(&subject, "grants").await));
        let different = rows(&copy, "journal").await.difference(&rows(&subject, "journal").await).count();
        assert!(different <= 3, "only the definitions of the three scopes may differ");
        home.remove(copy).await.unwrap();
        home.remove(subject).await.unwrap();
        home.close().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_rows_of_a_round_are_written_again_on_sqlite() {
        for bench in [Bench::Command, Bench::Hold, Bench::Settle, Bench::Enqueue, Bench::EnqueueBulk] {
            assert_same_rows(DatabaseHost::Sqlite(Folder::new(None).unwrap()), bench).await;
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_rows_of_a_round_are_written_again_on_postgres() {
        let url = bursar_testkit::fresh_database();
        for bench in [Bench::Command, Bench::Hold, Bench::Settle, Bench::Enqueue, Bench::EnqueueBulk] {
            assert_same_rows(DatabaseHost::Postgres(Server::at(&url)), bench).await;
        }
    }
}
