//! How handlers end, and the effect on their jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bursar::{
    BlobSpec, HandlerError, JobContext, JobService, JobSpec, JobState, Progress, Sha256Digest, SourceError,
    WorkerReport,
};
use tower_layer::Layer;
use tower_service::Service;

use crate::world::{World, for_every_worker, spec};

for_every_worker! {
    sqlite: [usage_settles_the_hold, a_panic_is_a_failed_attempt, a_poison_job_does_not_affect_other_jobs, progress_reaches_listeners,
             a_handler_sees_the_properties_of_its_job, layers_wrap_handlers, snoozes_delayed_retries_and_refused_reports_work,
             a_job_refers_to_the_blobs_that_it_made],
    postgres: [usage_settles_the_hold, a_panic_is_a_failed_attempt, progress_reaches_listeners,
               a_job_refers_to_the_blobs_that_it_made],
    stopped_clock: []
}

async fn usage_settles_the_hold(mut world: World) {
    let id = world.enqueue_held("spend", 40).await;
    let plain = world.enqueue_held("no usage", 30).await;
    assert_eq!(world.balance().await, (0, 70));
    let worker = world.worker().on("spend", async |(): (), context: JobContext| {
        assert_eq!(context.held(), Some(&[("team".try_into()?, 40)][..]));
        context.usage(10)?;
        context.usage(5)?;
        assert!(context.usage(-1).is_err());
        Ok::<_, HandlerError>("done")
    });
    let worker = worker.on("no usage", async |(): (), _: JobContext| Ok::<_, HandlerError>(()));
    let free = world.enqueue("free", &()).await;
    let worker = worker.on("free", async |(): (), context: JobContext| {
        assert_eq!(context.held(), Some(&[][..]), "the job has no hold");
        Ok::<_, HandlerError>(())
    });
    let running = worker.start().unwrap();
    let done = world.until(id, JobState::Succeeded).await;
    assert_eq!((done.life.result.as_str(), done.total_cost()), ("\"done\"", 15));
    world.until(plain, JobState::Succeeded).await;
    world.until(free, JobState::Succeeded).await;
    assert_eq!(world.balance().await, (45, 0), "a handler without usage spends the held units");
    assert_eq!(running.drain().await.unwrap(), WorkerReport { completed: 3, ..WorkerReport::default() });
    world.stop().await;
}

async fn a_panic_is_a_failed_attempt(mut world: World) {
    let id = world.enqueue("x", &()).await;
    let handler = async |(): (), context: JobContext| {
        assert_ne!(context.attempt(), 1, "the first time it crashes");
        Ok::<_, HandlerError>(context.attempt())
    };
    let running = world.worker().on("x", handler).start().unwrap();
    let done = world.until(id, JobState::Succeeded).await;
    assert_eq!((done.life.result.as_str(), done.life.attempts), ("2", 2));
    let attempts = world.bursar.jobs().attempts(id).await.unwrap();
    let error = attempts[0].end.as_ref().unwrap().1.error().unwrap();
    assert!(error.kind == "panic" && error.message.contains("the first time it crashes"), "{error:?}");
    let report = running.drain().await.unwrap();
    assert_eq!((report.completed, report.failed, report.lost), (1, 1, 0));
    world.stop().await;
}

async fn a_poison_job_does_not_affect_other_jobs(mut world: World) {
    // A job whose payload cannot be parsed, a job that always fails, and other jobs.
    let unreadable = world.enqueue("x", &"not a number").await;
    let failing = world.enqueue("x", &13u32).await;
    let others: Vec<_> = {
        let specs = (0..20u32).map(|number| spec("x", &(number + 100)));
        world.bursar.jobs().enqueue_all(specs).await.unwrap().into_iter().map(|job| job.id).collect()
    };
    let handler = async |number: u32, _: JobContext| match number {
        13 => Err(HandlerError::retry("unlucky", "always fails")),
        number => Ok(number),
    };
    let running = world.worker().concurrency(4).on("x", handler).start().unwrap();
    let job = world.until(unreadable, JobState::Dead).await;
    assert_eq!(
        (job.life.attempts, job.life.error.unwrap().kind.as_str()),
        (1, "payload"),
        "an invalid payload was retried"
    );
    let job = world.until(failing, JobState::Dead).await;
    assert_eq!((job.life.attempts, job.life.error.unwrap().kind.as_str()), (3, "unlucky"));
    for id in others {
        assert_eq!(world.until(id, JobState::Succeeded).await.life.attempts, 1);
    }
    let report = running.drain().await.unwrap();
    assert_eq!((report.completed, report.failed), (20, 4));
    world.stop().await;
}

