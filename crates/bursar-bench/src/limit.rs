//! The limit: the rows that Bursar wrote, written again by the engine's fastest insert.
//!
//! After a round the journal tells which transaction wrote what. The same rows, byte for byte where they are still
//! there, are written to a database of the same shape, in transactions of the same sizes, as durably. Nothing is decided,
//! looked up or answered. What is read beforehand is not timed.

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
use bursar_testkit::RandomIds;

use crate::engine::{Database, Home};
use crate::error::BenchError;
use crate::load::Round;
use crate::plan::{Bench, Measurement};
use crate::subject::Subject;

/// The limit beside a subject.
pub(crate) struct Limit {
    /// Reads what the subject wrote.
    reader: Arc<dyn Store>,
    writer: Writer,
    /// The position up to which the journal was read.
    after: u64,
    /// What holds of this round count on their scopes until they are settled.
    live: HashMap<HoldId, Vec<Charge>>,
    /// The charges that stand in the rows of their scopes.
    recent: HashMap<(String, String), Vec<Charge>>,
    /// Numbers of postings.
    postings: i64,
}

enum Writer {
    Sqlite(Box<sqlite::Writer>),
    Postgres(postgres::Writer),
}

/// What one transaction wrote.
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

/// What a hold counts on a scope.
#[derive(Clone, Debug)]
struct Charge {
    tenant: String,
    scope: String,
    expires_at: i64,
    hold: HoldId,
    placed_at: i64,
    amount: i64,
}

/// The seed of random ids, another than the subject's.
const TWIN: u64 = 3;
/// Rows of the journal read at once: a row holds up to a thousand commands, and what they take in memory should not be taken
/// for Bursar's.
const PAGE: usize = 2;
/// Operations, and transactions, that are kept in memory to be written again.
const OPERATIONS_MAX: usize = 5_000;
const TRANSACTIONS_MAX: usize = 2_000;
/// Scopes read at once.
const SCOPES_PAGE: usize = 1_000;

impl Limit {
    /// Prepares a database with the same scopes and the same past.
    pub(crate) async fn open(home: &mut Home, subject: &Subject, line: &Measurement) -> Result<Limit, BenchError> {
        let twin = Subject::open(home, line, TWIN).await?.leave().await;
        let ids = Arc::new(Mutex::new(RandomIds::new(1)));
        let setup = Setup { rules: Rules::default(), clock: None, ids, migrate: false };
        let url = subject.database.url();
        let (reader, writer): (Arc<dyn Store>, Writer) = match (&subject.database, twin) {
            (Database::Sqlite(from), Database::Sqlite(to)) => {
                let reader = SqliteStore::open(from.path(), setup).await?;
                (Arc::new(reader), Writer::Sqlite(Box::new(sqlite::Writer::new(from, to)?)))
            }
            (Database::Postgres(from), Database::Postgres(to)) => {
                let reader = PostgresStore::open(&url, setup, PostgresOptions::default()).await?;
                (Arc::new(reader), Writer::Postgres(postgres::Writer::new(from, to).await?))
            }
            _ => return Err(BenchError::Failed("both databases are on one engine".into())),
        };
        Ok(Limit { reader, writer, after: 0, live: HashMap::new(), recent: HashMap::new(), postings: 0 })
    }

