//! The worker in this process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar::{
    Backoff, Bursar, HandlerError, JobContext, JobId, JobSpec, JobState, Payload, Progress, QueueConfig, Retry, Span,
    Stop, WorkerReport,
};
use futures_util::future::join_all;
use tokio::sync::{Notify, mpsc};

use crate::home::{ENGINES, balance, budget, enqueue_held, job, open, open_live, secs, soon};

/// A lease long enough that heartbeats are in time on a slow machine.
const LEASE: Span = Span::from_secs(3);

/// Defines a queue whose jobs are retried at once.
async fn eager(bursar: &Bursar, queue: &str) {
    let retry = Retry { backoff: Backoff::Fixed { delay: Span::ZERO }, ..Retry::default() };
    bursar.queues().define(queue, QueueConfig { retry, ..QueueConfig::default() }).await.unwrap();
}

fn with_payload(spec: JobSpec, payload: &impl serde::Serialize) -> JobSpec {
    JobSpec { payload: Payload::of(payload).unwrap(), ..spec }
}

async fn state(bursar: &Bursar, id: JobId) -> JobState {
    bursar.jobs().find(id).await.unwrap().unwrap().life.state
}

/// Waits for an event of a job.
async fn until(notices: &mut bursar::Notices, id: JobId, kind: &str) {
    loop {
        let notice = soon(notices.next()).await.unwrap().unwrap();
        if notice.event().job() == Some(id) && notice.event().kind() == kind {
            return;
        }
    }
}

#[tokio::test]
async fn a_thousand_jobs_run_exactly_once_each_when_nothing_goes_wrong() {
    for engine in ENGINES {
        let bursar = open_live(engine).await;
        let jobs = (0..1_000u32).map(|number| with_payload(job("q", "count"), &number));
        let enqueued = bursar.jobs().enqueue_all(jobs).await.unwrap();
        let (seen, runs) = mpsc::unbounded_channel();
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let seen = seen.clone();
                let count = move |number: u32, _: JobContext| {
                    let seen = seen.clone();
                    async move {
                        seen.send(number)?;
                        Ok::<_, HandlerError>(number * 2)
                    }
                };
                bursar.worker().queue("q").concurrency(16).on("count", count).start().unwrap()
            })
            .collect();
        let mut runs = runs;
        let mut numbers = Vec::new();
        while numbers.len() < 1_000 {
            numbers.push(soon(runs.recv()).await.unwrap());
        }
        let mut sum = WorkerReport::default();
        for worker in workers {
            let report = worker.drain().await.unwrap();
            sum.completed += report.completed;
            sum.lost += report.lost;
        }
        drop(seen);
        assert!(runs.recv().await.is_none(), "no job runs twice");
        numbers.sort_unstable();
        assert_eq!(numbers, (0..1_000).collect::<Vec<_>>());
        assert_eq!((sum.completed, sum.lost), (1_000, 0));
        let last = bursar.jobs().find(enqueued[999].id).await.unwrap().unwrap();
        assert_eq!((last.life.result.as_str(), last.life.attempts), ("1998", 1));
        bursar.close().await;
    }
}

