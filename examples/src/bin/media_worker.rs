//! A worker that shares the database: its rows, the end of its job and the job's cost commit in one transaction.

use bursar::{
    Backoff, Budget, Bursar, HandlerError, JobContext, JobSpec, JobState, Limit, Payload, Progress, QueueConfig, Retry,
    Span, Usage, Window,
};
use bursar_examples::Failure;
use serde::{Deserialize, Serialize};

/// The payload of the job.
#[derive(Serialize, Deserialize)]
struct Cut {
    asset: String,
    seconds: i64,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let bursar = Bursar::open("sqlite::memory:").await?;
    bursar.ledger().define("customer:7", Budget::new([Limit::new(1_000, Window::Lifetime)])).await?;
    let retry = Retry { max_attempts: 3, backoff: Backoff::Fixed { delay: Span::ZERO } };
    bursar.queues().define("media", QueueConfig { retry, ..QueueConfig::default() }).await?;
    bursar
        .transaction(|tx| {
            tx.connection().execute_batch("CREATE TABLE videos (job TEXT PRIMARY KEY, asset TEXT)")?;
            Ok::<_, Failure>(())
        })
        .await?;

    // One transaction holds the units and enqueues the job. The end of the job settles the hold.
    let cut = Cut { asset: "holiday.mp4".into(), seconds: 60 };
    let mut spec = JobSpec::new("media".try_into()?, "video.cut".try_into()?, Payload::of(&cut)?);
    spec.idempotency_key = Some("cut-holiday".try_into()?);
    let command = bursar.command().charge("customer:7", 500).settle_with_job().job(spec);
    let job = command.submit().await?.done.jobs[0].id;

    let mut notices = bursar.listen();
    let studio = bursar.clone();
    let worker = bursar
        .worker()
        .queue("media")
        .concurrency(4)
        .on("video.cut", move |cut: Cut, context| cut_video(studio.clone(), cut, context))
        .start()?;
    while notices.next().await.ok_or("Bursar is open")??.event().kind() != "job.succeeded" {}
    worker.drain().await?;

    // The job ran twice, but there is one row and one charge.
    let done = bursar.jobs().find(job).await?.ok_or("it is kept for a day")?;
    assert_eq!((done.life.state, done.life.attempts, done.total_cost()), (JobState::Succeeded, 2, 420));
    assert_eq!(videos(&bursar).await?, 1);
    let left = bursar.ledger().remaining("customer:7").await?[0].remaining;
    assert_eq!(left, Some(580));
    bursar.close().await;
    Ok(())
}

/// Cuts a video. A job runs at least once, so its row and the end of the job are one transaction. A worker that has lost
/// its lease writes no row, and its spend is charged once.
async fn cut_video(bursar: Bursar, cut: Cut, context: JobContext) -> Result<(), HandlerError> {
    context.progress(Progress::percent(10.0).message("cutting")).await?;
    let (job, fence, attempt) = (context.id(), context.fence(), context.attempt());
    let done = bursar.transaction(move |tx| {
        tx.connection().execute("INSERT INTO videos VALUES (?1, ?2)", (job.to_string(), cut.asset))?;
        let usage = vec![Usage { scope: None, amount: cut.seconds * 7 }];
        tx.complete(job, fence, Payload::default(), Some(usage))?;
        // The first attempt fails here and is rolled back: the row and the end of the job are both undone.
        if attempt == 1 { Err(Failure::from("no space left")) } else { Ok(()) }
    });
    done.await.map_err(|error| HandlerError::retry("commit", error.to_string()))
}

async fn videos(bursar: &Bursar) -> Result<i64, Failure> {
    let count = bursar.transaction(|tx| {
        let count = tx.connection().query_row("SELECT count(*) FROM videos", (), |row| row.get(0));
        Ok::<i64, Failure>(count?)
    });
    count.await
}
