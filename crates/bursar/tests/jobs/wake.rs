//! Waiting workers are woken at once, and do little while they wait.

use std::time::Duration;

use bursar::{Bursar, JobKind, LeaseRequest, Leased, QueueConfig};
use futures_util::FutureExt;
use tokio::task::JoinHandle;

use crate::home::{ENGINES, TIMELESS, ask, budget, enqueue_held, job, lease_one, open};

const LONG: Duration = Duration::from_secs(50);

/// Spawns a call that waits for jobs.
fn wait(bursar: &Bursar, ask: LeaseRequest) -> JoinHandle<Leased> {
    let bursar = bursar.clone();
    tokio::spawn(async move { bursar.jobs().lease_wait(ask, LONG).await.unwrap() })
}

/// Lets all tasks run until they wait for time or for an event. Time is paused: it advances only when every task is idle.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

#[tokio::test(start_paused = true)]
async fn waiting_polls_the_counter_and_asks_once_a_second() {
    for engine in TIMELESS {
        let (bursar, _) = open(engine).await;
        let waiter = wait(&bursar, ask("q", 1));
        settle().await;
        let before = bursar.counters();
        tokio::time::sleep(Duration::from_secs(10)).await;
        let after = bursar.counters();
        assert!(after.done - before.done <= 10, "{} requests", after.done - before.done);
        let polls = after.polls - before.polls;
        assert!((1_000..=10_000).contains(&polls), "{polls} polls");
        waiter.abort();
        let _ = waiter.await;
        // Without a waiting worker nothing is polled.
        settle().await;
        let before = bursar.counters();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(bursar.counters(), before);
        bursar.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn commits_that_make_no_job_ready_wake_few_workers() {
    for engine in TIMELESS {
        let (bursar, _) = open(engine).await;
        let waiter = wait(&bursar, ask("q", 1));
        settle().await;
        let before = bursar.counters().done;
        for _ in 0..500 {
            bursar.jobs().enqueue(job("other", "work")).await.unwrap();
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
        let requests = bursar.counters().done - before - 500;
        assert!((10..=60).contains(&requests), "{requests} requests in two seconds");
        // A job of its queue is still noticed at once.
        let at = tokio::time::Instant::now();
        bursar.jobs().enqueue(job("q", "work")).await.unwrap();
        assert_eq!(waiter.await.unwrap().jobs.len(), 1);
        assert_eq!(tokio::time::Instant::now(), at);
        bursar.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_job_wakes_one_waiting_worker() {
    for engine in TIMELESS {
        let (bursar, _) = open(engine).await;
        let mut waiters: Vec<_> = (0..50).map(|_| wait(&bursar, ask("q", 1))).collect();
        settle().await;
        let (before, at) = (bursar.counters(), tokio::time::Instant::now());
        let id = bursar.jobs().enqueue(job("q", "work")).await.unwrap().id;
        let (leased, index, _) = futures_util::future::select_all(&mut waiters).await;
        assert_eq!(leased.unwrap().jobs[0].id, id);
        assert_eq!(tokio::time::Instant::now(), at, "no time passes between the commit and the wake-up");
        // The enqueueing, the request of the woken worker, and one more because the change counter changed.
        assert!(bursar.counters().done - before.done <= 3);
        waiters.swap_remove(index);
        waiters.iter().for_each(JoinHandle::abort);
        bursar.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_at_capacity_wakes_the_next() {
    for engine in TIMELESS {
        let (bursar, _) = open(engine).await;
        bursar.queues().pause("q").await.unwrap();
        bursar.jobs().enqueue_all((0..5).map(|_| job("q", "work"))).await.unwrap();
        let waiters: Vec<_> = (0..5).map(|_| wait(&bursar, ask("q", 1))).collect();
        settle().await;
        let at = tokio::time::Instant::now();
        // One event, which wakes one worker.
        bursar.queues().resume("q").await.unwrap();
        for waiter in waiters {
            assert_eq!(waiter.await.unwrap().jobs.len(), 1);
        }
        assert_eq!(tokio::time::Instant::now(), at);
        bursar.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_wakes_a_worker_for_its_kind() {
    for engine in TIMELESS {
        let (bursar, _) = open(engine).await;
        let of = |kind: &str| LeaseRequest { kinds: vec![JobKind::new(kind).unwrap()], ..ask("q", 1) };
        let others: Vec<_> = (0..5).map(|_| wait(&bursar, of("mail.*"))).collect();
        let wanted = wait(&bursar, of("video.*"));
        settle().await;
        let at = tokio::time::Instant::now();
        bursar.jobs().enqueue(job("q", "video.cut")).await.unwrap();
        assert_eq!(wanted.await.unwrap().jobs.len(), 1);
        assert_eq!(tokio::time::Instant::now(), at);
        others.iter().for_each(JoinHandle::abort);
        bursar.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn freed_slots_retries_and_returned_jobs_wake_workers() {
    for engine in TIMELESS {
        let (bursar, _) = open(engine).await;
        let jobs = bursar.jobs();
        bursar.queues().define("q", QueueConfig { concurrency: Some(1), ..QueueConfig::default() }).await.unwrap();
        jobs.enqueue_all([job("q", "work"), job("q", "work")]).await.unwrap();
        let first = lease_one(&bursar, "q").await;
        let waiter = wait(&bursar, ask("q", 1));
        settle().await;
        let at = tokio::time::Instant::now();
        jobs.complete(first.id, first.life.fence, bursar::Payload::default(), None).await.unwrap();
        let second = waiter.await.unwrap().jobs.remove(0);
        let waiter = wait(&bursar, ask("q", 1));
        tokio::task::yield_now().await;
        jobs.hand_back(second.id, second.life.fence).await.unwrap();
        let second = waiter.await.unwrap().jobs.remove(0);
        let failure = bursar::Failure::new("bad", "x").for_good();
        jobs.fail(second.id, second.life.fence, failure).await.unwrap();
        let waiter = wait(&bursar, ask("q", 1));
        tokio::task::yield_now().await;
        jobs.retry(second.id).await.unwrap();
        assert_eq!(waiter.await.unwrap().jobs[0].id, second.id);
        assert_eq!(tokio::time::Instant::now(), at);
        bursar.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_slots_of_a_flow_key_are_used_at_once() {
    for engine in ENGINES {
        let (bursar, _) = open(engine).await;
        let limit = async |key_concurrency| {
            let config = QueueConfig { key_concurrency, ..QueueConfig::default() };
            bursar.queues().define("q", config).await.unwrap();
        };
        limit(Some(1)).await;
        let keyed = || bursar::JobSpec { key: Some("customer".try_into().unwrap()), ..job("q", "work") };
        bursar.jobs().enqueue_all((0..4).map(|_| keyed())).await.unwrap();
        lease_one(&bursar, "q").await;
        assert!(bursar.jobs().lease(ask("q", 1)).await.unwrap().jobs.is_empty(), "{engine}: the key is at its limit");
        for more in [Some(2), None] {
            let waiter = wait(&bursar, ask("q", 1));
            limit(more).await;
            assert_eq!(waiter.await.unwrap().jobs.len(), 1, "{engine}: {more:?}");
        }
        bursar.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_scheduled_job_wakes_a_worker_when_it_is_due() {
    for engine in TIMELESS {
        let (bursar, clock) = open(engine).await;
        let later = |secs| bursar::JobSpec { delay: bursar::Span::from_secs(secs), ..job("q", "work") };
        bursar.jobs().enqueue(later(30)).await.unwrap();
        let waiter = wait(&bursar, ask("q", 1));
        settle().await;
        // A job that is due sooner is enqueued while the worker waits.
        bursar.jobs().enqueue(later(5)).await.unwrap();
        let at = tokio::time::Instant::now();
        clock.advance(bursar::Span::from_secs(5));
        assert_eq!(waiter.await.unwrap().jobs.len(), 1);
        let waited = tokio::time::Instant::now() - at;
        // By the database's clock it was due at once. The watcher polls when its own timer fires, or once a second.
        assert!(waited <= Duration::from_millis(5_010), "{waited:?}");
        bursar.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_leased_for_a_cancelled_call_is_returned() {
    for engine in TIMELESS {
        let (bursar, _) = open(engine).await;
        let id = bursar.jobs().enqueue(job("q", "work")).await.unwrap().id;
        {
            let jobs = bursar.jobs();
            // The call is dropped while its request is in flight.
            assert!(jobs.lease(ask("q", 1)).now_or_never().is_none());
        }
        let leased = bursar.jobs().lease_wait(ask("q", 1), LONG).await.unwrap();
        assert_eq!(
            (leased.jobs[0].id, leased.jobs[0].life.attempts),
            (id, 1),
            "the lost lease does not count as an attempt"
        );
        bursar.close().await;
    }
}

#[tokio::test]
async fn a_job_is_returned_if_the_call_is_cancelled_while_its_hold_is_read() {
    for engine in ["sqlite", "postgres"] {
        let (bursar, _) = open(engine).await;
        bursar.ledger().define("room", budget(100)).await.unwrap();
        let id = enqueue_held(&bursar, "q", "room", 60).await;
        let leased = [lease_one(&bursar, "q").await];
        // A read that is ready at once is not cancelled.
        while bursar.jobs().held_for(&leased).now_or_never().is_some() {}
        let leased = bursar.jobs().lease_wait(ask("q", 1), LONG).await.unwrap();
        assert_eq!((leased.jobs[0].id, leased.jobs[0].life.attempts), (id, 1), "on {engine}");
        let held = bursar.jobs().held_for(&leased.jobs).await;
        assert_eq!(held[&id], [("room".try_into().unwrap(), 60)], "on {engine}");
        bursar.close().await;
    }
}