async fn progress_reaches_listeners(mut world: World) {
    let mut progress = world.bursar.jobs().listen_progress();
    let id = world.enqueue("x", &()).await;
    let handler = async |(): (), context: JobContext| {
        context.progress(Progress::percent(50.0).message("half")).await?;
        Ok::<_, HandlerError>(())
    };
    let running = world.worker().on("x", handler).start().unwrap();
    let received = tokio::time::timeout(Duration::from_secs(30), progress.next()).await.unwrap().unwrap().unwrap();
    assert_eq!((received.job, received.progress.percent), (id, Some(50.0)));
    assert_eq!(received.progress.message.as_deref(), Some("half"));
    world.until(id, JobState::Succeeded).await;
    running.drain().await.unwrap();
    world.stop().await;
}

async fn a_handler_sees_the_properties_of_its_job(mut world: World) {
    let mut job = spec("x", &());
    job.idempotency_key = Some("order-7".try_into().unwrap());
    job.tags = vec!["trial".try_into().unwrap()];
    job.key = Some("provider-a".try_into().unwrap());
    job.metadata = bursar::Payload::new(r#"{"by":"shop"}"#).unwrap();
    let id = world.bursar.jobs().enqueue(job).await.unwrap().id;
    let handler = async |(): (), context: JobContext| {
        let job = context.job();
        let key = context.idempotency_key().map(ToString::to_string);
        let flow = job.key.as_ref().map(ToString::to_string);
        Ok::<_, HandlerError>((key, flow, job.tags.len(), job.metadata.as_str().to_owned(), context.id().to_string()))
    };
    let running = world.worker().on("x", handler).start().unwrap();
    let done = world.until(id, JobState::Succeeded).await;
    let expected = format!(r#"["order-7","provider-a",1,"{{\"by\":\"shop\"}}","{id}"]"#);
    assert_eq!(done.life.result.as_str(), expected);
    running.drain().await.unwrap();
    world.stop().await;
}

/// A layer that counts jobs and refuses those of the kind `barred`.
#[derive(Clone)]
struct Counting(Arc<AtomicUsize>);

#[derive(Clone)]
struct Counted(Arc<AtomicUsize>, JobService);

impl Layer<JobService> for Counting {
    type Service = Counted;

    fn layer(&self, inner: JobService) -> Counted {
        Counted(self.0.clone(), inner)
    }
}

impl Service<JobContext> for Counted {
    type Response = bursar::Payload;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<bursar::Payload, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, context: JobContext) -> Self::Future {
        self.0.fetch_add(1, Ordering::SeqCst);
        if context.job().kind.as_str() == "barred" {
            return Box::pin(async { Err("refused by the layer".into()) });
        }
        let result = self.1.call(context);
        Box::pin(async move { Ok(result.await?) })
    }
}

async fn layers_wrap_handlers(mut world: World) {
    let fine = world.enqueue("fine", &()).await;
    let wrong = world.enqueue("wrong", &()).await;
    let barred = world.enqueue("barred", &()).await;
    let counts: [Arc<AtomicUsize>; 2] = Default::default();
    let worker = world.worker().layer(Counting(counts[0].clone())).layer(Counting(counts[1].clone()));
    let worker = worker.on("fine", async |(): (), _: JobContext| Ok::<_, HandlerError>("through two layers"));
    let worker =
        worker.on("wrong", async |(): (), _: JobContext| Err::<(), _>(HandlerError::non_retryable("no", "way")));
    let worker = worker.on("barred", async |(): (), _: JobContext| Ok::<_, HandlerError>("never run"));
    let running = worker.start().unwrap();
    assert_eq!(world.until(fine, JobState::Succeeded).await.life.result.as_str(), "\"through two layers\"");
    let job = world.until(wrong, JobState::Dead).await;
    assert_eq!(
        (job.life.attempts, job.life.error.unwrap().kind.as_str()),
        (1, "no"),
        "a layer changed the error of the handler"
    );
    let job = world.until(barred, JobState::Dead).await;
    let error = job.life.error.unwrap();
    assert_eq!((job.life.attempts, error.kind.as_str(), error.message.as_str()), (3, "layer", "refused by the layer"));
    // The first layer is the outermost and refuses the barred job three times.
    assert_eq!(counts.map(|count| count.load(Ordering::SeqCst)), [5, 2]);
    running.drain().await.unwrap();
    world.stop().await;
}

async fn snoozes_delayed_retries_and_refused_reports_work(mut world: World) {
    let later = world.enqueue("later", &()).await;
    let after = world.enqueue("after", &()).await;
    let usage = world.enqueue("usage", &()).await;
    let snoozed = Arc::new(AtomicUsize::new(0));
    let worker = world.worker().on("later", move |(): (), context: JobContext| {
        let first = snoozed.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            match first {
                true => Err(HandlerError::snooze(Duration::from_millis(1))),
                false => Ok(context.attempt()),
            }
        }
    });
    let worker = worker.on("after", async |(): (), context: JobContext| match context.attempt() {
        1 => Err(HandlerError::retry_after(Duration::from_millis(1), "busy", "come back")),
        attempt => Ok(attempt),
    });
    // Usage without a scope is refused for a job without a hold.
    let worker = worker.on("usage", async |(): (), context: JobContext| {
        context.usage(5)?;
        Ok::<_, HandlerError>(())
    });
    let running = worker.start().unwrap();
    assert_eq!(
        world.until(later, JobState::Succeeded).await.life.result.as_str(),
        "1",
        "a snooze counted as an attempt"
    );
    assert_eq!(world.until(after, JobState::Succeeded).await.life.result.as_str(), "2");
    assert_eq!(world.until(usage, JobState::Dead).await.life.error.unwrap().kind, "report refused");
    let report = running.drain().await.unwrap();
    assert_eq!((report.completed, report.failed, report.snoozed, report.lost), (2, 2, 1, 0));
    let nothing = world.worker().start().unwrap_err();
    assert!(matches!(nothing, SourceError::Refused(_)), "{nothing:?}");
    world.stop().await;
}

