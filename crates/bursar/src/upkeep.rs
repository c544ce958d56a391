//! Upkeep: sweeping and tidying. It only tidies: no answer depends on it, and it may run anywhere any number of times
//! at once.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bursar_core::answer::Answer;
use bursar_core::bounds::{SWEEP_DEFAULT, SWEEP_MAX};
use bursar_core::context::Context;
use bursar_core::id::HoldId;
use bursar_core::name::{Scope, Tenant};
use bursar_core::request::{Op, Request};
use bursar_core::state::{QueueKey, ScopeKey};
use bursar_core::time::Time;
use bursar_store::{Store, StoreError};
use futures_util::future::{join_all, join3};
use tokio::task::JoinHandle;

use crate::engine::Engine;
use crate::error::Error;
use crate::instance::Inner;
use crate::tending::tend_backlog;
use crate::ticking::tick_backlog;

/// How often the background sweeps unless told otherwise.
pub(crate) const EVERY: Duration = Duration::from_secs(5);
/// How often the background looks for lapsed leases unless told otherwise.
pub(crate) const RESCUE: Duration = Duration::from_millis(500);
/// Scopes tidied in one go.
const PAGE: usize = 200;
/// Queues whose old figures are forgotten in one go.
const QUEUES: usize = 100;
/// Scopes that are looked at in one go for flow keys that nobody uses.
const SCOPES: usize = 1_000;

/// What a sweep did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Holds written down as expired.
    pub expired_count: usize,
    /// The time up to which it looked.
    pub scanned_at: Time,
}

/// What a part of the upkeep came to. One bad row must not keep the others from being tidied, so that an error does not
/// end it.
pub(crate) struct Done<T> {
    pub(crate) done: T,
    /// The last thing that went wrong; all were logged.
    pub(crate) wrong: Option<Error>,
}

/// Writes down which holds have expired, at most so many. An error only if none could be.
pub(crate) async fn sweep(store: &Arc<dyn Store>, engine: &Engine, most: usize) -> Result<Swept, Error> {
    let Done { done: (swept, _), wrong } = sweep_some(store, engine, most).await?;
    match wrong {
        Some(error) if swept.expired_count == 0 => Err(error),
        _ => Ok(swept),
    }
}

/// What was swept, and whether more may be due.
async fn sweep_some(store: &Arc<dyn Store>, engine: &Engine, most: usize) -> Result<Done<(Swept, bool)>, Error> {
    let most = most.min(SWEEP_MAX);
    let (due, scanned_at) = store.due_holds(most).await?;
    let found = due.len();
    let mut by_tenant: BTreeMap<Tenant, Vec<HoldId>> = BTreeMap::new();
    for (tenant, hold) in due {
        by_tenant.entry(tenant).or_default().push(hold);
    }
    let (mut expired_count, mut wrong) = (0, None);
    for (tenant, holds) in by_tenant {
        let part = each(engine, &tenant, holds, |holds| Op::Expire { holds }).await;
        expired_count += part.done;
        wrong = part.wrong.or(wrong);
    }
    let more = found == most && expired_count > 0;
    Ok(Done { done: (Swept { expired_count, scanned_at }, more), wrong })
}

/// Tidies a page of scopes after one; returns where to go on, `None` at the end. It goes on whatever is wrong.
async fn tidy_page(
    store: &Arc<dyn Store>,
    engine: &Engine,
    after: Option<&ScopeKey>,
) -> Result<Done<Option<ScopeKey>>, Error> {
    let page = store.page_scopes(after, PAGE).await?;
    let mut by_tenant: BTreeMap<Tenant, Vec<Scope>> = BTreeMap::new();
    for (tenant, scope) in &page {
        by_tenant.entry(tenant.clone()).or_default().push(scope.clone());
    }
    let mut wrong = None;
    for (tenant, scopes) in by_tenant {
        wrong = each(engine, &tenant, scopes, |scopes| Op::Tidy { scopes }).await.wrong.or(wrong);
    }
    let next = if page.len() < PAGE { None } else { page.into_iter().next_back() };
    Ok(Done { done: next, wrong })
}

/// Does something to all at once; one by one if that fails because of some of them. Returns how many were swept or acted on.
pub(crate) async fn each<T: Clone + Debug>(
    engine: &Engine,
    tenant: &Tenant,
    things: Vec<T>,
    op: impl Fn(Vec<T>) -> Op,
) -> Done<usize> {
    let ask = |things: Vec<T>| {
        let request = Request::from(op(things)).in_context(Context::of(tenant.clone()));
        async move {
            Ok(match engine.submit(request).await?.answer {
                Answer::Swept { count } => count,
                Answer::Acted { each: answers, .. } => answers.iter().filter(|answer| answer.is_ok()).count(),
                _ => 0,
            })
        }
    };
    let error: Error = match ask(things.clone()).await {
        Ok(done) => return Done { done, wrong: None },
        Err(error) => error,
    };
    if things.len() <= 1 || !is_of_some(&error) {
        tracing::warn!(%tenant, count = things.len(), first = ?things.first(), %error, "upkeep left something; it is tried again");
        return Done { done: 0, wrong: Some(error) };
    }
    // All at once: those that somebody has locked are waited for together, not one after the other.
    let answers = join_all(things.iter().map(|thing| ask(vec![thing.clone()]))).await;
    let (mut done, mut wrong) = (0, None);
    for (thing, answer) in things.iter().zip(answers) {
        match answer {
            Ok(count) => done += count,
            Err(error) => {
                tracing::warn!(%tenant, ?thing, %error, "upkeep left something; it is tried again");
                wrong = Some(error);
            }
        }
    }
    Done { done, wrong }
}