#[tokio::test]
async fn every_outcome_of_a_handler_is_recorded() {
    for engine in ENGINES {
        let bursar = open_live(engine).await;
        eager(&bursar, "q").await;
        let tries: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        let counted = tries.clone();
        let handler = move |how: String, context: JobContext| {
            let tried = {
                let mut tries = counted.lock().unwrap();
                let tried = tries.entry(how.clone()).or_insert(0);
                *tried += 1;
                *tried
            };
            async move {
                match (how.as_str(), tried) {
                    ("panic", 1) => panic!("it crashed"),
                    ("error", 1) => Err(std::io::Error::other("no wire"))?,
                    ("never", _) => Err(HandlerError::non_retryable("rejected", "for good")),
                    ("later", 1) => Err(HandlerError::snooze(Duration::ZERO)),
                    ("after", 1) => Err(HandlerError::retry_after(Duration::ZERO, "busy", "come back")),
                    _ => Ok(context.attempt()),
                }
            }
        };
        let mut ids = HashMap::new();
        for how in ["panic", "error", "never", "later", "after", "fine"] {
            let id = bursar.jobs().enqueue(with_payload(job("q", "x"), &how)).await.unwrap().id;
            ids.insert(how, id);
        }
        let wrong = bursar.jobs().enqueue(with_payload(job("q", "x"), &7)).await.unwrap().id;
        let other = bursar.jobs().enqueue(job("q", "unknown")).await.unwrap().id;
        let mut notices = bursar.listen();
        let worker = bursar.worker().queue("q").on("x", handler).start().unwrap();
        let mut ended = 0;
        while ended < 7 {
            let notice = soon(notices.next()).await.unwrap().unwrap();
            ended += usize::from(matches!(notice.event().kind(), "job.succeeded" | "job.dead_lettered"));
        }
        worker.drain().await.unwrap();
        let expected = [
            ("panic", JobState::Succeeded, 2, "panic"),
            ("error", JobState::Succeeded, 2, "std::io::error::Error"),
            ("never", JobState::Dead, 1, "rejected"),
            ("later", JobState::Succeeded, 1, ""),
            ("after", JobState::Succeeded, 2, "busy"),
            ("fine", JobState::Succeeded, 1, ""),
        ];
        for (how, state, attempts, error) in expected {
            let job = bursar.jobs().find(ids[how]).await.unwrap().unwrap();
            let kind = job.life.error.map(|error| error.kind).unwrap_or_default();
            assert_eq!((job.life.state, job.life.attempts, kind.as_str()), (state, attempts, error), "{how}");
        }
        let wrong = bursar.jobs().find(wrong).await.unwrap().unwrap();
        assert_eq!((wrong.life.state, wrong.life.error.unwrap().kind.as_str()), (JobState::Dead, "payload"));
        assert_eq!(state(&bursar, other).await, JobState::Queued, "a kind without a handler is not leased");
        bursar.close().await;
    }
}

#[tokio::test]
async fn usage_is_charged_and_progress_is_published() {
    for engine in ENGINES {
        let bursar = open_live(engine).await;
        bursar.ledger().define("team", budget(100)).await.unwrap();
        let mut progress = bursar.jobs().listen_progress();
        let handler = async |(): (), context: JobContext| {
            context.progress(Progress::percent(50.0).message("half")).await?;
            context.usage(10)?;
            context.usage(5)?;
            assert!(context.usage(-1).is_err());
            Ok::<_, HandlerError>(())
        };
        let mut notices = bursar.listen();
        let id = enqueue_held(&bursar, "q", "team", 40).await;
        let worker = bursar.worker().queue("q").on("work", handler).start().unwrap();
        let report = soon(progress.next()).await.unwrap().unwrap();
        assert_eq!((report.job, report.progress.message.as_deref()), (id, Some("half")));
        until(&mut notices, id, "job.succeeded").await;
        assert_eq!(balance(&bursar, "team").await, (15, 0));
        worker.drain().await.unwrap();
        bursar.close().await;
    }
}

#[tokio::test]
async fn the_next_attempt_gets_the_checkpoint() {
    for engine in ENGINES {
        let bursar = open_live(engine).await;
        eager(&bursar, "q").await;
        let handler = async |(): (), context: JobContext| {
            let from = context.checkpoint_as::<u32>()?;
            assert_eq!(from, [None, Some(1), Some(2)][context.attempt() as usize - 1]);
            let too_large = Payload::of(&"x".repeat(20_000))?;
            assert!(context.progress(Progress::at_checkpoint(too_large)).await.is_err(), "it stays as it was");
            context.progress(Progress::at_checkpoint(Payload::of(&context.attempt())?)).await?;
            context.progress(Progress::percent(99.0)).await?;
            match context.attempt() {
                3 => Ok(from),
                _ => Err(HandlerError::retry("half", "once more")),
            }
        };
        let mut notices = bursar.listen();
        let id = bursar.jobs().enqueue(job("q", "work")).await.unwrap().id;
        let worker = bursar.worker().queue("q").on("work", handler).start().unwrap();
        until(&mut notices, id, "job.succeeded").await;
        let done = bursar.jobs().find(id).await.unwrap().unwrap();
        assert_eq!(done.life.result.as_str(), "2");
        assert_eq!(done.life.checkpoint.as_ref().map(Payload::as_str), Some("3"));
        assert_eq!(
            done.life.progress.map(|report| (report.fence, report.number, report.percent)),
            Some((3, 2, Some(99.0)))
        );
        worker.drain().await.unwrap();
        bursar.close().await;
    }
}

