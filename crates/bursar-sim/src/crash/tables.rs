//! Checks that a rebuild from the journal restores every row.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bursar_core::decide::Rules;
use bursar_core::event::Event;
use bursar_core::id::{GrantId, HoldId, JobId};
use bursar_core::name::Tenant;
use bursar_core::time::{Span, Time};
use bursar_store::{
    Clock, ManualClock, PostgresOptions, PostgresStore, Setup, SqliteStore, Store, StoreError, SystemClock,
};
use bursar_testkit::SeqIds;

use super::databases::file;

/// Rows per page.
const PAGE: usize = 500;

/// Rebuilds the tables of a database and returns the rows that differ. Call it on a copy.
pub(crate) async fn differ_when_rebuilt(url: &str) -> Result<Vec<String>, StoreError> {
    // Both versions are brought to one time, later than any update of a scope.
    let clock = Arc::new(ManualClock::at(SystemClock.now().after(Span::from_days(1))));
    let ids = Arc::new(Mutex::new(SeqIds::new(1)));
    let setup = Setup { rules: Rules::default(), clock: Some(clock), ids, migrate: false };
    let store: Box<dyn Store> = if url.starts_with("sqlite") {
        Box::new(SqliteStore::open(file(url), setup).await?)
    } else {
        Box::new(PostgresStore::open(url, setup, PostgresOptions::default()).await?)
    };
    let before = rows(&*store).await?;
    store.rebuild().await?;
    let after = rows(&*store).await?;
    store.close().await;
    let gone = before.difference(&after).map(|row| format!("missing after a rebuild: {row}"));
    Ok(gone.chain(after.difference(&before).map(|row| format!("new after a rebuild: {row}"))).collect())
}

/// Returns every readable row as text.
async fn rows(store: &dyn Store) -> Result<BTreeSet<String>, StoreError> {
    let mut rows = BTreeSet::new();
    let mut after = None;
    loop {
        let page = store.list_scope_keys(after.as_ref(), PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        for key in &page {
            let mut state =
                store.scope(key).await?.ok_or_else(|| StoreError::Closure("a listed scope does not exist".into()))?;
            // How far a scope was folded depends on when it was read; its balances do not.
            (state.seen, state.next_expiry) = (Time::MIN, Time::MIN);
            state.folded = (Time::MIN, HoldId(0));
            state.expiry_postings.clear();
            for balance in &mut state.balances {
                (balance.evicted, balance.next_eviction) = ((Time::MIN, 0), Time::MIN);
            }
            rows.insert(format!("{key:?} {state:?}"));
            rows.insert(format!("{key:?} posted {}", store.spent(key, Time::MIN, Time::NEVER).await?));
            for hold in store.list_live_holds(key, None, 100_000).await? {
                rows.insert(format!("{key:?} live {}", hold.id));
            }
        }
    }
    let (holds, grants, jobs) = ids(store).await?;
    for id in holds {
        rows.insert(format!("{id} {:?}", store.hold(&Tenant::built_in(), id).await?));
    }
    for id in grants {
        rows.insert(format!("{id} {:?}", store.grant(&Tenant::built_in(), id).await?));
    }
    for id in jobs {
        // `verify` checks the waiting lines of flow keys.
        let job = store.job(&Tenant::built_in(), id).await?.map(|job| job.lasting(Time::NEVER));
        rows.insert(format!("{id} {job:?}"));
    }
    Ok(rows)
}

/// Returns the ids of all holds, grants and jobs in the journal.
async fn ids(store: &dyn Store) -> Result<(BTreeSet<HoldId>, BTreeSet<GrantId>, BTreeSet<JobId>), StoreError> {
    let (mut holds, mut grants, mut jobs) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut after = 0;
    loop {
        let page = store.list_journal(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok((holds, grants, jobs)) };
        after = last.position + last.batch.count() as u64 - 1;
        let entries = page.iter().flat_map(|row| &row.batch.entries);
        for recorded in entries.flat_map(|entry| &entry.events) {
            match &recorded.e {
                Event::HoldPlaced { hold, .. } => drop(holds.insert(*hold)),
                Event::GrantMinted { grant, .. } => drop(grants.insert(*grant)),
                Event::JobEnqueued { job, .. } => drop(jobs.insert(*job)),
                _ => {}
            }
        }
    }
}
