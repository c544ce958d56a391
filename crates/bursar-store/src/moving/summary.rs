//! What both databases of a move contain, for a comparison that does not depend on how the rows were copied.

use std::collections::BTreeMap;

use bursar_core::scope::ScopeState;
use sha2::{Digest, Sha256};

use super::Side;
use super::pass::Cursor;
use super::tables::{JOURNAL, Row, TABLES, Table, Value};
use crate::codec::Packed;
use crate::error::StoreError;
use crate::job_row::{self, state_of};

/// The contents of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveSummary {
    /// The last position of the journal.
    pub position: u64,
    /// Each table, the journal first.
    pub tables: Vec<TableSummary>,
    /// The units of each tenant, by its name.
    pub tenants: BTreeMap<String, UnitSums>,
}

/// The contents of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSummary {
    /// Its name, without the prefix that an engine gives it.
    pub table: &'static str,
    /// The number of its rows.
    pub rows: u64,
    /// The number of rows in each state; empty for a table without states.
    pub states: BTreeMap<&'static str, u64>,
    /// The SHA-256 digest of its rows.
    pub digest: String,
}

/// The units on the scopes of a tenant, over their lifetime. Units of all kinds are added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitSums {
    /// The number of its scopes.
    pub scopes: u64,
    /// Units posted.
    pub posted: i128,
    /// Units held.
    pub held: i128,
}

/// A digest of the journal that goes on where it stopped, so that rows which can no longer change are read once.
#[derive(Default)]
pub(crate) struct JournalDigest {
    digest: TableDigest,
    last_row: i64,
}

impl JournalDigest {
    /// Adds the rows after those that were added before.
    pub(crate) async fn advance(&mut self, side: &dyn Side) -> Result<(), StoreError> {
        let mut rows = Cursor::new(side.read(JOURNAL, self.last_row));
        while let Some(row) = rows.next().await? {
            self.last_row = row[0].int().unwrap_or(i64::MAX);
            self.digest.add(JOURNAL, &row)?;
        }
        Ok(())
    }
}

/// Reads a whole database, but for the part of the journal that was read before.
pub(crate) async fn summarize(side: &dyn Side, mut journal: JournalDigest) -> Result<MoveSummary, StoreError> {
    journal.advance(side).await?;
    let mut tables = vec![journal.digest.end(JOURNAL)];
    let mut tenants = BTreeMap::new();
    for table in TABLES.iter().filter(|table| !table.is_journal()) {
        let (mut digest, mut rows) = (TableDigest::default(), Cursor::new(side.read(table, 0)));
        while let Some(row) = rows.next().await? {
            digest.add(table, &row)?;
            if table.name == "scopes" {
                add_scope(&mut tenants, &row)?;
            }
        }
        tables.push(digest.end(table));
    }
    Ok(MoveSummary { position: side.end_of_journal().await?.position(), tables, tenants })
}

impl MoveSummary {
    /// Returns what differs from the summary of the other database, as sentences.
    pub(crate) fn differences(&self, target: &MoveSummary) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |what: String, source: i128, target: i128| {
            if source != target {
                found.push(format!("{what}: {source} in the source, {target} in the target"));
            }
            source != target
        };
        compare("the last position of the journal".into(), self.position.into(), target.position.into());
        let mut contents = Vec::new();
        for (source, target) in self.tables.iter().zip(&target.tables) {
            let table = source.table;
            let mut differs = compare(format!("the rows of {table}"), source.rows.into(), target.rows.into());
            for state in source.states.keys().chain(target.states.keys().filter(|s| !source.states.contains_key(*s))) {
                let count = |states: &BTreeMap<&str, u64>| states.get(state).copied().unwrap_or(0).into();
                differs |=
                    compare(format!("the {state} rows of {table}"), count(&source.states), count(&target.states));
            }
            if !differs && source.digest != target.digest {
                contents.push(format!("the rows of {table} differ in their contents"));
            }
        }
        let none = UnitSums::default();
        for tenant in self.tenants.keys().chain(target.tenants.keys().filter(|t| !self.tenants.contains_key(*t))) {
            let (source, target) = (self.tenants.get(tenant), target.tenants.get(tenant));
            let (source, target) = (source.unwrap_or(&none), target.unwrap_or(&none));
            compare(format!("the scopes of the tenant {tenant}"), source.scopes.into(), target.scopes.into());
            compare(format!("the units posted by the tenant {tenant}"), source.posted, target.posted);
            compare(format!("the units held by the tenant {tenant}"), source.held, target.held);
        }
        found.extend(contents);
        found
    }
}

fn add_scope(tenants: &mut BTreeMap<String, UnitSums>, row: &Row) -> Result<(), StoreError> {
    let (Value::Text(tenant), Value::Bytes(state)) = (&row[0], &row[3]) else { return Ok(()) };
    let state = ScopeState::unpack(state)?;
    if !tenants.contains_key(tenant) {
        tenants.insert(tenant.clone(), UnitSums::default());
    }
    let sums = tenants.get_mut(tenant).expect("it was inserted if it was missing");
    sums.scopes += 1;
    // The first balance is always that of the lifetime.
    if let Some(balance) = state.balances.first() {
        sums.posted += i128::from(balance.posted);
        sums.held += i128::from(balance.held);
    }
    Ok(())
}

/// The digest of a table's rows, and how many there are in each state.
#[derive(Default)]
struct TableDigest {
    digest: Sha256,
    rows: u64,
    states: BTreeMap<&'static str, u64>,
}

impl TableDigest {
    fn add(&mut self, table: &Table, row: &Row) -> Result<(), StoreError> {
        self.rows += 1;
        if let Some(number) = table.column("state").and_then(|column| row[column].int()) {
            *self.states.entry(state_name(table, number)?).or_default() += 1;
        }
        for value in row {
            let (tag, bytes) = match value {
                Value::Null => (0_u8, &[][..]),
                Value::Int(int) => (1, &int.to_be_bytes()[..]),
                Value::Id(id) => (2, &id.to_be_bytes()[..]),
                Value::Text(text) => (3, text.as_bytes()),
                Value::Bytes(bytes) => (4, bytes.as_slice()),
            };
            self.digest.update([tag]);
            self.digest.update((bytes.len() as u64).to_be_bytes());
            self.digest.update(bytes);
        }
        Ok(())
    }

    fn end(self, table: &Table) -> TableSummary {
        let digest = self.digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        TableSummary { table: table.name, rows: self.rows, states: self.states, digest }
    }
}

/// Returns the word for a stored state.
fn state_name(table: &Table, number: i64) -> Result<&'static str, StoreError> {
    let names: &[&str] = match table.name {
        "holds" => &["held", "committed", "released", "expired"],
        "grants" => &["open", "redeemed", "revoked"],
        "blobs" => &["pending", "live", "doomed"],
        "ended_jobs" => return Ok(state_of(number)?.as_str()),
        _ => &job_row::PLACES,
    };
    let name = usize::try_from(number).ok().and_then(|number| names.get(number));
    name.copied().ok_or_else(|| StoreError::corrupt("row", format!("{} has no state {number}", table.name)))
}
