//! The API of jobs and queues.

use std::time::Duration;

use bursar::{
    AttemptEnd, Failure, HeartbeatItem, JobFilter, JobState, Order, Payload, Queue, QueueConfig, Refusal, Usage,
};

use crate::home::{ENGINES, ask, balance, budget, enqueue_held, job, lease_one, open, secs};

#[tokio::test]
async fn a_hundred_thousand_jobs_are_enqueued_in_order_by_one_call() {
    for engine in ENGINES {
        let (bursar, _) = open(engine).await;
        // The in-memory model scans all jobs for each lease, so this test leases none.
        let jobs = (0..100_000).map(|_| job("bulk", "work"));
        let enqueued = bursar.jobs().enqueue_all(jobs).await.unwrap();
        assert_eq!(enqueued.len(), 100_000);
        assert!(enqueued.iter().all(|job| job.created));
        let mut ids: Vec<_> = enqueued.iter().map(|job| job.id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 100_000);
        let figures = bursar.queues().figures("bulk", 1).await.unwrap();
        assert_eq!((figures.count(JobState::Queued), figures.enqueued), (100_000, 100_000));
        bursar.close().await;
    }
}

#[tokio::test]
async fn the_attempts_of_a_job_are_listed_with_their_ends() {
    for engine in ENGINES {
        let (bursar, clock) = open(engine).await;
        let jobs = bursar.jobs();
        let id = jobs.enqueue(job("q", "work")).await.unwrap().id;
        let first = lease_one(&bursar, "q").await;
        let failed =
            jobs.fail(id, first.life.fence, Failure::new("timeout", "after 3 s").retry_after(Duration::from_secs(9)));
        assert_eq!(failed.await.unwrap().state, JobState::Scheduled);
        assert!(jobs.lease(ask("q", 1)).await.unwrap().jobs.is_empty());
        clock.advance(secs(9));
        let second = lease_one(&bursar, "q").await;
        assert_eq!((second.id, second.life.attempts), (id, 2));
        jobs.snooze(id, second.life.fence, Duration::ZERO).await.unwrap();
        let third = lease_one(&bursar, "q").await;
        assert_eq!(third.life.attempts, 2, "a snooze does not count as an attempt");
        jobs.complete(id, third.life.fence, Payload::of(&7).unwrap(), None).await.unwrap();
        // Repeating the same end returns the same answer; another end is refused, because the lease is over.
        let again = jobs.complete(id, third.life.fence, Payload::default(), None).await.unwrap();
        assert_eq!(again.state, JobState::Succeeded);
        assert!(jobs.hand_back(id, third.life.fence).await.unwrap_err().is_lease_lost());

        let attempts = jobs.attempts(id).await.unwrap();
        let ends: Vec<_> = attempts.iter().map(|attempt| (attempt.attempt, attempt.end.clone().unwrap().1)).collect();
        assert_eq!(ends[0].0, 1);
        assert_eq!(ends[0].1.error().unwrap().kind, "timeout");
        assert_eq!(ends[1..], [(2, AttemptEnd::Snoozed), (2, AttemptEnd::Succeeded)]);
        let found = jobs.find(id).await.unwrap().unwrap();
        assert_eq!((found.life.result.as_str(), found.life.state), ("7", JobState::Succeeded));
        bursar.close().await;
    }
}

#[tokio::test]
async fn refusals_of_single_jobs_have_specific_errors() {
    for engine in ENGINES {
        let (bursar, _) = open(engine).await;
        let jobs = bursar.jobs();
        let id = jobs.enqueue(job("q", "work")).await.unwrap().id;
        let leased = lease_one(&bursar, "q").await;
        let stale = HeartbeatItem::new(id, leased.life.fence + 1);
        assert!(jobs.heartbeat(stale).await.unwrap_err().is_lease_lost());
        let beat = HeartbeatItem::new(id, leased.life.fence);
        assert_eq!(jobs.heartbeat(beat.clone()).await.unwrap().order, Order::Continue);
        let other_tenant = bursar.tenant("other").unwrap();
        assert!(other_tenant.jobs().heartbeat(beat).await.unwrap_err().is_unknown_job());
        assert!(other_tenant.jobs().cancel(id).await.unwrap_err().is_unknown_job());
        assert!(other_tenant.jobs().find(id).await.unwrap().is_none());
        assert!(other_tenant.jobs().history(id, 10).await.unwrap().is_empty());
        assert!(jobs.retry(id).await.unwrap_err().is_wrong_state());
        bursar.close().await;
    }
}

