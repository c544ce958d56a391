//! The engine: shared commits, bounds, failures and closing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bursar::{Budget, Bursar, Clock, Error, Event, Limit, Payload, StoreError, SystemClock, Time, Window};
use tokio::task::JoinSet;

fn budget(cap: i64) -> Budget {
    Budget::new([Limit::new(cap, Window::Lifetime)])
}

/// A clock that panics on demand, within a batch.
struct Fragile(AtomicUsize);

impl Clock for Fragile {
    fn now(&self) -> Time {
        assert_ne!(self.0.load(Ordering::SeqCst), 1, "the clock broke");
        SystemClock.now()
    }
}

#[tokio::test]
async fn many_callers_share_commits() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("b.db").display());
    let bursar = Bursar::options(&url).upkeep(None).open().await.unwrap();
    bursar.ledger().define("room", budget(1_000_000)).await.unwrap();
    let mut callers = JoinSet::new();
    for _ in 0..500 {
        let bursar = bursar.clone();
        callers.spawn(async move { bursar.ledger().post("room", 1).await.map(drop) });
    }
    assert!(callers.join_all().await.into_iter().all(|answer| answer.is_ok()));
    let (events, _) = bursar.journal().read(0, 1_000).await.unwrap();
    let mut instants: Vec<Time> = events.iter().map(|event| event.at).collect();
    instants.dedup();
    assert_eq!(events.len(), 501);
    assert!(instants.len() < 100, "500 callers took {} transactions", instants.len());
    bursar.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn listeners_receive_events_in_the_order_of_commits() {
    let bursar = Bursar::options("sqlite::memory:").upkeep(None).open().await.unwrap();
    bursar.ledger().define("room", budget(1_000_000)).await.unwrap();
    let mut notices = bursar.listen();
    for _ in 0..50 {
        let mut callers = JoinSet::new();
        for _ in 0..40 {
            let bursar = bursar.clone();
            callers.spawn(async move { bursar.ledger().post("room", 1).await.map(drop) });
        }
        assert!(callers.join_all().await.into_iter().all(|answer| answer.is_ok()));
    }
    let mut left = 1_000_000;
    for _ in 0..50 * 40 {
        let notice = notices.next().await.unwrap().unwrap();
        let Event::Posted { charges } = notice.event() else { panic!("{:?}", notice.event()) };
        assert_eq!(charges[0].balances[0].remaining, left - 1);
        left -= 1;
    }
    bursar.close().await;
}

#[tokio::test]
async fn full_queue_is_overloaded_and_nothing_accepted_is_lost() {
    let bursar = Bursar::options("sqlite::memory:").queue(10).batch(5).upkeep(None).open().await.unwrap();
    bursar.ledger().define("room", budget(1_000_000)).await.unwrap();
    // A closure occupies the writer, so that requests pile up.
    let (free, is_free) = std::sync::mpsc::channel::<()>();
    let (busy, is_busy) = tokio::sync::oneshot::channel();
    let blocker = tokio::spawn({
        let bursar = bursar.clone();
        async move {
            let work = move |_: &mut bursar::Transaction<'_, '_>| {
                let _ = busy.send(());
                let _ = is_free.recv();
                Ok::<(), Error>(())
            };
            bursar.transaction_within(Duration::from_secs(60), work).await
        }
    });
    is_busy.await.unwrap();
    let mut callers = JoinSet::new();
    for _ in 0..100 {
        let bursar = bursar.clone();
        callers.spawn(async move { bursar.ledger().post("room", 1).await });
    }
    let mut overloaded = 0;
    // At most five are in the batch that waits for the writer and ten in the queue.
    while overloaded < 85 {
        match callers.join_next().await.unwrap().unwrap() {
            Err(Error::Overloaded { waiting }) => {
                assert_eq!(waiting, 10);
                overloaded += 1;
            }
            other => panic!("the writer is occupied: {other:?}"),
        }
    }
    free.send(()).unwrap();
    blocker.await.unwrap().unwrap();
    let done = callers.join_all().await.into_iter().filter(Result::is_ok).count() as i64;
    assert_eq!(bursar.ledger().budget("room").await.unwrap().unwrap().balances[0].posted, done);
    assert!(done >= 10);
}