    /// What follows in the journal is the next round's.
    pub(crate) async fn mark(&mut self) -> Result<(), BenchError> {
        self.after = self.reader.health().await?.position;
        let tenant = Tenant::built_in();
        let mut last: Option<Scope> = None;
        loop {
            let page = self.reader.scopes(&tenant, "", last.as_ref(), SCOPES_PAGE).await?;
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

    /// Writes the round again.
    pub(crate) async fn round(&mut self, bench: Bench) -> Result<Round, BenchError> {
        self.bring_grants().await?;
        let (mut done, mut took) = (0, Duration::ZERO);
        loop {
            let transactions = self.next_transactions().await?;
            if transactions.is_empty() {
                // The memory of the next round is Bursar's.
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

    /// Copies the grants of the round, all of them before the first is redeemed, as Bursar had them.
    async fn bring_grants(&mut self) -> Result<(), BenchError> {
        let (mut after, mut grants) = (self.after, Vec::new());
        loop {
            let page = self.reader.journal(after, PAGE).await?;
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
                    Writer::Sqlite(writer) => tokio::task::block_in_place(|| writer.bring(&grants))?,
                    Writer::Postgres(writer) => writer.bring(&grants).await?,
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
            let page = self.reader.journal(self.after, PAGE).await?;
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
                        live.iter().for_each(|charge| self.counts(&mut wrote, charge));
                        self.live.insert(*hold, live);
                    }
                    Event::HoldCommitted { hold, charges, .. } => self.settled(&mut wrote, *hold, charges)?,
                    Event::GrantRedeemed { grant, .. } => wrote.redeemed.push(*grant),
                    Event::JobEnqueued { job, .. } => wrote.jobs.push(*job),
                    other => return Err(BenchError::Failed(format!("no bench does {}", other.kind()))),
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
        live.into_iter().for_each(|charge| self.counts_no_more(&mut wrote.live, &mut wrote.ended, charge));
        Ok(())
    }

    /// A charge comes to its scope's row; when that is full, those in it go to the table.
    fn counts(&mut self, wrote: &mut Transaction, charge: &Charge) {
        let recent = self.recent.entry((charge.tenant.clone(), charge.scope.clone())).or_default();
        if recent.len() >= RECENT_MAX {
            wrote.live.append(recent);
        }
        recent.push(charge.clone());
    }

    fn counts_no_more(&mut self, live: &mut Vec<Charge>, ended: &mut Vec<Charge>, charge: Charge) {
        let recent = self.recent.entry((charge.tenant.clone(), charge.scope.clone())).or_default();
        for place in [recent, live] {
            if let Some(found) = place.iter().position(|known| known.hold == charge.hold && known.scope == charge.scope)
            {
                place.remove(found);
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

    /// Rows of a table as text. Which number a posting got is Bursar's own affair.
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

    async fn writes_what_bursar_wrote(mut home: Home, bench: Bench) {
        let line = Measurement {
            bench,
            work: None,
            callers: 4,
            scopes: if bench.is_of_jobs() { 0 } else { 3 },
            jobs: (bench == Bench::EnqueueBulk).then_some(2_500),
            apart: false,
            history: 0,
            backlog: 0,
            keys: Keys::Time,
            snapshot: false,
            baseline: Baseline::BulkInsert,
        };
        let mut subject = Subject::open(&mut home, &line, 1).await.unwrap();
        let mut limit = Limit::open(&mut home, &subject, &line).await.unwrap();
        subject.prepare(Duration::from_millis(500)).await.unwrap();
        limit.mark().await.unwrap();
        let done = subject.round(Duration::from_millis(500)).await.unwrap().done;
        assert!(done > 0);
        assert_eq!(limit.round(bench).await.unwrap().done, done);
        let (twin, subject) = (limit.close().await.unwrap(), subject.close().await.unwrap());
        for table in ["scopes", "holds", "live_charges", "postings", "jobs", "keys", "job_keys", "payloads"] {
            let (written, meant) = (rows(&twin, table).await, rows(&subject, table).await);
            assert!(written == meant, "{table} of {bench:?}: {:?}", written.symmetric_difference(&meant).next());
        }
        let redeemed: BTreeSet<String> = rows(&twin, "grants").await;
        assert_eq!(redeemed.len(), if bench == Bench::Command { done } else { 0 });
        assert!(redeemed.is_subset(&rows(&subject, "grants").await));
        let unlike = rows(&twin, "journal").await.difference(&rows(&subject, "journal").await).count();
        assert!(unlike <= 3, "only that the scopes were registered may stand there otherwise");
        home.remove(twin).await.unwrap();
        home.remove(subject).await.unwrap();
        home.close().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_rows_of_a_round_are_written_again_on_sqlite() {
        for bench in [Bench::Command, Bench::Hold, Bench::Settle, Bench::Enqueue, Bench::EnqueueBulk] {
            writes_what_bursar_wrote(Home::Sqlite(Folder::new(None).unwrap()), bench).await;
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_rows_of_a_round_are_written_again_on_postgres() {
        let url = bursar_testkit::fresh_database();
        for bench in [Bench::Command, Bench::Hold, Bench::Settle, Bench::Enqueue, Bench::EnqueueBulk] {
            writes_what_bursar_wrote(Home::Postgres(Server::at(&url)), bench).await;
        }
    }
}
