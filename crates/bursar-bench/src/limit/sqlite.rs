//! Writing rows again on SQLite with prepared statements, which insert up to sixteen rows, as Bursar does.

use std::time::Duration;

use bursar_core::id::GrantId;
use bursar_store::SqliteStore;
use rusqlite::types::Value;
use rusqlite::{Connection, Params, params, params_from_iter};
use tokio::time::Instant;

use super::{Charge, Transaction};
use crate::error::BenchError;
use crate::plan::Bench;
use crate::sqlite::File;

pub(super) struct Writer {
    from: Connection,
    to: Connection,
    file: File,
}

type Row = Vec<Value>;

/// A transaction with its stored rows.
struct Loaded<'a> {
    wrote: &'a Transaction,
    journal: Row,
    scopes: Vec<Row>,
    placed: Vec<Row>,
    settled: Vec<Row>,
    redeemed: Vec<Row>,
    jobs: Vec<Row>,
    live: Vec<Row>,
    postings: Vec<Row>,
}

const SCOPE: &str = "SELECT version, state, tenant, scope FROM bursar_scopes WHERE tenant = ?1 AND scope = ?2";
const HOLD: &str = "SELECT id, tenant, expires_at, data FROM bursar_holds WHERE id = ?1";
const GRANT: &str = "SELECT id, tenant, expires_at, data FROM bursar_grants WHERE id = ?1";
const JOB: &str = "SELECT * FROM bursar_jobs WHERE id = ?1";
const JOURNAL: &str = "SELECT * FROM bursar_journal WHERE position = ?1";

impl Writer {
    /// Creates a writer that reads one file and writes to another with the same schema.
    pub(super) fn new(from: &File, file: File) -> Result<Writer, BenchError> {
        let (from, to) = (from.connect()?, file.connect()?);
        to.execute_batch(&format!("PRAGMA cache_size = -{}", SqliteStore::CACHE_KIB))?;
        Ok(Writer { from, to, file })
    }

    /// Copies grants as not yet redeemed.
    pub(super) fn copy_grants(&mut self, grants: &[GrantId]) -> Result<(), BenchError> {
        let grants: Result<Vec<Row>, BenchError> = grants
            .iter()
            .map(|id| {
                let mut row = only(all(&self.from, GRANT, [id.0.to_be_bytes()])?)?;
                row.insert(2, Value::Integer(0));
                Ok(row)
            })
            .collect();
        insert(&self.to, "bursar_grants", &grants?)
    }

    /// Writes the transactions again; returns how long it took.
    pub(super) fn write(&mut self, bench: Bench, transactions: &[Transaction]) -> Result<Duration, BenchError> {
        let loaded: Result<Vec<Loaded<'_>>, BenchError> = transactions.iter().map(|wrote| self.load(wrote)).collect();
        let loaded = loaded?;
        let begun = Instant::now();
        for loaded in &loaded {
            self.to.execute_batch("BEGIN IMMEDIATE")?;
            self.write_one(bench, loaded)?;
            self.to.execute_batch("COMMIT")?;
        }
        Ok(begun.elapsed())
    }

