//! Leases: extended, lost, cancelled, left by a crash, and returned.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bursar::{HandlerError, JobContext, JobState, Span, Stop};
use tokio::sync::{Notify, mpsc};

use crate::world::{World, eventually, for_every_worker, soon, spec};

/// Long enough for heartbeats on a slow machine.
const LEASE: Span = Span::from_secs(3);

for_every_worker! {
    sqlite: [the_job_of_a_crashed_worker_runs_on_another, a_handler_is_stopped_when_its_job_is_cancelled,
             a_long_handler_keeps_its_lease, draining_returns_jobs_that_were_not_started,
             a_hanging_handler_is_dropped_after_the_grace_period],
    postgres: [the_job_of_a_crashed_worker_runs_on_another, a_handler_is_stopped_when_its_job_is_cancelled,
               draining_returns_jobs_that_were_not_started],
    stopped_clock: [usage_of_a_lost_lease_is_charged_once]
}

async fn the_job_of_a_crashed_worker_runs_on_another(mut world: World) {
    let id = world.enqueue_held("x", 40).await;
    let (start_signal, mut started) = mpsc::unbounded_channel();
    let first = world.worker().lease(LEASE.into()).on("x", move |(): (), _: JobContext| {
        start_signal.send(()).unwrap();
        std::future::pending::<Result<(), HandlerError>>()
    });
    let first = tokio::spawn(first.run());
    soon(started.recv()).await.unwrap();
    // The abort ends handlers, heartbeats and reports at once.
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    let second = world.worker().on("x", async |(): (), context: JobContext| {
        context.usage(9)?;
        Ok::<_, HandlerError>(context.attempt())
    });
    let running = second.start().unwrap();
    let done = world.until(id, JobState::Succeeded).await;
    assert_eq!((done.life.result.as_str(), done.life.attempts), ("2", 2));
    assert_eq!(world.balance().await, (9, 0));
    running.drain().await.unwrap();
    world.stop().await;
}

async fn a_handler_is_stopped_when_its_job_is_cancelled(mut world: World) {
    let id = world.enqueue("x", &()).await;
    let handler = async |(): (), context: JobContext| match context.stopped().await {
        Stop::Cancelled => Err::<(), _>(HandlerError::retry("stopped", "the job was cancelled")),
        other => panic!("{other:?}"),
    };
    let running = world.worker().lease(LEASE.into()).on("x", handler).start().unwrap();
    world.until(id, JobState::Leased).await;
    assert_eq!(
        world.bursar.jobs().cancel(id).await.unwrap().state,
        JobState::Leased,
        "a running job is not cancelled at once"
    );
    let job = world.until(id, JobState::Cancelled).await;
    assert_eq!(job.life.error.unwrap().kind, "stopped");
    running.drain().await.unwrap();
    world.stop().await;
}

async fn a_long_handler_keeps_its_lease(mut world: World) {
    let id = world.enqueue("x", &()).await;
    let gate = Arc::new(Notify::new());
    let handler = {
        let gate = gate.clone();
        move |(): (), _: JobContext| {
            let gate = gate.clone();
            async move {
                gate.notified().await;
                Ok::<_, HandlerError>(())
            }
        }
    };
    let running = world.worker().lease(LEASE.into()).on("x", handler).start().unwrap();
    let leased = world.until(id, JobState::Leased).await.life.lease.unwrap();
    // Wait until heartbeats have extended the lease to three times its length.
    eventually(async || {
        let life = world.job(id).await.life;
        assert_eq!((life.state, life.attempts), (JobState::Leased, 1), "the lease expired");
        (life.lease.unwrap().until >= leased.since.after(LEASE).after(LEASE).after(LEASE)).then_some(())
    })
    .await;
    gate.notify_one();
    world.until(id, JobState::Succeeded).await;
    assert_eq!(running.drain().await.unwrap().completed, 1);
    world.stop().await;
}

async fn draining_returns_jobs_that_were_not_started(mut world: World) {
    let (start_signal, mut started) = mpsc::unbounded_channel();
    let handler = move |hold: bool, context: JobContext| {
        let start_signal = start_signal.clone();
        async move {
            if hold {
                start_signal.send(context.id())?;
                assert_eq!(context.stopped().await, Stop::Draining);
            }
            Ok::<_, HandlerError>(())
        }
    };
    // The short jobs make the worker lease ahead; then a long job occupies its only handler.
    let short = (0..300).map(|_| spec("x", &false));
    let long = (0..50).map(|_| spec("x", &true));
    world.bursar.jobs().enqueue_all(short.chain(long)).await.unwrap();
    let running = world.worker().concurrency(1).on("x", handler).start().unwrap();
    let held = soon(started.recv()).await.unwrap();
    let report = running.drain().await.unwrap();
    assert_eq!((report.completed, report.failed, report.lost), (301, 0, 0), "the running handler did not finish");
    assert_eq!(world.job(held).await.life.state, JobState::Succeeded);
    // Jobs of a lease call that was in flight are returned when its answer arrives.
    eventually(async || {
        let leased = world.bursar.queues().figures("q", 1).await.unwrap().count(JobState::Leased);
        (leased == 0).then_some(())
    })
    .await;
    let jobs = world.bursar.jobs().list(&bursar::JobFilter::default(), None, 1_000).await.unwrap();
    let waiting: Vec<_> = jobs.iter().filter(|job| job.life.state == JobState::Queued).collect();
    assert_eq!(waiting.len(), 49);
    assert!(waiting.iter().all(|job| job.life.attempts == 0), "a returned job counts no attempt");
    world.stop().await;
}

async fn a_hanging_handler_is_dropped_after_the_grace_period(mut world: World) {
    let id = world.enqueue("x", &()).await;
    let (start_signal, mut started) = mpsc::unbounded_channel();
    let handler = move |(): (), _: JobContext| {
        start_signal.send(()).unwrap();
        std::future::pending::<Result<(), HandlerError>>()
    };
    let running = world.worker().grace(Duration::from_millis(10)).on("x", handler).start().unwrap();
    soon(started.recv()).await.unwrap();
    let report = running.drain().await.unwrap();
    assert_eq!((report.returned, report.completed, report.lost), (1, 0, 0));
    let job = world.job(id).await;
    assert_eq!((job.life.state, job.life.attempts), (JobState::Queued, 0));
    world.stop().await;
}

async fn usage_of_a_lost_lease_is_charged_once(mut world: World) {
    let id = world.enqueue_held("x", 40).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let handler = {
        let runs = runs.clone();
        move |(): (), context: JobContext| {
            let first = runs.fetch_add(1, Ordering::SeqCst) == 0;
            async move {
                context.usage(if first { 7 } else { 20 })?;
                if first {
                    assert_eq!(context.stopped().await, Stop::Lost);
                }
                Ok::<_, HandlerError>(())
            }
        }
    };
    let running = world.worker().lease(LEASE.into()).on("x", handler).start().unwrap();
    world.until(id, JobState::Leased).await;
    // The lease expires, unless a heartbeat gets through in between.
    eventually(async || {
        world.clock.advance(Span::from_secs(1));
        (world.bursar.tend(10).await.unwrap().rescued == 1).then_some(())
    })
    .await;
    world.until(id, JobState::Succeeded).await;
    // The usage of the second attempt settles the hold; that of the first is charged in addition.
    eventually(async || (world.balance().await == (27, 0)).then_some(())).await;
    let report = running.drain().await.unwrap();
    assert_eq!((report.completed, report.lost), (1, 1));
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!(world.job(id).await.total_cost(), 27);
    world.stop().await;
}
