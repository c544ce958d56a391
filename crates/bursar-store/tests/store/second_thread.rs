//! Large batches on SQLite: a second thread decides later requests while the rows of earlier ones are written.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bursar_core::hold::HoldState;
use bursar_core::id::{HoldId, IdSource, JobId};
use bursar_core::job::JobState;
use bursar_core::name::Tenant;
use bursar_core::request::{Act, Op, Request};
use bursar_core::time::{Span, Time};
use bursar_store::conformance::CommitRequests;
use bursar_store::prelude::*;
use bursar_store::{LockPolicy, Setup, SqliteStore, StoreError};
use bursar_testkit::SeqIds;

use crate::ask::{clock, done, hold, job, key_of, setup, submitted};

/// The number of holds, and of jobs with a hold, of ten units each. The row of a scope has room for fewer live charges.
const EACH: usize = 40;

fn holds_and_jobs() -> Vec<Request> {
    (0..2 * EACH).map(|number| if number < EACH { hold(&["room"], 10) } else { job("room", 10) }).collect()
}

/// Requests that change some of the holds and jobs.
fn changes(holds: &[HoldId], jobs: &[JobId]) -> Vec<Request> {
    let cancel = Op::Act { act: Act::Cancel, jobs: vec![jobs[0]] };
    let extend = Op::Extend { hold: holds[1], by: Span::from_secs(60) };
    let releases = [0, 10, 39].map(|number| Op::Release { hold: holds[number] }.into());
    releases.into_iter().chain([extend.into(), cancel.into(), hold(&["room"], 7)]).collect()
}

/// Describes the holds, the jobs and the scope, and verifies the store.
async fn describe(store: &SqliteStore, holds: &[HoldId], jobs: &[JobId]) -> Vec<String> {
    let mut lines = Vec::new();
    for id in holds {
        let hold = store.hold(&Tenant::built_in(), *id).await.unwrap().unwrap();
        lines.push(format!("{:?} {:?} {:?}", hold.state, hold.totals(), hold.expires_at > hold.placed_at));
    }
    for id in jobs {
        let job = store.job(&Tenant::built_in(), *id).await.unwrap().unwrap();
        lines.push(format!(
            "{:?} {:?}",
            job.life.state,
            store.hold(&Tenant::built_in(), job.hold.unwrap()).await.unwrap().unwrap().state
        ));
    }
    let room = store.scope(&key_of("room")).await.unwrap().unwrap();
    lines.push(format!("{} {}", room.balances[0].held, room.balances[0].posted));
    let report = store.verify().await.unwrap();
    assert!(report.is_ok(), "{:#?}", report.violations);
    lines
}

#[tokio::test]
async fn a_row_that_changes_after_it_was_written_is_written_again() {
    let one_by_one = SqliteStore::in_memory(setup(&clock())).await.unwrap();
    let outcomes = done(&one_by_one, holds_and_jobs()).await;
    let holds: Vec<HoldId> =
        outcomes[..EACH].iter().map(|it| submitted(&Ok(it.clone())).hold.as_ref().unwrap().id).collect();
    let jobs: Vec<JobId> = outcomes[EACH..].iter().map(|it| submitted(&Ok(it.clone())).jobs[0].id).collect();
    for request in changes(&holds, &jobs) {
        done(&one_by_one, vec![request]).await;
    }
    // The second store gives out the same ids, so that the batch can name the holds and jobs it creates.
    let in_one_batch = SqliteStore::in_memory(setup(&clock())).await.unwrap();
    done(&in_one_batch, holds_and_jobs().into_iter().chain(changes(&holds, &jobs)).collect()).await;
    let expected = describe(&one_by_one, &holds, &jobs).await;
    assert_eq!(describe(&in_one_batch, &holds, &jobs).await, expected);
    assert_eq!(in_one_batch.hold(&Tenant::built_in(), holds[0]).await.unwrap().unwrap().state, HoldState::Released);
    assert_eq!(in_one_batch.job(&Tenant::built_in(), jobs[0]).await.unwrap().unwrap().life.state, JobState::Cancelled);
}

/// A source of ids that panics once, when the counter reaches one.
struct PanickingIds(SeqIds, Arc<AtomicU64>);

impl IdSource for PanickingIds {
    fn next_id(&mut self, now: Time) -> u128 {
        let left = self.1.fetch_sub(1, Ordering::SeqCst);
        assert_ne!(left, 1, "out of ids");
        self.0.next_id(now)
    }
}

#[tokio::test]
async fn a_panic_while_rows_are_written_rolls_back_the_batch() {
    let left = Arc::new(AtomicU64::new(u64::MAX));
    let ids = Arc::new(Mutex::new(PanickingIds(SeqIds::new(1), left.clone())));
    let store = SqliteStore::in_memory(Setup { ids, ..setup(&clock()) }).await.unwrap();
    done(&store, holds_and_jobs()).await;
    let position = store.health().await.unwrap().position;
    for after in [1, 50, 110, 180] {
        left.store(after, Ordering::SeqCst);
        let requests: Vec<_> = holds_and_jobs().into_iter().map(Arc::new).collect();
        let failed = store.commit_requests(&requests, LockPolicy::Skip).await;
        assert!(matches!(&failed, Err(StoreError::Closure(why)) if why.contains("out of ids")), "{failed:?}");
        assert_eq!(store.scope(&key_of("room")).await.unwrap().unwrap().balances[0].held, 800);
        let report = store.verify().await.unwrap();
        assert!(report.is_ok(), "{:#?}", report.violations);
    }
    assert_eq!(store.health().await.unwrap().position, position);
    done(&store, holds_and_jobs()).await;
    assert_eq!(store.scope(&key_of("room")).await.unwrap().unwrap().balances[0].held, 1_600);
}

#[tokio::test]
async fn a_failed_insert_rolls_back_the_rows_written_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bursar.db");
    let store = SqliteStore::open(&path, setup(&clock())).await.unwrap();
    done(&store, holds_and_jobs()).await;
    let other = rusqlite::Connection::open(&path).unwrap();
    let trigger = "CREATE TRIGGER fail BEFORE INSERT ON bursar_jobs BEGIN SELECT RAISE(ABORT, 'no more jobs'); END";
    other.execute_batch(trigger).unwrap();
    let requests: Vec<_> = holds_and_jobs().into_iter().map(Arc::new).collect();
    let failed = store.commit_requests(&requests, LockPolicy::Skip).await;
    assert!(format!("{failed:?}").contains("no more jobs"), "{failed:?}");
    other.execute_batch("DROP TRIGGER fail").unwrap();
    let count = |table| other.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0));
    assert_eq!((count("bursar_holds").unwrap(), count("bursar_jobs").unwrap()), (80, 40));
    done(&store, holds_and_jobs()).await;
    assert_eq!((count("bursar_holds").unwrap(), count("bursar_jobs").unwrap()), (160, 80));
    let report = store.verify().await.unwrap();
    assert!(report.is_ok(), "{:#?}", report.violations);
}