    fn load<'a>(&self, wrote: &'a Transaction) -> Result<Loaded<'a>, BenchError> {
        let one = |sql: &str, id: u128| -> Result<Row, BenchError> { only(all(&self.from, sql, [id.to_be_bytes()])?) };
        let scope =
            |(tenant, scope): &(String, String)| only(all(&self.from, SCOPE, [tenant.as_str(), scope.as_str()])?);
        let position = i64::try_from(wrote.journal).unwrap_or(i64::MAX);
        Ok(Loaded {
            wrote,
            journal: only(all(&self.from, JOURNAL, [position])?)?,
            scopes: wrote.scopes.iter().map(scope).collect::<Result<_, _>>()?,
            placed: wrote.placed.iter().map(|id| one(HOLD, id.0)).collect::<Result<_, _>>()?,
            settled: wrote.settled.iter().map(|id| one(HOLD, id.0)).collect::<Result<_, _>>()?,
            redeemed: wrote.redeemed.iter().map(|id| one(GRANT, id.0)).collect::<Result<_, _>>()?,
            jobs: wrote.jobs.iter().map(|id| one(JOB, id.0)).collect::<Result<_, _>>()?,
            live: wrote.live.iter().map(live).collect(),
            postings: wrote.postings.iter().map(posting).collect(),
        })
    }

    fn write_one(&self, bench: Bench, loaded: &Loaded<'_>) -> Result<(), BenchError> {
        let run = |sql: &str, rows: &[Row]| -> Result<(), BenchError> {
            let mut statement = self.to.prepare_cached(sql)?;
            for row in rows {
                statement.execute(params_from_iter(row))?;
            }
            Ok(())
        };
        run("UPDATE bursar_scopes SET version = ?1, state = ?2 WHERE tenant = ?3 AND scope = ?4", &loaded.scopes)?;
        insert_many(&self.to, "bursar_holds", "(?, ?, 0, ?, ?)", &loaded.placed)?;
        insert_many(&self.to, "bursar_live_charges", "(?, ?, ?, ?, ?, ?, 0)", &loaded.live)?;
        let jobs = || insert_many(&self.to, "bursar_jobs", "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", &loaded.jobs);
        match bench {
            Bench::Hold => {}
            Bench::Command => {
                let mut redeem =
                    self.to.prepare_cached("UPDATE bursar_grants SET state = 1, data = ?2 WHERE id = ?1")?;
                for row in &loaded.redeemed {
                    redeem.execute(params![row[0], row[3]])?;
                }
                jobs()?;
            }
            Bench::Settle => {
                let sql = "UPDATE bursar_holds SET state = 1, expires_at = ?2, data = ?3 WHERE id = ?1";
                let mut settle = self.to.prepare_cached(sql)?;
                for row in &loaded.settled {
                    settle.execute(params![row[0], row[2], row[3]])?;
                }
                let sql = "DELETE FROM bursar_live_charges WHERE tenant = ?1 AND scope = ?2 AND expires_at = ?3 AND hold = ?4";
                let mut ended = self.to.prepare_cached(sql)?;
                for Charge { tenant, scope, expires_at, hold, .. } in &loaded.wrote.ended {
                    ended.execute(params![tenant, scope, expires_at, hold.0.to_be_bytes()])?;
                }
                insert_many(&self.to, "bursar_postings", "(?, ?, ?, ?, ?, ?)", &loaded.postings)?;
            }
            _ => jobs()?,
        }
        run("INSERT INTO bursar_journal VALUES (?1, ?2, ?3, ?4, ?5)", std::slice::from_ref(&loaded.journal))
    }

    pub(super) fn close(self) -> File {
        self.file
    }
}

fn live(Charge { tenant, scope, expires_at, hold, placed_at, amount }: &Charge) -> Row {
    let hold = Value::Blob(hold.0.to_be_bytes().to_vec());
    vec![tenant.clone().into(), scope.clone().into(), (*expires_at).into(), hold, (*placed_at).into(), (*amount).into()]
}

fn posting((Charge { tenant, scope, hold, placed_at, amount, .. }, seq): &(Charge, i64)) -> Row {
    let hold = Value::Blob(hold.0.to_be_bytes().to_vec());
    vec![tenant.clone().into(), scope.clone().into(), (*placed_at).into(), (*seq).into(), (*amount).into(), hold]
}

fn all(from: &Connection, sql: &str, params: impl Params) -> Result<Vec<Row>, BenchError> {
    let mut statement = from.prepare_cached(sql)?;
    let columns = statement.column_count();
    let rows = statement.query_map(params, |row| (0..columns).map(|column| row.get(column)).collect())?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn only(mut rows: Vec<Row>) -> Result<Row, BenchError> {
    rows.pop().ok_or_else(|| BenchError::Failed("a row named in the journal does not exist".into()))
}

/// Rows per statement, the largest first.
const WIDTHS: [usize; 3] = [16, 4, 1];

fn insert_many(to: &Connection, table: &str, row: &str, rows: &[Row]) -> Result<(), BenchError> {
    let mut left = rows;
    for width in WIDTHS {
        if left.len() < width {
            continue;
        }
        let mut statement =
            to.prepare_cached(&format!("INSERT INTO {table} VALUES {}", vec![row; width].join(", ")))?;
        while let Some((batch, rest)) = left.split_at_checked(width) {
            statement.execute(params_from_iter(batch.iter().flatten()))?;
            left = rest;
        }
    }
    Ok(())
}

/// Inserts whole rows in one transaction.
fn insert(to: &Connection, table: &str, rows: &[Row]) -> Result<(), BenchError> {
    let Some(first) = rows.first() else { return Ok(()) };
    let placeholders: Vec<&str> = first.iter().map(|_| "?").collect();
    to.execute_batch("BEGIN IMMEDIATE")?;
    let mut statement = to.prepare_cached(&format!("INSERT INTO {table} VALUES ({})", placeholders.join(", ")))?;
    for row in rows {
        statement.execute(params_from_iter(row))?;
    }
    to.execute_batch("COMMIT")?;
    Ok(())
}
