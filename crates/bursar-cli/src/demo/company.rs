//! The company of the demo: its budgets, queues and schedule. What exists already is left as it is, so that a limit that
//! was changed in the dashboard stays changed after a restart.

use std::collections::BTreeSet;
use std::time::Duration;

use bursar::{
    Backoff, Budget, Bursar, Cron, Error, HoldPolicy, JobSpec, Limit, MissedTicks, Overlap, Payload, QueueConfig, Rate,
    Retention, Retry, ScheduleSpec, Scope, Window, Zone,
};
use serde_json::json;

use super::pace::Speed;

/// The unit of all amounts.
const UNIT: &str = "usd";
/// One dollar.
const USD: i64 = 1_000_000;
const CENT: i64 = USD / 100;

const HOUR: Duration = Duration::from_secs(3_600);

/// The agent that reaches its limit early and is refused from then on.
pub(super) const SCOUT: &str = "acme/research/scout";
pub(super) const SAGE: &str = "acme/research/sage";
pub(super) const REEL: &str = "acme/media/reel";
/// Pays for the jobs of the queue `media`.
pub(super) const PIXEL: &str = "acme/media/pixel";
pub(super) const ECHO: &str = "acme/support/echo";
/// Pays for the jobs of the queue `embed`.
pub(super) const INDEXER: &str = "acme/support/indexer";

pub(super) const MEDIA: &str = "media";
pub(super) const MAIL: &str = "mail";
pub(super) const EMBED: &str = "embed";
/// The schedule, which enqueues a job of this kind in `mail`.
pub(super) const DIGEST: &str = "digest";

/// A budget of the company.
struct Plan {
    scope: &'static str,
    limits: Vec<Limit>,
}

/// Returns the budgets, parents first. A scope's parent is the part of its name before the last `/`.
///
/// The fleet spends about $3.50 a minute. Short windows fill while one watches, and long ones last for a working day.
fn plans() -> Result<Vec<Plan>, Error> {
    let [day, month] = ["day".parse::<Window>()?, "month".parse::<Window>()?];
    let rolling = |length| Window::rolling(length);
    let plan = |scope, limits: &[(i64, &Window)]| {
        let limits = limits.iter().map(|(amount, window)| Limit::new(*amount, (*window).clone())).collect();
        Plan { scope, limits }
    };
    let [hour, quarter, ten] = [rolling(HOUR)?, rolling(HOUR / 4)?, rolling(HOUR / 6)?];
    Ok(vec![
        plan("acme", &[(3_000 * USD, &day), (50_000 * USD, &month), (45 * USD, &ten)]),
        plan("acme/research", &[(800 * USD, &day), (20 * USD, &ten)]),
        plan(SCOUT, &[(60 * CENT, &day)]),
        plan(SAGE, &[(24 * USD, &quarter), (700 * USD, &day)]),
        plan("acme/media", &[(1_500 * USD, &day), (20_000 * USD, &month)]),
        plan(PIXEL, &[(60 * USD, &hour)]),
        plan(REEL, &[(75 * USD, &hour), (700 * USD, &day)]),
        plan("acme/support", &[(40 * USD, &hour)]),
        plan(ECHO, &[(5 * USD, &ten)]),
        plan(INDEXER, &[(2 * USD, &ten)]),
    ])
}

/// Defines what does not exist yet.
pub(super) async fn define(bursar: &Bursar, speed: Speed) -> Result<(), Error> {
    for plan in plans()? {
        if bursar.ledger().budget(plan.scope).await?.is_none() {
            define_budget(bursar, speed, plan).await?;
        }
    }
    let known = bursar.queues().list(None, 1_000).await?;
    let known: BTreeSet<&str> = known.iter().map(|(queue, _)| queue.as_str()).collect();
    for (queue, config) in queues(speed) {
        if !known.contains(queue) {
            bursar.queues().define(queue, config).await?;
        }
    }
    if bursar.schedules().find(DIGEST).await?.is_none() {
        bursar.schedules().define(DIGEST, digest(speed)?).await?;
    }
    Ok(())
}

async fn define_budget(bursar: &Bursar, speed: Speed, plan: Plan) -> Result<(), Error> {
    let hold = HoldPolicy { ttl_min: speed.secs(5), ..HoldPolicy::default() };
    let mut budget = Budget { unit: UNIT.into(), thresholds: vec![50, 80, 100], hold, ..Budget::new(plan.limits) };
    if let Some((parent, _)) = plan.scope.rsplit_once('/') {
        budget = budget.under(Scope::new(parent)?);
    }
    bursar.ledger().define(plan.scope, budget).await?;
    Ok(())
}

fn queues(speed: Speed) -> [(&'static str, QueueConfig); 3] {
    let minutes = |minutes: u64| Some(speed.secs(60 * minutes));
    // The demo may run for days, so its jobs are kept for a short time.
    let retention = Retention { succeeded: minutes(30), cancelled: minutes(30), dead: minutes(60) };
    let retry = |max_attempts, backoff| Retry { max_attempts, backoff };
    let common = QueueConfig { lease: speed.secs(20), retention, ..QueueConfig::default() };
    let media = QueueConfig {
        concurrency: Some(3),
        // Each customer has one image in work at a time.
        key_concurrency: Some(1),
        retry: retry(3, Backoff::List { delays: vec![speed.secs(3), speed.secs(6)] }),
        ..common
    };
    let mail = QueueConfig { retry: retry(3, Backoff::Fixed { delay: speed.secs(4) }), ..common };
    let embed = QueueConfig {
        rate: Some(Rate { amount: 30, per: speed.secs(60) }),
        retry: retry(4, Backoff::Exponential { first: speed.secs(2), most: speed.secs(10) }),
        ..common
    };
    [(MEDIA, media), (MAIL, mail), (EMBED, embed)]
}

fn digest(speed: Speed) -> Result<ScheduleSpec, Error> {
    let payload = Payload::of(&json!({ "to": "team@acme.example" }))?;
    let job = JobSpec::new(MAIL.try_into()?, "mail.digest".try_into()?, payload);
    let spec = ScheduleSpec::new(Cron::new(speed.every_minute())?, Zone::new("UTC")?, job);
    // Ticks that passed while the demo was stopped are not made up for.
    Ok(ScheduleSpec { missed: MissedTicks::Skip, overlap: Overlap::Skip, ..spec })
}