async fn a_job_refers_to_the_blobs_that_it_made(mut world: World) {
    let mut blobs = Vec::new();
    for byte in 0..3 {
        let spec = BlobSpec::new("media".try_into().unwrap(), "local".try_into().unwrap());
        let records = world.bursar.blob_records();
        let started = records.start(spec, Duration::from_secs(3_600), None).await.unwrap();
        blobs.push(records.store(started.blob, 10, Sha256Digest([byte; 32])).await.unwrap().blob);
    }
    let [used, made, deleted] = blobs[..] else { unreachable!() };
    world.bursar.blob_records().delete(deleted).await.unwrap();
    let good = world.bursar.jobs().enqueue(JobSpec { blobs: vec![used], ..spec("good", &()) }).await.unwrap().id;
    let worker = world.worker().on("good", move |(): (), context: JobContext| async move {
        assert_eq!(context.job().blobs, [used]);
        for blob in [made, used, made] {
            context.made(blob)?;
        }
        Ok::<_, HandlerError>(())
    });
    // A report that names a blob which is gone is refused. Another attempt can make the blob again.
    let worker = worker.on("gone", move |(): (), context: JobContext| async move {
        context.usage(3)?;
        context.made(if context.attempt() == 1 { deleted } else { made })?;
        Ok::<_, HandlerError>(())
    });
    let gone = world.enqueue_held("gone", 10).await;
    let failing = world.enqueue("failing", &()).await;
    let worker = worker.on("failing", move |(): (), context: JobContext| async move {
        context.made(made)?;
        Err::<(), _>(HandlerError::non_retryable("bad", "it fails after it made a blob"))
    });
    let running = worker.start().unwrap();
    assert_eq!(world.until(good, JobState::Succeeded).await.life.blobs, [used, made]);
    let job = world.until(gone, JobState::Succeeded).await;
    assert_eq!((job.life.attempts, job.life.blobs, world.balance().await.0), (2, vec![made], 6));
    let error = world.bursar.jobs().attempts(gone).await.unwrap()[0].end.as_ref().unwrap().1.error().unwrap().clone();
    assert!(error.kind == "report refused" && error.message.contains(&deleted.to_string()), "{error:?}");
    assert!(world.until(failing, JobState::Dead).await.life.blobs.is_empty());
    let report = running.drain().await.unwrap();
    assert_eq!((report.completed, report.failed, report.lost), (2, 2, 0));
    assert_eq!(world.bursar.blob_records().find(made).await.unwrap().unwrap().jobs, 2);
    world.stop().await;
}