#[tokio::test]
async fn panic_in_a_batch_answers_its_callers_and_leaves_the_engine_alive() {
    let clock = Arc::new(Fragile(AtomicUsize::new(0)));
    let bursar = Bursar::options("sqlite::memory:").clock(clock.clone()).upkeep(None).open().await.unwrap();
    bursar.ledger().define("room", budget(100)).await.unwrap();
    clock.0.store(1, Ordering::SeqCst);
    let failed = bursar.ledger().post("room", 1).await.unwrap_err();
    assert!(failed.to_string().contains("the clock broke"), "{failed}");
    clock.0.store(0, Ordering::SeqCst);
    bursar.ledger().post("room", 1).await.unwrap();
    assert_eq!(bursar.ledger().budget("room").await.unwrap().unwrap().balances[0].posted, 1);
}

#[tokio::test]
async fn an_unreadable_row_fails_one_request_of_a_batch() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.db");
    let bursar = Bursar::options(&format!("sqlite://{}", file.display())).upkeep(None).open().await.unwrap();
    for n in 0..20 {
        bursar.ledger().define(format!("room:{n}"), budget(100)).await.unwrap();
    }
    let other = bursar::rusqlite::Connection::open(&file).unwrap();
    other.execute("UPDATE bursar_scopes SET state = x'00' WHERE scope = 'room:7'", []).unwrap();
    let mut callers = JoinSet::new();
    for n in 0..20 {
        let bursar = bursar.clone();
        callers.spawn(async move { (n, bursar.ledger().post(format!("room:{n}"), 1).await.is_ok()) });
    }
    let failed: Vec<i32> = callers.join_all().await.into_iter().filter(|(_, ok)| !ok).map(|(n, _)| n).collect();
    assert_eq!(failed, [7]);
    let counters = bursar.counters();
    assert_eq!((counters.done, counters.failed), (39, 1));
}

/// A logger that panics, as one on a full disk might.
struct FullLog;

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for FullLog {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        assert!(*event.metadata().level() > tracing::Level::ERROR, "the log is full");
    }
}

#[tokio::test]
async fn a_failing_logger_affects_only_its_own_request() {
    use tracing_subscriber::layer::SubscriberExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.db");
    let bursar = Bursar::options(&format!("sqlite://{}", file.display())).upkeep(None).open().await.unwrap();
    bursar.ledger().define("room", budget(9)).await.unwrap();
    bursar.ledger().define("spoiled", budget(9)).await.unwrap();
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute("UPDATE bursar_scopes SET state = x'00' WHERE scope = 'spoiled'", []).unwrap();
    // The committers of this runtime run on this thread.
    let full = tracing::subscriber::set_default(tracing_subscriber::registry().with(FullLog));
    let lost = bursar.ledger().post("spoiled", 1).await.unwrap_err();
    assert!(matches!(&lost, Error::Store(error) if matches!(**error, StoreError::UnknownOutcome(_))), "{lost}");
    drop(full);
    let next = tokio::time::timeout(Duration::from_secs(20), bursar.ledger().post("room", 1)).await;
    next.expect("the committer still runs").unwrap();
}

#[tokio::test]
async fn close_answers_accepted_requests_and_refuses_the_rest() {
    let bursar = Bursar::options("sqlite::memory:").upkeep(None).open().await.unwrap();
    bursar.ledger().define("room", budget(1_000_000)).await.unwrap();
    let mut callers = JoinSet::new();
    for _ in 0..200 {
        let bursar = bursar.clone();
        callers.spawn(async move { bursar.ledger().post("room", 1).await.map(drop) });
    }
    // Some requests are accepted by now, others are not.
    callers.join_next().await.unwrap().unwrap().unwrap();
    let survivor = bursar.clone();
    bursar.close().await;
    for answer in callers.join_all().await {
        match answer {
            Ok(()) => {}
            Err(error) => assert!(error.is_closed(), "{error}"),
        }
    }
    assert!(survivor.ledger().post("room", 1).await.unwrap_err().is_closed());
    assert!(matches!(survivor.verify().await, Err(Error::Store(error)) if matches!(*error, StoreError::Closed)));
}

/// After `close`, the write-ahead log is merged into the database file, which can be copied.
#[tokio::test]
async fn after_close_the_database_is_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bursar.db");
    for round in 1..=20 {
        let bursar = Bursar::options(&format!("sqlite://{}", path.display())).upkeep(None).open().await.unwrap();
        bursar.ledger().define("room", budget(1_000_000)).await.unwrap();
        bursar.ledger().post("room", 1).await.unwrap();
        let reader = bursar.clone();
        let reading = tokio::spawn(async move { while reader.ledger().budget("room").await.is_ok() {} });
        bursar.close().await;
        assert!(!folder.path().join("bursar.db-wal").exists(), "round {round}");
        reading.await.unwrap();
        let copy = folder.path().join("copy.db");
        std::fs::copy(&path, &copy).unwrap();
        let copied = Bursar::options(&format!("sqlite://{}", copy.display())).upkeep(None).open().await.unwrap();
        assert_eq!(copied.ledger().budget("room").await.unwrap().unwrap().balances[0].posted, round);
        copied.close().await;
    }
}

