//! Workers: the handlers of the demo's jobs, which take time, report progress and sometimes fail.

use std::time::Duration;

use bursar::{Bursar, HandlerError, JobContext, Progress, Worker};
use serde_json::{Value, json};

use super::company::{EMBED, MAIL, MEDIA};
use super::dice::Dice;
use super::orders::{DOCUMENT_HOLD, IMAGE_HOLD, Order};
use super::pace::Speed;

/// Returns the workers.
pub(super) fn workers(bursar: &Bursar, speed: Speed) -> Vec<Worker> {
    let worker = |name: &str, concurrency| {
        // A worker that must stop returns its jobs at once. No attempt is counted, and no lease is left behind.
        bursar.worker().name(name).concurrency(concurrency).ahead(0).grace(Duration::ZERO)
    };
    let gpu = |name| worker(name, 2).queue(MEDIA).on("image.render", move |order, job| render(order, job, speed));
    let post = worker("post-1", 2).queue(MAIL);
    let post = post.on("mail.send", move |order, job| send(order, job, speed));
    let post = post.on("mail.digest", move |about: Value, job| digest(about, job, speed));
    let index = worker("index-1", 2).queue(EMBED).on("document.embed", move |order, job| embed(order, job, speed));
    vec![gpu("gpu-1"), gpu("gpu-2"), post, index]
}

/// The errors of the demo, as kind and message.
pub(super) const BUSY: (&str, &str) = ("provider_busy", "429 from the image provider, retry after 5 s");
pub(super) const POLICY: (&str, &str) = ("content_policy", "the image provider refused the prompt");
pub(super) const TIMEOUT: (&str, &str) = ("timeout", "timeout talking to the image provider after 30 s");
pub(super) const GREYLISTED: (&str, &str) = ("smtp", "421 greylisted, try again later");
pub(super) const NO_MAILBOX: (&str, &str) = ("smtp_mailbox", "550 mailbox unavailable");

async fn render(order: Order, job: JobContext, speed: Speed) -> Result<Value, HandlerError> {
    const STEPS: u32 = 5;
    let mut dice = Dice::of(&format!("{}/{}", order.number, job.attempt()));
    let step_ms = dice.draw(&(1_200..=3_200));
    for step in 1..=STEPS {
        tokio::time::sleep(speed.millis(step_ms)).await;
        let percent = f64::from(100 * step / STEPS);
        job.progress(Progress::percent(percent).message(format!("step {step} of {STEPS}: {}", order.about))).await?;
        if step == 3 {
            fail_render(&order, &job, speed)?;
        }
    }
    let cost = i64::from(dice.draw(&(40_000..=120_000)));
    // Now and then an image costs more than the job has held.
    job.usage(if order.number % 12 == 1 { IMAGE_HOLD + cost } else { cost })?;
    Ok(json!({ "image": format!("image-{:04}.png", order.number), "pixels": 1_048_576 }))
}

fn fail_render(order: &Order, job: &JobContext, speed: Speed) -> Result<(), HandlerError> {
    let (kind, message) = match (order.number % 16, job.attempt()) {
        (3, 1) => return Err(HandlerError::retry_after(speed.millis(5_000), BUSY.0, BUSY.1)),
        (6, _) => return Err(HandlerError::non_retryable(POLICY.0, POLICY.1)),
        (5, _) => TIMEOUT,
        _ => return Ok(()),
    };
    // The provider charges for what it has computed until then.
    job.usage(18_000)?;
    Err(HandlerError::retry(kind, message))
}

async fn send(order: Order, job: JobContext, speed: Speed) -> Result<Value, HandlerError> {
    let mut dice = Dice::of(&order.about);
    tokio::time::sleep(speed.millis(dice.draw(&(400..=1_800)))).await;
    let error = match (order.number % 16, job.attempt()) {
        (2, 1) => GREYLISTED,
        (4, _) => NO_MAILBOX,
        _ => return Ok(json!({ "sent": order.about })),
    };
    Err(HandlerError::retry(error.0, error.1))
}

async fn digest(about: Value, job: JobContext, speed: Speed) -> Result<Value, HandlerError> {
    for (percent, message) in [(30.0, "collecting the day"), (70.0, "writing"), (100.0, "sending")] {
        tokio::time::sleep(speed.millis(800)).await;
        job.progress(Progress::percent(percent).message(message)).await?;
    }
    Ok(about)
}

async fn embed(order: Order, job: JobContext, speed: Speed) -> Result<Value, HandlerError> {
    const CHUNKS: u32 = 3;
    let mut dice = Dice::of(&format!("{}/{}", order.about, order.number));
    for chunk in 1..=CHUNKS {
        tokio::time::sleep(speed.millis(dice.draw(&(600..=1_800)))).await;
        job.progress(Progress::percent(f64::from(100 * chunk / CHUNKS)).message(order.about.as_str())).await?;
    }
    job.usage(DOCUMENT_HOLD * i64::from(dice.draw(&(30..=90))) / 100)?;
    Ok(json!({ "vectors": CHUNKS * 8 }))
}
