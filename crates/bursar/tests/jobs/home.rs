//! Databases to test on, and helper functions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar::{
    Budget, Bursar, Clock, Job, JobKind, JobSpec, LeaseRequest, Limit, ManualClock, Options, Payload, Queue, Rules,
    Span, Time, Window, WorkerName,
};
use bursar_store::{MemoryStore, Setup};
use bursar_testkit::SeqIds;

/// The databases that jobs run on. [`open`] creates a new one each time.
pub(crate) const ENGINES: &[&str] = &["memory", "sqlite", "postgres"];

/// Those of them without threads of their own, so that a test can pause the runtime's time.
pub(crate) const TIMELESS: &[&str] = &["memory"];

/// Opens Bursar with a manual clock and without maintenance.
pub(crate) async fn open(engine: &str) -> (Bursar, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(Time::from_micros(1_700_000_000_000_000)));
    (open_with(engine, Some(clock.clone()), |options| options.upkeep(None)).await, clock)
}

/// Opens Bursar with the machine's clock and with maintenance.
pub(crate) async fn open_live(engine: &str) -> Bursar {
    open_with(engine, None, |options| options).await
}

/// Opens Bursar on a database.
pub(crate) async fn open_with(
    engine: &str,
    clock: Option<Arc<ManualClock>>,
    set: impl FnOnce(Options) -> Options,
) -> Bursar {
    let ids = Arc::new(Mutex::new(SeqIds::new(7)));
    let clock = clock.map(|clock| clock as Arc<dyn Clock>);
    match engine {
        "memory" => {
            let setup = Setup { rules: Rules::default(), clock, ids: ids.clone(), migrate: true };
            set(Bursar::options("memory").ids(ids)).open_on(Arc::new(MemoryStore::new(setup)))
        }
        "sqlite" => {
            let options = set(Bursar::options("sqlite::memory:").ids(ids));
            let options = match clock {
                Some(clock) => options.clock(clock),
                None => options,
            };
            options.open().await.unwrap()
        }
        "postgres" => {
            let options = set(Bursar::options(&bursar_testkit::fresh_database()).ids(ids));
            let options = match clock {
                Some(clock) => options.clock(clock),
                None => options,
            };
            options.open().await.unwrap()
        }
        other => panic!("there is no engine {other}"),
    }
}

/// Returns a job of a kind for a queue.
pub(crate) fn job(queue: &str, kind: &str) -> JobSpec {
    JobSpec::new(Queue::new(queue).unwrap(), JobKind::new(kind).unwrap(), Payload::default())
}

/// Returns the lease request of a worker for a queue.
pub(crate) fn ask(queue: &str, capacity: u32) -> LeaseRequest {
    let queues = vec![Queue::new(queue).unwrap()];
    LeaseRequest { queues, kinds: Vec::new(), capacity, lease: None, worker: WorkerName::new("w").unwrap() }
}

/// Leases one job, which must be ready.
pub(crate) async fn lease_one(bursar: &Bursar, queue: &str) -> Job {
    let mut leased = bursar.jobs().lease(ask(queue, 1)).await.unwrap();
    leased.jobs.pop().expect("a job is ready")
}

/// Returns a budget with a lifetime limit.
pub(crate) fn budget(amount: i64) -> Budget {
    Budget::new([Limit::new(amount, Window::Lifetime)])
}

/// Enqueues a job that owns a hold.
pub(crate) async fn enqueue_held(bursar: &Bursar, queue: &str, scope: &str, amount: i64) -> bursar::JobId {
    let command = bursar.command().charge(scope, amount).settle_with_job().job(job(queue, "work"));
    command.submit().await.unwrap().done.jobs[0].id
}

/// Returns the units posted and held on a scope.
pub(crate) async fn balance(bursar: &Bursar, scope: &str) -> (i64, i64) {
    let view = bursar.ledger().budget(scope).await.unwrap().unwrap();
    (view.balances[0].posted, view.balances[0].held)
}

/// Awaits a future for at most two minutes.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), what).await.expect("done within two minutes")
}

/// Returns a span of seconds.
pub(crate) fn secs(secs: u64) -> Span {
    Span::from_secs(secs)
}