#[tokio::test]
async fn two_instances_work_in_one_process() {
    let first = Bursar::open("sqlite::memory:").await.unwrap();
    let second = Bursar::open("sqlite::memory:").await.unwrap();
    first.ledger().define("room", budget(100)).await.unwrap();
    assert!(second.ledger().budget("room").await.unwrap().is_none());
    first.close().await;
    second.ledger().define("room", budget(100)).await.unwrap();
    second.close().await;
}

#[tokio::test]
async fn a_lagging_listener_learns_what_it_missed_and_blocks_no_request() {
    let bursar = Bursar::options("sqlite::memory:").upkeep(None).open().await.unwrap();
    bursar.ledger().define("room", budget(1_000_000)).await.unwrap();
    let mut lagging = bursar.listen();
    let mut callers = JoinSet::new();
    for _ in 0..5_000 {
        let bursar = bursar.clone();
        callers.spawn(async move { bursar.ledger().post("room", 1).await.map(drop) });
    }
    assert!(callers.join_all().await.into_iter().all(|answer| answer.is_ok()));
    let missed = lagging.next().await.expect("open").expect_err("the listener lags");
    assert!(missed.commands >= 900, "{missed}");
    assert_eq!(lagging.next().await.expect("open").expect("later events arrive").event().kind(), "spend.posted");
}

#[tokio::test]
async fn background_maintenance_sweeps_expired_holds() {
    let bursar = Bursar::options("sqlite::memory:").upkeep(Some(Duration::from_millis(5))).open().await.unwrap();
    let mut short = budget(100);
    short.hold.ttl_min = bursar::Span::from_millis(1);
    bursar.ledger().define("room", short).await.unwrap();
    let mut notices = bursar.listen();
    let placed = bursar.ledger().hold("room", 10, Duration::from_millis(1)).await.unwrap().detach();
    let swept = async {
        loop {
            let notice = notices.next().await.expect("open").expect("not lagging");
            if notice.event().kind() == "hold.expired" {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), swept).await.expect("the hold is swept");
    let hold = bursar.ledger().find(placed).await.unwrap().unwrap();
    assert_eq!(hold.state, bursar::HoldState::Expired);
    bursar.close().await;
}

#[tokio::test]
async fn a_replayed_mint_does_not_return_the_token() {
    let bursar = Bursar::options("sqlite::memory:").upkeep(None).open().await.unwrap();
    let mint = || {
        let (purpose, subject) = ("upload".try_into().unwrap(), "s".try_into().unwrap());
        let key = Some("once".try_into().unwrap());
        let ttl = Duration::from_secs(60);
        let bursar = bursar.clone();
        async move { bursar.grants().mint_with(purpose, subject, Payload::default(), ttl, key).await.unwrap() }
    };
    let (first, again) = (mint().await, mint().await);
    assert_eq!((first.id, first.expires_at), (again.id, again.expires_at));
    assert!(first.token.is_some() && again.token.is_none());
    let grants = bursar.grants();
    assert_eq!(grants.list(None, 10).await.unwrap().len(), 1);
    grants.redeem("upload", "s", &first.token.unwrap()).await.unwrap();
}

/// Callers that send the next request as soon as they are answered share the next batch.
#[tokio::test]
async fn a_few_callers_share_every_batch() {
    let bursar = Bursar::options("sqlite::memory:").upkeep(None).open().await.unwrap();
    bursar.ledger().define("team", budget(1_000_000)).await.unwrap();
    let before = bursar.counters().batches;
    let mut callers = JoinSet::new();
    for caller in 0..20 {
        // Half of the callers start while the first batch is in flight.
        while caller == 10 && bursar.counters().batches == before {
            tokio::task::yield_now().await;
        }
        let bursar = bursar.clone();
        callers.spawn(async move {
            for _ in 0..30 {
                bursar.ledger().post("team", 1).await.unwrap();
            }
        });
    }
    callers.join_all().await;
    let batches = bursar.counters().batches - before;
    assert!((30..=33).contains(&batches), "30 rounds of 20 callers took {batches} batches");
}