#[tokio::test]
async fn draining_returns_unstarted_jobs_without_counting_an_attempt() {
    for engine in ENGINES {
        let bursar = open_live(engine).await;
        let gate = Arc::new(Notify::new());
        let (begun, mut has_begun) = mpsc::unbounded_channel();
        let handler = {
            let gate = gate.clone();
            move |hold: bool, context: JobContext| {
                let (gate, begun) = (gate.clone(), begun.clone());
                async move {
                    if hold {
                        begun.send(context.id())?;
                        tokio::select! {
                            () = gate.notified() => {}
                            stop = context.stopped() => assert_eq!(stop, Stop::Draining),
                        }
                    }
                    Ok::<_, HandlerError>(())
                }
            }
        };
        // Short jobs first, so that the worker prefetches; then one that occupies its only slot.
        let short = (0..200).map(|_| with_payload(job("q", "x"), &false));
        let long = (0..50).map(|_| with_payload(job("q", "x"), &true));
        bursar.jobs().enqueue_all(short.chain(long)).await.unwrap();
        let worker = bursar.worker().queue("q").concurrency(1).on("x", handler).start().unwrap();
        let running = soon(has_begun.recv()).await.unwrap();
        let report = worker.drain().await.unwrap();
        assert_eq!(report.completed, 201, "running jobs may finish");
        assert_eq!(state(&bursar, running).await, JobState::Succeeded);
        // Jobs leased by a call in flight are returned when the call is dropped.
        soon(async {
            while bursar.queues().figures("q", 1).await.unwrap().count(JobState::Leased) > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let waiting = bursar.jobs().list(&bursar::JobFilter::default(), None, 1_000).await.unwrap();
        let waiting: Vec<_> = waiting.iter().filter(|job| job.life.state == JobState::Queued).collect();
        assert_eq!(waiting.len(), 49);
        assert!(waiting.iter().all(|job| job.life.attempts == 0));
        let returned = waiting.iter().filter(|job| job.life.fence > 0).count();
        assert!(report.returned <= returned as u64, "{} of {returned}", report.returned);
        bursar.close().await;
    }
}

#[tokio::test]
async fn a_handler_that_never_ends_is_dropped_after_the_grace_period() {
    for engine in ENGINES {
        let bursar = open_live(engine).await;
        let id = bursar.jobs().enqueue(job("q", "x")).await.unwrap().id;
        let (begun, mut has_begun) = mpsc::unbounded_channel();
        let handler = move |(): (), _: JobContext| {
            begun.send(()).unwrap();
            std::future::pending::<Result<(), HandlerError>>()
        };
        let worker = bursar.worker().queue("q").grace(Duration::from_millis(1)).on("x", handler).start().unwrap();
        soon(has_begun.recv()).await.unwrap();
        let report = worker.drain().await.unwrap();
        assert_eq!(report, WorkerReport { returned: 1, ..WorkerReport::default() });
        let job = bursar.jobs().find(id).await.unwrap().unwrap();
        assert_eq!((job.life.state, job.life.attempts), (JobState::Queued, 0));
        bursar.close().await;
    }
}

#[tokio::test]
async fn a_handler_learns_that_its_job_is_cancelled() {
    for engine in ENGINES {
        let bursar = open_live(engine).await;
        let id = bursar.jobs().enqueue(job("q", "x")).await.unwrap().id;
        let mut notices = bursar.listen();
        let handler = async |(): (), context: JobContext| match context.stopped().await {
            Stop::Cancelled => Err::<(), _>(HandlerError::retry("stopped", "by cancellation")),
            other => panic!("{other:?}"),
        };
        let worker = bursar.worker().queue("q").lease(LEASE.into()).on("x", handler).start().unwrap();
        until(&mut notices, id, "job.leased").await;
        assert_eq!(bursar.jobs().cancel(id).await.unwrap().state, JobState::Leased);
        until(&mut notices, id, "job.cancelled").await;
        worker.drain().await.unwrap();
        assert_eq!(state(&bursar, id).await, JobState::Cancelled);
        bursar.close().await;
    }
}

#[tokio::test]
async fn heartbeats_keep_a_lease_for_several_times_its_length() {
    let kept = ENGINES.iter().map(async |engine| {
        let bursar = open_live(engine).await;
        let id = bursar.jobs().enqueue(job("q", "x")).await.unwrap().id;
        let mut notices = bursar.listen();
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
        let worker = bursar.worker().queue("q").lease(LEASE.into()).on("x", handler).start().unwrap();
        until(&mut notices, id, "job.leased").await;
        let leased = bursar.jobs().find(id).await.unwrap().unwrap().life.lease.unwrap();
        // Until the lease has been renewed to three times its length.
        soon(async {
            loop {
                let life = bursar.jobs().find(id).await.unwrap().unwrap().life;
                assert_eq!((life.state, life.attempts), (JobState::Leased, 1), "the lease was never taken back");
                if life.lease.unwrap().until >= leased.since.after(LEASE).after(LEASE).after(LEASE) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        gate.notify_one();
        until(&mut notices, id, "job.succeeded").await;
        assert_eq!(worker.drain().await.unwrap().completed, 1);
        bursar.close().await;
    });
    join_all(kept).await;
}

#[tokio::test]
async fn a_handler_learns_of_its_lost_lease_and_usage_is_charged_once() {
    for engine in ENGINES {
        let (bursar, clock) = open(engine).await;
        eager(&bursar, "q").await;
        bursar.ledger().define("team", budget(100)).await.unwrap();
        let id = enqueue_held(&bursar, "q", "team", 40).await;
        let mut notices = bursar.listen();
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
        let worker = bursar.worker().queue("q").lease(LEASE.into()).on("work", handler).start().unwrap();
        until(&mut notices, id, "job.leased").await;
        // The lease expires, unless a heartbeat comes in between.
        soon(async {
            while bursar.tend(10).await.unwrap().rescued == 0 {
                clock.advance(secs(1));
            }
        })
        .await;
        // In either order.
        let mut kinds = Vec::new();
        while !(kinds.contains(&"job.succeeded") && kinds.contains(&"job.billed")) {
            kinds.push(soon(notices.next()).await.unwrap().unwrap().event().kind());
        }
        let report = worker.drain().await.unwrap();
        assert_eq!((report.completed, report.lost), (1, 1));
        assert_eq!(runs.load(Ordering::SeqCst), 2);
        // The cost of the second run is settled with the hold; the usage of the first is charged in addition.
        assert_eq!(balance(&bursar, "team").await, (27, 0));
        assert_eq!(bursar.jobs().find(id).await.unwrap().unwrap().total_cost(), 27);
        bursar.close().await;
    }
}

#[tokio::test]
async fn a_worker_without_queues_or_handlers_is_refused() {
    let bursar = open_live("memory").await;
    let handler = async |(): (), _: JobContext| Ok::<_, HandlerError>(());
    for worker in [
        bursar.worker().on("x", handler),
        bursar.worker().queue("q"),
        bursar.worker().queue("").on("x", handler),
        bursar.worker().queue("q").concurrency(0).on("x", handler),
    ] {
        assert!(matches!(worker.start(), Err(bursar::SourceError::Refused(_))));
    }
    bursar.close().await;
}
