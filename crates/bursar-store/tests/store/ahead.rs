//! Large batches on SQLite, whose rows are written while later requests are still decided.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bursar_core::hold::HoldState;
use bursar_core::id::{HoldId, IdSource, JobId};
use bursar_core::job::JobState;
use bursar_core::request::{Act, Op, Request};
use bursar_core::time::{Span, Time};
use bursar_store::conformance::CommitRequests;
use bursar_store::prelude::*;
use bursar_store::{LockPolicy, Setup, SqliteStore, StoreError};
use bursar_testkit::SeqIds;

use crate::ask::{clock, done, hold, job, key_of, setup, submitted};

/// Holds of ten units, more than have room in the row of their scope, and as many jobs that hold ten each.
const EACH: usize = 40;

fn placed() -> Vec<Request> {
    (0..2 * EACH).map(|place| if place < EACH { hold(&["room"], 10) } else { job("room", 10) }).collect()
}

/// What is done with some of them right after.
fn changed(holds: &[HoldId], jobs: &[JobId]) -> Vec<Request> {
    let cancel = Op::Act { act: Act::Cancel, jobs: vec![jobs[0]] };
    let extend = Op::Extend { hold: holds[1], by: Span::from_secs(60) };
    let released = [0, 10, 39].map(|place| Op::Release { hold: holds[place] }.into());
    released.into_iter().chain([extend.into(), cancel.into(), hold(&["room"], 7)]).collect()
}

async fn seen(store: &SqliteStore, holds: &[HoldId], jobs: &[JobId]) -> Vec<String> {
    let mut seen = Vec::new();
    for id in holds {
        let hold = store.hold(*id).await.unwrap().unwrap();
        seen.push(format!("{:?} {:?} {:?}", hold.state, hold.totals(), hold.expires_at > hold.placed_at));
    }
    for id in jobs {
        let job = store.job(*id).await.unwrap().unwrap();
        seen.push(format!("{:?} {:?}", job.life.state, store.hold(job.hold.unwrap()).await.unwrap().unwrap().state));
    }
    let room = store.scope(&key_of("room")).await.unwrap().unwrap();
    seen.push(format!("{} {}", room.balances[0].held, room.balances[0].posted));
    let report = store.verify().await.unwrap();
    assert!(report.is_ok(), "{:#?}", report.violations);
    seen
}

#[tokio::test]
async fn a_row_that_changes_after_it_was_handed_on_is_written_again() {
    let step_by_step = SqliteStore::in_memory(setup(&clock())).await.unwrap();
    let outcomes = done(&step_by_step, placed()).await;
    let holds: Vec<HoldId> =
        outcomes[..EACH].iter().map(|it| submitted(&Ok(it.clone())).hold.as_ref().unwrap().id).collect();
    let jobs: Vec<JobId> = outcomes[EACH..].iter().map(|it| submitted(&Ok(it.clone())).jobs[0].id).collect();
    for request in changed(&holds, &jobs) {
        done(&step_by_step, vec![request]).await;
    }
    // The same ids come up again, so that what is placed can be named in the batch that places it.
    let at_once = SqliteStore::in_memory(setup(&clock())).await.unwrap();
    done(&at_once, placed().into_iter().chain(changed(&holds, &jobs)).collect()).await;
    let seen_at_once = seen(&at_once, &holds, &jobs).await;
    assert_eq!(seen_at_once, seen(&step_by_step, &holds, &jobs).await);
    assert_eq!(at_once.hold(holds[0]).await.unwrap().unwrap().state, HoldState::Released);
    assert_eq!(at_once.job(jobs[0]).await.unwrap().unwrap().life.state, JobState::Cancelled);
}

/// Ids that fail once, after so many.
struct Failing(SeqIds, Arc<AtomicU64>);

impl IdSource for Failing {
    fn next_id(&mut self, now: Time) -> u128 {
        let left = self.1.fetch_sub(1, Ordering::SeqCst);
        assert_ne!(left, 1, "out of ids");
        self.0.next_id(now)
    }
}

#[tokio::test]
async fn a_panic_while_rows_are_written_undoes_them_all() {
    let left = Arc::new(AtomicU64::new(u64::MAX));
    let ids = Arc::new(Mutex::new(Failing(SeqIds::new(1), left.clone())));
    let store = SqliteStore::in_memory(Setup { ids, ..setup(&clock()) }).await.unwrap();
    done(&store, placed()).await;
    let position = store.health().await.unwrap().position;
    for after in [1, 50, 110, 180] {
        left.store(after, Ordering::SeqCst);
        let requests: Vec<_> = placed().into_iter().map(Arc::new).collect();
        let failed = store.commit_requests(&requests, LockPolicy::Skip).await;
        assert!(matches!(&failed, Err(StoreError::Closure(why)) if why.contains("out of ids")), "{failed:?}");
        assert_eq!(store.scope(&key_of("room")).await.unwrap().unwrap().balances[0].held, 800);
        let report = store.verify().await.unwrap();
        assert!(report.is_ok(), "{:#?}", report.violations);
    }
    assert_eq!(store.health().await.unwrap().position, position);
    done(&store, placed()).await;
    assert_eq!(store.scope(&key_of("room")).await.unwrap().unwrap().balances[0].held, 1_600);
}

#[tokio::test]
async fn a_row_that_cannot_be_written_undoes_what_was_written_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bursar.db");
    let store = SqliteStore::open(&path, setup(&clock())).await.unwrap();
    done(&store, placed()).await;
    let other = rusqlite::Connection::open(&path).unwrap();
    let bar = "CREATE TRIGGER bar BEFORE INSERT ON bursar_jobs BEGIN SELECT RAISE(ABORT, 'no more jobs'); END";
    other.execute_batch(bar).unwrap();
    let requests: Vec<_> = placed().into_iter().map(Arc::new).collect();
    let failed = store.commit_requests(&requests, LockPolicy::Skip).await;
    assert!(format!("{failed:?}").contains("no more jobs"), "{failed:?}");
    other.execute_batch("DROP TRIGGER bar").unwrap();
    let count = |table| other.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0));
    assert_eq!((count("bursar_holds").unwrap(), count("bursar_jobs").unwrap()), (80, 40));
    done(&store, placed()).await;
    assert_eq!((count("bursar_holds").unwrap(), count("bursar_jobs").unwrap()), (160, 80));
    let report = store.verify().await.unwrap();
    assert!(report.is_ok(), "{:#?}", report.violations);
}
