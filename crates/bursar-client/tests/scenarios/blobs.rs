//! Blobs that handlers read and store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bursar::{BlobId, HandlerError, JobContext, JobState, Namespace, SourceError, Span, Stop, Upload};
use bursar_blobs::{NewBlob, body};
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc;

use crate::world::{World, eventually, for_every_worker, soon, spec};

/// Long enough for heartbeats on a slow machine.
const LEASE: Span = Span::from_secs(3);

for_every_worker! {
    sqlite: [a_handler_reads_the_blobs_of_its_job_and_stores_others, a_failed_attempt_refers_to_nothing],
    postgres: [a_handler_reads_the_blobs_of_its_job_and_stores_others],
    stopped_clock: [a_blob_made_under_a_lost_lease_is_not_referenced]
}

async fn stored(world: &World, text: &str) -> BlobId {
    let new = NewBlob::new(Namespace::new("media").unwrap());
    world.blobs.put(&world.bursar, new, body(text.to_owned())).await.unwrap().blob.id
}

/// Returns how many jobs refer to a blob.
async fn jobs(world: &World, blob: BlobId) -> u64 {
    world.bursar.blob_records().find(blob).await.unwrap().unwrap().jobs
}

fn media() -> Upload {
    Upload { namespace: Some(Namespace::new("media").unwrap()), ..Upload::default() }
}

async fn a_handler_reads_the_blobs_of_its_job_and_stores_others(mut world: World) {
    let source = stored(&world, "the whole film").await;
    let mut job = spec("cut", &source);
    job.blobs = vec![source];
    let id = world.bursar.jobs().enqueue(job).await.unwrap().id;
    let handler = async |source: BlobId, context: JobContext| {
        let blobs = context.blobs();
        let whole = blobs.get(source).await?.bytes().await?;
        let part = blobs.get_range(source, 4, 5).await?;
        assert_eq!((part.size, part.bytes().await?.as_ref()), (Some(5), &b"whole"[..]));
        let mut chunks = blobs.get(source).await?.into_stream();
        let first = chunks.next().await.unwrap()?;
        assert!(whole.starts_with(&first));
        // Equal bytes are the same blob, which the job refers to already.
        assert_eq!(blobs.put_bytes(media(), whole.clone()).await?.id, source);
        let streamed = stream::iter([Ok::<_, std::io::Error>(whole.slice(..4)), Ok(whole.slice(10..))]);
        let cut = blobs.put(media(), streamed).await?;
        assert_eq!(cut.size, 8);
        let broken = stream::iter([Ok(whole.slice(..4)), Err(std::io::Error::other("the encoder failed"))]);
        assert!(blobs.put(media(), broken).await.is_err(), "half a stream was stored");
        let still = blobs.put_bytes(media(), "a still").await?;
        Ok::<_, HandlerError>([cut.id, still.id])
    };
    let running = world.worker().on("cut", handler).start().unwrap();
    let job = world.until(id, JobState::Succeeded).await;
    let made: [BlobId; 2] = serde_json::from_str(job.life.result.as_str()).unwrap();
    assert_eq!(job.life.blobs, [source, made[0], made[1]], "the job names what it used and what it made");
    for blob in job.life.blobs {
        assert_eq!(jobs(&world, blob).await, 1, "{blob}");
    }
    running.drain().await.unwrap();
    world.stop().await;
}

async fn a_failed_attempt_refers_to_nothing(mut world: World) {
    let id = world.enqueue("x", &()).await;
    let (made_sender, mut made) = mpsc::unbounded_channel();
    let handler = move |(): (), context: JobContext| {
        let made = made_sender.clone();
        async move {
            let blob = context.blobs().put_bytes(media(), format!("attempt {}", context.attempt())).await?;
            made.send(blob.id)?;
            match context.attempt() {
                1 => Err(HandlerError::retry("late", "failed after it stored a blob")),
                _ => Ok(()),
            }
        }
    };
    let running = world.worker().on("x", handler).start().unwrap();
    let job = world.until(id, JobState::Succeeded).await;
    let (first, second) = (soon(made.recv()).await.unwrap(), soon(made.recv()).await.unwrap());
    assert_eq!(job.life.blobs, [second]);
    assert_eq!((jobs(&world, first).await, jobs(&world, second).await), (0, 1));
    running.drain().await.unwrap();
    world.stop().await;
}

async fn a_blob_made_under_a_lost_lease_is_not_referenced(mut world: World) {
    let id = world.enqueue("x", &()).await;
    let (made_sender, mut made) = mpsc::unbounded_channel();
    let runs = Arc::new(AtomicUsize::new(0));
    let handler = move |(): (), context: JobContext| {
        let (made, first) = (made_sender.clone(), runs.fetch_add(1, Ordering::SeqCst) == 0);
        async move {
            let blob = context.blobs().put_bytes(media(), format!("first: {first}")).await?;
            made.send((first, blob.id))?;
            if first {
                assert_eq!(context.stopped().await, Stop::Lost);
                let late = context.blobs().put_bytes(media(), "after the end").await;
                assert!(matches!(late, Err(SourceError::NotTaken(_))), "{late:?}");
            }
            Ok::<_, HandlerError>(())
        }
    };
    let running = world.worker().lease(LEASE.into()).on("x", handler).start().unwrap();
    let (first, lost) = soon(made.recv()).await.unwrap();
    assert!(first);
    // The lease expires, unless a heartbeat gets through in between.
    eventually(async || {
        world.clock.advance(Span::from_secs(1));
        (world.bursar.tend(10).await.unwrap().rescued == 1).then_some(())
    })
    .await;
    let job = world.until(id, JobState::Succeeded).await;
    let (_, kept) = soon(made.recv()).await.unwrap();
    let report = running.drain().await.unwrap();
    assert_eq!(report.completed, 1);
    assert_eq!(job.life.blobs, [kept]);
    assert_eq!((jobs(&world, lost).await, jobs(&world, kept).await), (0, 1));
    world.stop().await;
}
