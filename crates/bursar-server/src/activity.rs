//! What happened in the last hour: spend by minute and scope, and notable events, for dashboards.
//!
//! Nothing of it is stored. Refusals and workers are what the engine of this process has seen since it started. For the rest, the first request for a tenant starts a task that reads the recent end of the journal and then follows
//! it, so that a server without dashboards spends nothing on this. The task ends when no request has come for [`IDLE_AFTER`].

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bursar::{Bursar, Charged, Event, JournalEvent, Scope, Tenant, Time};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::convert;
use crate::wire::activity::{ActivityAnswer, ScopeActivity};
use crate::wire::event::EventAnswer;
use crate::wire::problem::Problem;
use crate::wire::stamp;

/// The minutes that are kept.
pub(crate) const MINUTES: i64 = 60;
/// How many journal positions before the end are read at the start.
const BACKFILL: u64 = 20_000;
/// How long the first request waits for them.
const BACKFILL_WAIT: Duration = Duration::from_secs(1);
/// When a tenant's activity is forgotten after its last request.
const IDLE_AFTER: Duration = Duration::from_secs(300);
/// How often the journal is read for commits of other processes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Events read at once.
const PAGE: usize = 500;
/// Scopes counted per minute; further ones of the same minute are left out.
const SCOPES_PER_MINUTE: usize = 500;
/// Scopes in an answer.
const SCOPES_SHOWN: usize = 20;
/// Notable events kept.
const NOTABLE: usize = 50;
/// Limits with refusals in an answer.
const REFUSALS_SHOWN: usize = 100;
/// Workers in an answer.
const WORKERS_SHOWN: usize = 1_000;

/// The activity of all tenants that were asked for lately.
pub(crate) struct Activities {
    bursar: Bursar,
    tenants: Arc<Mutex<HashMap<Tenant, Arc<Activity>>>>,
}

/// The recent activity of one tenant.
struct Activity {
    recent: Mutex<Recent>,
    /// Whether the journal has been read up to its end.
    caught_up: watch::Sender<bool>,
    asked: Mutex<Instant>,
}

#[derive(Default)]
struct Recent {
    /// The first minute whose events were all read.
    since: i64,
    minutes: BTreeMap<i64, HashMap<Scope, i64>>,
    notable: VecDeque<EventAnswer>,
}

impl Activities {
    pub(crate) fn new(bursar: Bursar) -> Activities {
        Activities { bursar, tenants: Arc::default() }
    }

    /// Returns the activity of a tenant. The first request may get only a part of it, if there is much to read.
    pub(crate) async fn answer(&self, tenant: &Tenant, now: Time) -> Result<ActivityAnswer, Problem> {
        let activity = self.of(tenant).await?;
        *lock(&activity.asked) = Instant::now();
        let mut caught_up = activity.caught_up.subscribe();
        // After the wait the answer is what has been read so far.
        let _ = timeout(BACKFILL_WAIT, caught_up.wait_for(|done| *done)).await;
        let bursar = self.bursar.tenant(tenant)?;
        let refusals = bursar.refusals().into_iter().filter(|count| !count.scope.is_internal()).take(REFUSALS_SHOWN);
        let workers = bursar.workers_seen().into_iter().take(WORKERS_SHOWN);
        Ok(ActivityAnswer {
            started_at: stamp(convert::ago(now, bursar.open_for())),
            refusals: refusals.map(|count| convert::refusals_answer(&count, now)).collect(),
            workers: workers.map(|seen| convert::worker_seen_answer(&seen, now)).collect(),
            ..lock(&activity.recent).answer(now)
        })
    }

