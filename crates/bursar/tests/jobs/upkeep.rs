//! Maintenance of expired leases, parked jobs and finished jobs.

use std::sync::Arc;
use std::time::Duration;

use bursar::{
    AttemptEnd, Failure, HeartbeatItem, JobState, ManualClock, Payload, Progress, QueueConfig, Retention, Tended, Usage,
};

use futures_util::FutureExt;

use crate::home::{
    ENGINES, TIMELESS, ask, balance, budget, enqueue_held, job, lease_one, open, open_live, open_with, secs,
};

#[tokio::test]
async fn expired_leases_are_taken_back_and_count_as_attempts() {
    for engine in ENGINES {
        let (bursar, clock) = open(engine).await;
        let id = bursar.jobs().enqueue(job("q", "work")).await.unwrap().id;
        let leased = lease_one(&bursar, "q").await;
        clock.advance(secs(29));
        assert_eq!(bursar.tend(100).await.unwrap(), Tended::default());
        clock.advance(secs(1));
        assert_eq!(bursar.tend(100).await.unwrap(), Tended { rescued: 1, ..Tended::default() });
        let attempts = bursar.jobs().attempts(id).await.unwrap();
        let Some((_, AttemptEnd::Rescued(error))) = &attempts[0].end else { panic!("{attempts:?}") };
        assert_eq!(error.kind, "lease expired");
        let late = bursar.jobs().complete(id, leased.life.fence, Payload::default(), None).await.unwrap_err();
        assert!(late.is_lease_lost());
        bursar.close().await;
    }
}

#[tokio::test]
async fn heartbeats_and_progress_renew_a_lease() {
    for engine in ENGINES {
        for tells_progress in [false, true] {
            let (bursar, clock) = open(engine).await;
            let id = bursar.jobs().enqueue(job("q", "work")).await.unwrap().id;
            let leased = lease_one(&bursar, "q").await;
            let beat = HeartbeatItem::new(id, leased.life.fence);
            for _ in 0..3 {
                clock.advance(secs(29));
                let beaten = if tells_progress {
                    bursar.jobs().progress(beat.clone(), Progress::percent(1.0)).await.unwrap()
                } else {
                    bursar.jobs().heartbeat(beat.clone()).await.unwrap()
                };
                let now = bursar.now().await.unwrap();
                let lease = bursar.jobs().find(id).await.unwrap().unwrap().life.lease.unwrap();
                assert_eq!((lease.until, beaten.until), (now.after(secs(30)), now.after(secs(30))), "{engine}");
                assert_eq!(bursar.tend(100).await.unwrap(), Tended::default(), "{engine}");
            }
            clock.advance(secs(30));
            assert_eq!(bursar.tend(100).await.unwrap().rescued, 1, "{engine}: nothing was heard for a whole lease");
            bursar.close().await;
        }
    }
}

/// In paused time: whenever a lease expires between two runs of maintenance, the job is ready within a second.
#[tokio::test(start_paused = true)]
async fn a_job_is_ready_within_a_second_of_its_leases_expiry() {
    for engine in TIMELESS {
        for phase_ms in [0, 1, 250, 499, 500, 777] {
            let clock = Arc::new(ManualClock::at(bursar::Time::from_micros(1_700_000_000_000_000)));
            let bursar = open_with(engine, Some(clock.clone()), |options| options).await;
            let retry = bursar::Retry {
                backoff: bursar::Backoff::Fixed { delay: bursar::Span::ZERO },
                ..bursar::Retry::default()
            };
            let id =
                bursar.jobs().enqueue(bursar::JobSpec { retry: Some(retry), ..job("q", "work") }).await.unwrap().id;
            lease_one(&bursar, "q").await;
            tokio::time::sleep(Duration::from_millis(phase_ms)).await;
            clock.advance(secs(30));
            let expired = tokio::time::Instant::now();
            let leased = bursar.jobs().lease_wait(ask("q", 1), Duration::from_secs(50)).await.unwrap().jobs.remove(0);
            assert_eq!((leased.id, leased.life.attempts), (id, 2));
            let took = expired.elapsed();
            assert!(took <= Duration::from_secs(1), "{phase_ms} ms after maintenance: {took:?}");
            bursar.close().await;
        }
    }
}