#[tokio::test]
async fn queues_are_defined_paused_and_counted() {
    for engine in ENGINES {
        let (bursar, _) = open(engine).await;
        let queues = bursar.queues();
        assert_eq!(queues.get("q").await.unwrap(), QueueConfig::default());
        let config = QueueConfig { concurrency: Some(2), ..QueueConfig::default() };
        queues.define("q", config.clone()).await.unwrap();
        queues.pause("q").await.unwrap();
        assert_eq!(queues.get("q").await.unwrap(), QueueConfig { paused: true, ..config.clone() });
        let id = bursar.jobs().enqueue(job("q", "work")).await.unwrap().id;
        assert!(bursar.jobs().lease(ask("q", 1)).await.unwrap().jobs.is_empty());
        queues.resume("q").await.unwrap();
        let leased = lease_one(&bursar, "q").await;
        // The heartbeat of a worker with a job of a paused queue tells it to lease no more.
        queues.pause("q").await.unwrap();
        let beat = HeartbeatItem::new(id, leased.life.fence);
        assert_eq!(bursar.jobs().heartbeat(beat).await.unwrap().order, Order::Drain);
        let listed = queues.list(None, 10).await.unwrap();
        assert_eq!(listed, [("q".try_into().unwrap(), QueueConfig { paused: true, ..config })]);
        assert_eq!(bursar.tenant("other").unwrap().queues().list(None, 10).await.unwrap(), []);
        let mut with_figures = queues.list_with_figures(None, 10, 5).await.unwrap();
        let (name, _, figures) = with_figures.remove(0);
        assert_eq!((name.as_str(), figures.count(JobState::Leased), figures.enqueued), ("q", 1, 1));
        let series = figures.series();
        assert_eq!((series.enqueued.len(), series.enqueued.iter().sum::<i64>()), (5, 1));
        assert_eq!(series.dead, [0; 5]);
        assert_eq!(series.from.micros() % 60_000_000, 0);
        assert!(with_figures.is_empty());
        bursar.close().await;
    }
}

#[tokio::test]
async fn a_job_settles_its_hold_with_its_actual_cost() {
    for engine in ENGINES {
        let (bursar, _) = open(engine).await;
        bursar.ledger().define("team", budget(100)).await.unwrap();
        let id = enqueue_held(&bursar, "q", "team", 40).await;
        assert_eq!(balance(&bursar, "team").await, (0, 40));
        let held = bursar.jobs().held(None, None, 10).await.unwrap();
        let sums = held.iter().map(|held| (held.queue.as_str(), held.kind.as_str(), held.unit.as_str(), held.amount));
        assert_eq!(sums.collect::<Vec<_>>(), [("q", "work", "", 40)]);
        let other: Queue = "r".try_into().unwrap();
        assert_eq!(bursar.jobs().held(Some(&other), None, 10).await.unwrap(), []);
        let leased = lease_one(&bursar, "q").await;
        let usage = Some(vec![Usage { scope: None, amount: 25 }]);
        let done = bursar.jobs().complete(id, leased.life.fence, Payload::default(), usage).await.unwrap();
        assert_eq!(done.cost, [("team".try_into().unwrap(), 25)]);
        assert_eq!(balance(&bursar, "team").await, (25, 0));
        let day = bursar.now().await.unwrap().micros().div_euclid(86_400_000_000);
        let costs = bursar.jobs().costs(day..=day, None, 10).await.unwrap();
        assert_eq!(costs.len(), 1);
        assert_eq!((costs[0].queue.as_str(), costs[0].kind.as_str(), costs[0].amount), ("q", "work", 25));
        assert_eq!(bursar.jobs().held(None, None, 10).await.unwrap(), []);
        bursar.close().await;
    }
}

#[tokio::test]
async fn usage_that_cannot_be_assigned_is_refused() {
    for engine in ENGINES {
        let (bursar, _) = open(engine).await;
        let id = bursar.jobs().enqueue(job("q", "work")).await.unwrap().id;
        let leased = lease_one(&bursar, "q").await;
        let usage = Some(vec![Usage { scope: None, amount: 1 }]);
        let refused = bursar.jobs().complete(id, leased.life.fence, Payload::default(), usage).await.unwrap_err();
        assert!(matches!(refused.refusal(), Some(Refusal::UsageAmbiguous { charges: 0, .. })), "{refused}");
        bursar.close().await;
    }
}

#[tokio::test]
async fn jobs_are_listed_by_filters() {
    for engine in ENGINES {
        let (bursar, _) = open(engine).await;
        let jobs = bursar.jobs();
        for (queue, kind) in [("a", "video.cut"), ("a", "video.mix"), ("b", "mail.send")] {
            jobs.enqueue(job(queue, kind)).await.unwrap();
        }
        let dead = lease_one(&bursar, "b").await;
        jobs.fail(dead.id, dead.life.fence, Failure::new("rejected", "code 7").for_good()).await.unwrap();
        let fingerprint = bursar::JobError::new("rejected", "code 8").fingerprint();
        let cases = [
            (JobFilter::default(), 3),
            (JobFilter { queue: Some("a".try_into().unwrap()), ..JobFilter::default() }, 2),
            (JobFilter { kind: Some("video.*".try_into().unwrap()), ..JobFilter::default() }, 2),
            (JobFilter { state: Some(JobState::Dead), ..JobFilter::default() }, 1),
            (JobFilter { fingerprint: Some(fingerprint), ..JobFilter::default() }, 1),
            (JobFilter { tag: Some("none".try_into().unwrap()), ..JobFilter::default() }, 0),
        ];
        for (filter, count) in cases {
            assert_eq!(jobs.list(&filter, None, 10).await.unwrap().len(), count, "{filter:?}");
            assert_eq!(jobs.count(&filter, 10).await.unwrap().found, count, "{filter:?}");
        }
        let first = jobs.list(&JobFilter::default(), None, 1).await.unwrap();
        let rest = jobs.list(&JobFilter::default(), Some(first[0].id), 10).await.unwrap();
        assert_eq!(rest.len(), 2);
        bursar.close().await;
    }
}