    async fn of(&self, tenant: &Tenant) -> Result<Arc<Activity>, Problem> {
        let known = lock(&self.tenants).get(tenant).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let end = self.bursar.health().await?.position;
        let bursar = self.bursar.tenant(tenant)?;
        let mut tenants = lock(&self.tenants);
        if let Some(known) = tenants.get(tenant) {
            return Ok(known.clone());
        }
        let activity = Arc::new(Activity {
            recent: Mutex::default(),
            caught_up: watch::Sender::new(false),
            asked: Mutex::new(Instant::now()),
        });
        tenants.insert(tenant.clone(), activity.clone());
        let from = end.saturating_sub(BACKFILL);
        tokio::spawn(follow(bursar, tenant.clone(), from, activity.clone(), self.tenants.clone()));
        Ok(activity)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a tenant's events until no request has come for some time.
async fn follow(
    bursar: Bursar,
    tenant: Tenant,
    from: u64,
    activity: Arc<Activity>,
    tenants: Arc<Mutex<HashMap<Tenant, Arc<Activity>>>>,
) {
    let mut at = from;
    let mut commits = bursar.watch_commits();
    while lock(&activity.asked).elapsed() < IDLE_AFTER {
        commits.mark_unchanged();
        match bursar.journal().read(at, PAGE).await {
            Ok((events, now_at)) => {
                let mut recent = lock(&activity.recent);
                // What happened in the first minute before the start of the backfill is not known, so that minute does not count.
                if at == from && from > 0 {
                    recent.since = events.first().map_or(0, |event| minute_of(event.at) + 1);
                }
                events.iter().for_each(|event| recent.add(event));
                drop(recent);
                if now_at > at {
                    at = now_at;
                    continue;
                }
                activity.caught_up.send_replace(true);
            }
            Err(error) => tracing::warn!(%error, "reading the journal for activity failed, retrying"),
        }
        let _ = timeout(POLL_INTERVAL, commits.changed()).await;
    }
    lock(&tenants).remove(&tenant);
}

fn minute_of(at: Time) -> i64 {
    at.micros().div_euclid(60_000_000)
}

impl Recent {
    fn add(&mut self, event: &JournalEvent) {
        let spent = |charges: &[Charged]| {
            let amounts = charges.iter().map(|charge| (charge.scope.clone(), charge.actual.unwrap_or(charge.amount)));
            amounts.collect::<Vec<_>>()
        };
        let amounts = match &event.event {
            Event::HoldCommitted { charges, .. } | Event::Posted { charges } | Event::JobBilled { charges, .. } => {
                spent(charges)
            }
            Event::Credited { charge, .. } => vec![(charge.scope.clone(), -charge.amount)],
            _ => Vec::new(),
        };
        let minute = self.minutes.entry(minute_of(event.at)).or_default();
        for (scope, amount) in amounts {
            if minute.len() < SCOPES_PER_MINUTE || minute.contains_key(&scope) {
                let sum = minute.entry(scope).or_default();
                *sum = sum.saturating_add(amount);
            }
        }
        while self.minutes.len() > MINUTES as usize + 1 {
            self.minutes.pop_first();
        }
        if is_notable(&event.event) {
            self.notable.push_front(convert::event_answer(event));
            self.notable.truncate(NOTABLE);
        }
    }

    fn answer(&self, now: Time) -> ActivityAnswer {
        let last = minute_of(now);
        // After a burst the first whole minute may still be to come.
        let first = (last - MINUTES + 1).max(self.since).min(last);
        let minutes = usize::try_from(last - first + 1).unwrap_or_default();
        let mut scopes: HashMap<&Scope, Vec<i64>> = HashMap::new();
        for (minute, sums) in self.minutes.range(first..=last) {
            for (scope, amount) in sums {
                scopes.entry(scope).or_insert_with(|| vec![0; minutes])[(minute - first) as usize] = *amount;
            }
        }
        let total = |spent: &[i64]| spent.iter().fold(0_i64, |sum, amount| sum.saturating_add(amount.saturating_abs()));
        let mut scopes: Vec<_> = scopes.into_iter().collect();
        scopes.sort_by_key(|(scope, spent)| (std::cmp::Reverse(total(spent)), scope.to_string()));
        scopes.truncate(SCOPES_SHOWN);
        let shown = scopes.into_iter().map(|(scope, spent)| ScopeActivity { scope: scope.clone(), spent });
        ActivityAnswer {
            since: stamp(Time::from_micros(first * 60_000_000)),
            minutes,
            scopes: shown.collect(),
            notable: self.notable.iter().cloned().collect(),
            started_at: None,
            refusals: Vec::new(),
            workers: Vec::new(),
        }
    }
}

/// Returns whether an operator may have to look at an event.
fn is_notable(event: &Event) -> bool {
    match event {
        Event::BudgetCrossed { .. } | Event::BudgetTripped { .. } | Event::BudgetFrozen { .. } => true,
        Event::HoldCommitted { late, overrun, .. } => *late || *overrun > 0,
        _ => false,
    }
}