#[tokio::test]
async fn background_maintenance_takes_back_an_expired_lease() {
    for engine in ENGINES {
        let bursar = open_live(engine).await;
        let jobs = bursar.jobs();
        let fast = bursar::Backoff::Fixed { delay: bursar::Span::ZERO };
        let retry = bursar::Retry { backoff: fast, ..bursar::Retry::default() };
        bursar.queues().define("q", QueueConfig { retry, ..QueueConfig::default() }).await.unwrap();
        jobs.enqueue(job("q", "work")).await.unwrap();
        let ask = bursar::LeaseRequest { lease: Some(bursar::Span::from_millis(100)), ..crate::home::ask("q", 1) };
        let first = jobs.lease(ask.clone()).await.unwrap().jobs.remove(0);
        // A waiting worker gets the job as soon as it is ready again.
        let second = jobs.lease_wait(ask, Duration::from_secs(30)).await.unwrap().jobs.remove(0);
        assert_eq!((second.id, second.life.attempts), (first.id, 2));
        bursar.close().await;
    }
}

/// Parks a job: its first attempt spent so much that the budget does not admit the next one.
async fn park(bursar: &bursar::Bursar) -> bursar::JobId {
    bursar.ledger().define("team", budget(100)).await.unwrap();
    let id = enqueue_held(bursar, "q", "team", 60).await;
    let leased = lease_one(bursar, "q").await;
    let spent = [Usage { scope: None, amount: 60 }];
    let failure = Failure::new("bad", "x").retry_after(Duration::ZERO).spent(spent);
    let parked = bursar.jobs().fail(id, leased.life.fence, failure).await.unwrap();
    assert_eq!(parked.state, JobState::AwaitingBudget);
    assert_eq!(balance(bursar, "team").await, (60, 0));
    id
}

#[tokio::test(start_paused = true)]
async fn a_parked_job_resumes_when_its_budget_admits_it() {
    for engine in TIMELESS {
        for free in ["raise", "credit"] {
            let (bursar, _) = open(engine).await;
            let id = park(&bursar).await;
            let waiter = tokio::spawn({
                let bursar = bursar.clone();
                async move { bursar.jobs().lease_wait(crate::home::ask("q", 1), Duration::from_secs(50)).await.unwrap() }
            });
            tokio::time::sleep(Duration::from_millis(20)).await;
            let at = tokio::time::Instant::now();
            match free {
                "raise" => bursar.ledger().define("team", budget(200)).await.unwrap(),
                _ => drop(bursar.ledger().credit("team", 60, None).await.unwrap()),
            }
            let leased = waiter.await.unwrap().jobs.remove(0);
            assert_eq!((leased.id, leased.life.attempts), (id, 2));
            assert_eq!(tokio::time::Instant::now(), at, "{free}: nothing was waited for");
            let posted = if free == "raise" { 60 } else { 0 };
            assert_eq!(balance(&bursar, "team").await, (posted, 60));
            bursar.close().await;
        }
    }
}

#[tokio::test]
async fn close_leaves_no_job_parked_that_could_run() {
    for engine in ENGINES {
        let (bursar, _) = open(engine).await;
        let id = park(&bursar).await;
        let mut notices = bursar.listen();
        bursar.ledger().define("team", budget(200)).await.unwrap();
        bursar.close().await;
        let mut resumed = false;
        while let Some(Some(notice)) = notices.next().now_or_never() {
            let event = notice.unwrap();
            resumed |= event.event().job() == Some(id) && event.event().kind() == "job.resumed";
        }
        assert!(resumed);
    }
}

#[tokio::test]
async fn finished_jobs_are_deleted_after_their_retention() {
    for engine in ENGINES {
        let (bursar, clock) = open(engine).await;
        let kept = Retention { succeeded: Some(secs(60)), ..Retention::default() };
        bursar.queues().define("q", QueueConfig { retention: kept, ..QueueConfig::default() }).await.unwrap();
        let id = bursar.jobs().enqueue(job("q", "work")).await.unwrap().id;
        let leased = lease_one(&bursar, "q").await;
        bursar.jobs().complete(id, leased.life.fence, Payload::default(), None).await.unwrap();
        clock.advance(secs(59));
        assert_eq!(bursar.tend(10).await.unwrap(), Tended::default());
        clock.advance(secs(1));
        assert_eq!(bursar.tend(10).await.unwrap(), Tended { ended: 1, ..Tended::default() });
        assert_eq!(bursar.removed().jobs, 1);
        assert!(bursar.jobs().find(id).await.unwrap().is_none());
        bursar.close().await;
    }
}
