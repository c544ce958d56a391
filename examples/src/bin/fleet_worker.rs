//! A fleet of agents under one cap. Each task is a job that holds its estimate, and the end of the job settles the real
//! cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bursar::{
    Backoff, Budget, Bursar, Error, HandlerError, JobContext, JobSpec, Limit, Notices, Payload, QueueConfig, Refusal,
    Retry, Span, Window,
};
use bursar_examples::Failure;

/// The estimated cost of a task.
const ESTIMATE: i64 = 30;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let bursar = Bursar::open("sqlite::memory:").await?;
    let cap = |amount| Budget::new([Limit::new(amount, Window::Lifetime)]);
    bursar.ledger().define("fleet", cap(100)).await?;
    let retry = Retry { max_attempts: 3, backoff: Backoff::Fixed { delay: Span::ZERO } };
    bursar.queues().define("agents", QueueConfig { retry, concurrency: Some(2), ..QueueConfig::default() }).await?;

    // Three estimates fit under the cap. The fourth does not, so its task is not started.
    for (task, fits) in [("read", true), ("write", true), ("plan", true), ("dream", false)] {
        assert_eq!(start_task(&bursar, task).await?, fits, "{task}");
    }

    let mut notices = bursar.listen();
    let busiest = Arc::new(AtomicUsize::new(0));
    let worker = bursar.worker().queue("agents").on("agent.task", {
        let (busy, busiest) = (Arc::new(AtomicUsize::new(0)), busiest.clone());
        move |task: String, context: JobContext| {
            let (busy, busiest) = (busy.clone(), busiest.clone());
            async move {
                busiest.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let done = work(&task, &context).await;
                busy.fetch_sub(1, Ordering::SeqCst);
                done
            }
        }
    });
    let worker = worker.start()?;

    // The failed attempt of "plan" spends 60. With 20 for each of the other two tasks the cap is used up, so "plan" waits
    // for its budget.
    until(&mut notices, "job.parked").await?;
    let mut succeeded = 0;
    while succeeded < 2 {
        succeeded = bursar.queues().figures("agents", 1).await?.succeeded;
        tokio::task::yield_now().await;
    }
    assert_eq!(bursar.ledger().remaining("fleet").await?[0].remaining, Some(0));

    // Raising the cap resumes the job.
    bursar.ledger().define("fleet", cap(150)).await?;
    until(&mut notices, "job.resumed").await?;
    until(&mut notices, "job.succeeded").await?;
    assert_eq!(bursar.ledger().remaining("fleet").await?[0].remaining, Some(30));
    worker.drain().await?;
    assert!(busiest.load(Ordering::SeqCst) <= 2, "the queue runs two jobs at once");
    assert!(bursar.verify().await?.is_ok());
    bursar.close().await;
    Ok(())
}

/// Starts a task if its estimate fits under the cap; returns whether it does.
async fn start_task(bursar: &Bursar, task: &str) -> Result<bool, Failure> {
    let job = JobSpec::new("agents".try_into()?, "agent.task".try_into()?, Payload::of(&task)?);
    match bursar.command().charge("fleet", ESTIMATE).settle_with_job().job(job).submit().await {
        Ok(_) => Ok(true),
        Err(Error::Refused(Refusal::Refused(_))) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Works on a task and reports its cost step by step.
async fn work(task: &str, context: &JobContext) -> Result<String, HandlerError> {
    if task == "plan" && context.attempt() == 1 {
        context.usage(60)?;
        return Err(HandlerError::retry_after(Duration::ZERO, "model.refused", "the answer was no plan"));
    }
    context.usage(15)?;
    context.usage(5)?;
    Ok(format!("{task}: done"))
}

async fn until(notices: &mut Notices, kind: &str) -> Result<(), Failure> {
    while notices.next().await.ok_or("Bursar is open")??.event().kind() != kind {}
    Ok(())
}