/// Whether an error comes from some of the rows, so that others may do better. A database that is gone is not.
fn is_of_some(error: &Error) -> bool {
    match error {
        Error::Refused(_) | Error::LeaseLost(_) | Error::Internal(_) => true,
        Error::Store(error) => {
            matches!(**error, StoreError::Busy(_) | StoreError::Corrupt { .. } | StoreError::Rejected(_))
        }
        Error::Overloaded { .. } => false,
    }
}

/// Tidies every scope, and forgets keys, figures and flows whose time is over. What can be done is done before an error is told.
pub(crate) async fn tidy_all(store: &Arc<dyn Store>, engine: &Engine) -> Result<(), Error> {
    let tidied = tidy_scopes(store, engine).await;
    while store.forget_keys(SWEEP_MAX).await? == SWEEP_MAX {}
    let mut queue = None;
    loop {
        queue = store.forget_figures(queue.as_ref(), QUEUES).await?;
        if queue.is_none() {
            break;
        }
    }
    let mut scope = None;
    loop {
        scope = store.forget_flows(scope.as_ref(), SCOPES).await?;
        if scope.is_none() {
            return tidied;
        }
    }
}

async fn tidy_scopes(store: &Arc<dyn Store>, engine: &Engine) -> Result<(), Error> {
    let (mut after, mut wrong) = (None, None);
    loop {
        let part = tidy_page(store, engine, after.as_ref()).await?;
        wrong = part.wrong.or(wrong);
        after = part.done;
        if after.is_none() {
            return wrong.map_or(Ok(()), Err);
        }
    }
}

/// Sweeps and tidies in the background until Bursar is gone, looks after jobs more often than that, and ticks schedules when they
/// are due.
pub(crate) fn spawn(inner: Weak<Inner>, every: Duration, rescue: Duration) -> JoinHandle<()> {
    let interval = |every: Duration| {
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks
    };
    tokio::spawn(async move {
        let jobs = async {
            let mut ticks = interval(rescue);
            loop {
                ticks.tick().await;
                let Some(inner) = inner.upgrade() else { return };
                if let Err(error) = tend_backlog(&inner.store, &inner.engine).await {
                    tracing::warn!(%error, "jobs were not looked after; it is tried again");
                }
                if let Err(error) = inner.resumer.look(&inner.store, &inner.engine).await {
                    tracing::warn!(%error, "jobs that wait for units were not looked at; it is tried again");
                }
            }
        };
        let schedules = async {
            loop {
                let Some(alive) = inner.upgrade() else { return };
                let rest = tick_backlog(&alive.store, &alive.engine, rescue).await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "schedules were not ticked; it is tried again");
                    rescue
                });
                drop(alive);
                tokio::time::sleep(rest).await;
            }
        };
        let scopes = async {
            let mut ticks = interval(every);
            let mut round = Round::default();
            loop {
                ticks.tick().await;
                let Some(inner) = inner.upgrade() else { return };
                once(&inner, &mut round).await;
            }
        };
        // A sweep that takes long keeps nobody's lapsed lease or tick waiting.
        join3(jobs, schedules, scopes).await;
    })
}

/// How far the background has come with what it does page by page.
#[derive(Default)]
struct Round {
    tidied: Option<ScopeKey>,
    figures: Option<QueueKey>,
    flows: Option<ScopeKey>,
}

/// One step of a round. Its parts do not depend on each other: an error of one is logged, and the others are done.
async fn once(inner: &Inner, round: &mut Round) {
    let (store, engine) = (&inner.store, &inner.engine);
    if let Err(error) = sweep_backlog(store, engine).await {
        tracing::warn!(%error, "sweeping failed; it is tried again");
    }
    if let Err(error) = store.forget_keys(SWEEP_MAX).await {
        tracing::warn!(%error, "old keys were not forgotten; it is tried again");
    }
    // On PostgreSQL whoever reads gives out positions. Where nobody reads, many would wait for the first who does.
    if let Err(error) = store.journal(u64::MAX - 1, 1).await {
        tracing::warn!(%error, "positions were not given out; it is tried again");
    }
    round.figures = store.forget_figures(round.figures.as_ref(), QUEUES).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "old figures were not forgotten; it begins again");
        None
    });
    round.flows = store.forget_flows(round.flows.as_ref(), SCOPES).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "flow keys that nobody uses were not forgotten; it begins again");
        None
    });
    round.tidied = tidy_page(store, engine, round.tidied.as_ref()).await.map_or_else(
        |error| {
            tracing::warn!(%error, "tidying failed; it begins again");
            None
        },
        |part| part.done,
    );
}

/// Until fewer are found than asked for: the backlog of one tick does not wait for the next.
async fn sweep_backlog(store: &Arc<dyn Store>, engine: &Engine) -> Result<(), Error> {
    while sweep_some(store, engine, SWEEP_DEFAULT).await?.done.1 {}
    Ok(())
}
