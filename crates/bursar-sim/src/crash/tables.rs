//! Checks that a rebuild from the journal restores every row.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bursar::{Bursar, Error, JournalEvent};
use bursar_core::event::Event;
use bursar_core::id::{GrantId, HoldId, JobId};
use bursar_core::name::Tenant;
use bursar_core::time::{Span, Time};
use bursar_store::{Clock, ManualClock, PostgresStore, Setup, SqliteStore, Store, StoreError, SystemClock};
use bursar_testkit::SeqIds;

use super::databases::file;
use super::opening::Opening;

/// Rows per page.
const PAGE: usize = 500;

/// How far the clock is ahead while tables are compared: later than any update of a scope.
const AHEAD: Span = Span::from_days(1);

/// Rebuilds the tables of a database and returns the rows that differ. Call it on a copy.
pub(crate) async fn differ_when_rebuilt(copy: &Opening) -> Result<Vec<String>, Error> {
    // Both versions are brought to one time. What was deleted before is deleted again after the rebuild.
    let clock = Arc::new(ManualClock::at(SystemClock.now().after(AHEAD)));
    let ids = Arc::new(Mutex::new(SeqIds::new(1)));
    let rules = copy.rules(AHEAD);
    let setup = Setup { rules: rules.clone(), clock: Some(clock), ids, migrate: false };
    let store: Arc<dyn Store> = if copy.url.starts_with("sqlite") {
        Arc::new(SqliteStore::open(file(&copy.url), setup).await?)
    } else {
        Arc::new(PostgresStore::open(&copy.url, setup, copy.postgres()).await?)
    };
    let mut options = Bursar::options(&copy.url).rules(rules).upkeep(None);
    if let Some(archive) = copy.archive() {
        options = options.archive(archive);
    }
    let bursar = options.open_on(store.clone());
    let ids = ids_of(&bursar).await?;
    delete_old(&*store).await?;
    let before = rows(&*store, &ids).await?;
    bursar.rebuild().await?;
    delete_old(&*store).await?;
    let after = rows(&*store, &ids).await?;
    bursar.close().await;
    let gone = before.difference(&after).map(|row| format!("missing after a rebuild: {row}"));
    Ok(gone.chain(after.difference(&before).map(|row| format!("new after a rebuild: {row}"))).collect())
}

/// Deletes the holds and grants that were kept for long enough.
async fn delete_old(store: &dyn Store) -> Result<(), StoreError> {
    let (mut hold, mut grant) = (None, None);
    loop {
        hold = store.forget_holds(hold, PAGE).await?.last;
        if hold.is_none() {
            break;
        }
    }
    loop {
        grant = store.forget_grants(grant, PAGE).await?.last;
        if grant.is_none() {
            return Ok(());
        }
    }
}

/// Returns every readable row as text.
async fn rows(store: &dyn Store, ids: &Ids) -> Result<BTreeSet<String>, StoreError> {
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
    let (holds, grants, jobs) = ids;
    for id in holds {
        rows.insert(format!("{id} {:?}", store.hold(&Tenant::built_in(), *id).await?));
    }
    for id in grants {
        rows.insert(format!("{id} {:?}", store.grant(&Tenant::built_in(), *id).await?));
    }
    for id in jobs {
        // `verify` checks the waiting lines of flow keys.
        let job = store.job(&Tenant::built_in(), *id).await?.map(|job| job.lasting(Time::NEVER));
        rows.insert(format!("{id} {job:?}"));
    }
    Ok(rows)
}

/// Holds, grants and jobs.
type Ids = (BTreeSet<HoldId>, BTreeSet<GrantId>, BTreeSet<JobId>);

/// Returns the ids of all holds, grants and jobs in the journal.
async fn ids_of(bursar: &Bursar) -> Result<Ids, Error> {
    let (mut holds, mut grants, mut jobs) = Ids::default();
    let mut after = 0;
    loop {
        let (page, last) = bursar.journal().read(after, PAGE).await?;
        if page.is_empty() {
            return Ok((holds, grants, jobs));
        }
        after = last;
        for JournalEvent { event, .. } in page {
            match event {
                Event::HoldPlaced { hold, .. } => drop(holds.insert(hold)),
                Event::GrantMinted { grant, .. } => drop(grants.insert(grant)),
                Event::JobEnqueued { job, .. } => drop(jobs.insert(job)),
                _ => {}
            }
        }
    }
}
