//! Orders: customers and systems that enqueue jobs.

use std::ops::RangeInclusive;

use bursar::{Actor, Bursar, Error, JobSpec, JobState, Payload};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::company::{EMBED, INDEXER, MAIL, MEDIA, PIXEL};
use super::dice::Dice;
use super::pace::Pace;

/// The payload of a job.
#[derive(Serialize, Deserialize)]
pub(super) struct Order {
    /// Counts the orders of a queue since the start. It decides how the job goes.
    pub(super) number: u32,
    /// What the job is about.
    pub(super) about: String,
}

/// Waiting jobs above which a queue gets no more, so that a paused queue does not grow without end.
pub(super) const WAITING_MAX: i64 = 40;
/// How long a grant is valid.
const GRANT_MS: u32 = 600_000;
/// What a job of `media` holds.
pub(super) const IMAGE_HOLD: i64 = 160_000;
/// What a job of `embed` holds.
pub(super) const DOCUMENT_HOLD: i64 = 20_000;

const CUSTOMERS: [&str; 4] = ["blue-river", "north-star", "red-fox", "tall-oak"];
const SUBJECTS: [&str; 5] = ["a lighthouse at dusk", "two cats, ink", "a harbour", "a map of a city", "a quiet forest"];

/// A stream of orders for one queue.
#[derive(Clone, Copy)]
pub(super) enum Orders {
    /// Images that customers order with a grant.
    Images,
    /// Mails to customers.
    Mails,
    /// Documents to index.
    Documents,
}

impl Orders {
    pub(super) const ALL: [Orders; 3] = [Orders::Images, Orders::Mails, Orders::Documents];

    fn queue(self) -> &'static str {
        match self {
            Orders::Images => MEDIA,
            Orders::Mails => MAIL,
            Orders::Documents => EMBED,
        }
    }

    /// The pause between two orders.
    fn pause_ms(self) -> RangeInclusive<u32> {
        match self {
            Orders::Images => 5_000..=8_000,
            Orders::Mails => 3_000..=6_000,
            Orders::Documents => 4_000..=7_000,
        }
    }

    /// The number of orders at the start, so that there is something to see at once.
    fn at_once(self) -> u32 {
        match self {
            Orders::Images => 8,
            Orders::Mails => 4,
            Orders::Documents => 3,
        }
    }

    /// Enqueues jobs until the fleet is stopped.
    pub(super) async fn run(self, bursar: Bursar, pace: Pace) {
        let queue = self.queue();
        let mut dice = Dice::of(queue);
        for number in 1.. {
            let pause = if number <= self.at_once() { 100 } else { dice.draw(&self.pause_ms()) };
            if !pace.wait(pause).await {
                return;
            }
            match self.enqueue(&bursar, &pace, &mut dice, number).await {
                // A refused order enqueues no job; the next one may fit.
                Ok(()) | Err(Error::Refused(_)) => {}
                Err(error) => tracing::warn!(%error, queue, "an order of the demo failed"),
            }
        }
    }

    /// Enqueues one job, unless too many wait.
    pub(super) async fn enqueue(self, bursar: &Bursar, pace: &Pace, dice: &mut Dice, number: u32) -> Result<(), Error> {
        let figures = bursar.queues().figures(self.queue(), 1).await?;
        if figures.count(JobState::Queued) + figures.count(JobState::Scheduled) >= WAITING_MAX {
            return Ok(());
        }
        match self {
            Orders::Images => image(bursar, pace, dice, number).await,
            Orders::Mails => mail(bursar, dice, number).await,
            Orders::Documents => document(bursar, dice, number).await,
        }
    }
}

/// A customer gets a grant for one image, and redeems it. One command redeems the grant, holds the estimate and enqueues the
/// job, whose end settles the hold.
async fn image(bursar: &Bursar, pace: &Pace, dice: &mut Dice, number: u32) -> Result<(), Error> {
    let customer = dice.pick(&CUSTOMERS);
    let bursar = bursar.by(Actor::User(customer.to_owned()));
    let order = Order { number, about: dice.pick(&SUBJECTS).to_owned() };
    let minted = bursar.grants().mint("image", customer, Payload::of(&order)?, pace.speed.millis(GRANT_MS)).await?;
    match number % 12 {
        // The customer changes their mind, or never comes back: the grant is revoked, or expires.
        10 => return bursar.grants().revoke(minted.id).await,
        11 => return Ok(()),
        _ => {}
    }
    let plain = JobSpec::new(MEDIA.try_into()?, "image.render".try_into()?, Payload::default());
    let job = JobSpec {
        payload_from_grant: true,
        key: Some(customer.try_into()?),
        tags: vec![format!("customer:{customer}").try_into()?],
        ..plain
    };
    let command = bursar.command().charge(PIXEL, IMAGE_HOLD).settle_with_job();
    let command = command.redeem("image", customer, &minted.token.unwrap_or_default()).job(job);
    command.key(format!("image/{}", minted.id)).submit().await.map(drop)
}

async fn mail(bursar: &Bursar, dice: &mut Dice, number: u32) -> Result<(), Error> {
    let customer = dice.pick(&CUSTOMERS);
    let payload = Payload::of(&Order { number, about: format!("receipt for {customer}") })?;
    let job = JobSpec::new(MAIL.try_into()?, "mail.send".try_into()?, payload);
    let job = JobSpec { key: Some(customer.try_into()?), metadata: Payload::of(&json!({ "to": customer }))?, ..job };
    bursar.jobs().enqueue(job).await.map(drop)
}

async fn document(bursar: &Bursar, dice: &mut Dice, number: u32) -> Result<(), Error> {
    let payload = Payload::of(&Order { number, about: format!("page {} of the handbook", dice.draw(&(1..=240))) })?;
    let job = JobSpec::new(EMBED.try_into()?, "document.embed".try_into()?, payload);
    // Now and then a document is urgent.
    let job = JobSpec { priority: if number.is_multiple_of(5) { 10 } else { 0 }, ..job };
    bursar.command().charge(INDEXER, DOCUMENT_HOLD).settle_with_job().job(job).submit().await.map(drop)
}
