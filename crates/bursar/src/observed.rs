//! What this process has seen and no table has: which limits have refused requests, and which workers have asked for jobs.
//!
//! Nothing depends on it. It is lost when the process ends, and every process counts its own.

mod counts;

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bursar_core::event::Entry;
use bursar_core::job::LeaseRequest;
use bursar_core::name::{Queue, Scope, Tenant, WorkerName};
use bursar_core::refusal::{Refusal, RefusalReason, Violation};
use bursar_core::request::Request;
use bursar_core::window::Window;
use tokio::sync::watch;
use tokio::time::Instant;

use self::counts::Counts;
pub use self::counts::Incidents;

/// The most limits, and the most workers, that are remembered over all tenants. One more makes room by forgetting the half that was
/// seen longest ago.
const ENTRIES_MAX: usize = 8_192;
/// How long a worker that has asked for jobs is remembered.
const WORKER_SEEN: Duration = Duration::from_secs(3_600);

/// How often a limit or a freeze has refused requests of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalCount {
    /// The scope that refused.
    pub scope: Scope,
    /// The window of the limit; `None` for a freeze of the scope.
    pub window: Option<Window>,
    /// The number of refused requests.
    pub count: u64,
    /// How long ago the last one was.
    pub last: Duration,
}

/// A worker that has asked this process for jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSeen {
    /// Its name.
    pub name: WorkerName,
    /// The queues it has asked for the last time.
    pub queues: Vec<Queue>,
    /// Whether it is waiting for jobs now.
    pub waiting: bool,
    /// How long ago it has asked for jobs, or stopped waiting for them.
    pub last: Duration,
}

/// What this process has seen since it opened the database.
pub(crate) struct Observed {
    since: Instant,
    counts: Counts,
    refusals: Mutex<Recent<(Scope, Option<Window>), u64>>,
    /// Changes with every refusal that is counted.
    refused: watch::Sender<u64>,
    workers: Mutex<Recent<WorkerName, Asked>>,
}

/// The last requests of a worker for jobs.
#[derive(Default)]
struct Asked {
    queues: Vec<Queue>,
    /// The number of requests that wait now.
    waiting: usize,
}

impl Observed {
    pub(crate) fn new() -> Arc<Observed> {
        Arc::new(Observed {
            since: Instant::now(),
            counts: Counts::default(),
            refusals: Mutex::default(),
            refused: watch::Sender::new(0),
            workers: Mutex::default(),
        })
    }

    /// Returns how long ago the process began to count.
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Counts the events of an entry that this process has committed.
    pub(crate) fn committed(&self, entry: &Entry) {
        self.counts.committed(entry);
    }

    pub(crate) fn refusal_reasons(&self) -> Vec<(RefusalReason, u64)> {
        self.counts.reasons()
    }

    pub(crate) fn incidents(&self) -> Incidents {
        self.counts.incidents()
    }

    /// Counts what a refusal names. A dry run asks what would happen, so that it does not count.
    pub(crate) fn refused(&self, request: &Request, refusal: &Refusal) {
        if request.dry_run {
            return;
        }
        self.counts.refused(refusal.reason());
        let Refusal::Refused(violations) = refusal else { return };
        let now = Instant::now();
        let mut refusals = lock(&self.refusals);
        for violation in violations {
            let key = match violation {
                Violation::Limit { scope, window, .. } => (scope.clone(), Some(window.clone())),
                Violation::Frozen { scope } => (scope.clone(), None),
                Violation::Grant { .. } => continue,
            };
            *refusals.touch(&request.context.tenant, key, now) += 1;
        }
        drop(refusals);
        if self.refused.receiver_count() > 0 {
            self.refused.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    pub(crate) fn watch_refusals(&self) -> watch::Receiver<u64> {
        self.refused.subscribe()
    }

    /// Returns the counts of a tenant, the latest refusal first.
    pub(crate) fn refusals(&self, tenant: &Tenant) -> Vec<RefusalCount> {
        let now = Instant::now();
        let counts = lock(&self.refusals);
        let mut found: Vec<RefusalCount> = counts
            .of(tenant)
            .map(|((scope, window), count, at)| RefusalCount {
                scope: scope.clone(),
                window: window.clone(),
                count: *count,
                last: now - at,
            })
            .collect();
        found.sort_by(|a, b| (a.last, &a.scope, &a.window).cmp(&(b.last, &b.scope, &b.window)));
        found
    }

    /// Notes that a worker asks for jobs. It is waiting until the value that is returned is dropped.
    pub(crate) fn asks(self: &Arc<Self>, tenant: &Tenant, request: &LeaseRequest) -> Waits {
        let mut workers = lock(&self.workers);
        let asked = workers.touch(tenant, request.worker.clone(), Instant::now());
        asked.waiting += 1;
        asked.queues.clone_from(&request.queues);
        Waits { observed: self.clone(), tenant: tenant.clone(), worker: request.worker.clone() }
    }

    /// Returns the workers of a tenant that have asked for jobs within the last hour: those that wait, then the others, the last seen
    /// first.
    pub(crate) fn workers(&self, tenant: &Tenant) -> Vec<WorkerSeen> {
        let now = Instant::now();
        let workers = lock(&self.workers);
        let mut found: Vec<WorkerSeen> = workers
            .of(tenant)
            .map(|(name, asked, at)| WorkerSeen {
                name: name.clone(),
                queues: asked.queues.clone(),
                waiting: asked.waiting > 0,
                last: now - at,
            })
            .filter(|worker| worker.waiting || worker.last <= WORKER_SEEN)
            .collect();
        found.sort_by(|a, b| (!a.waiting, a.last, &a.name).cmp(&(!b.waiting, b.last, &b.name)));
        found
    }
}

/// A worker that waits for jobs.
pub(crate) struct Waits {
    observed: Arc<Observed>,
    tenant: Tenant,
    worker: WorkerName,
}

impl Drop for Waits {
    fn drop(&mut self) {
        let mut workers = lock(&self.observed.workers);
        let asked = workers.touch(&self.tenant, self.worker.clone(), Instant::now());
        // The entry may have been forgotten in the meantime.
        asked.waiting = asked.waiting.saturating_sub(1);
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A bounded map of values by tenant and key, each with the instant at which it was last touched.
struct Recent<K, V> {
    tenants: HashMap<Tenant, HashMap<K, (V, Instant)>>,
    count: usize,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Recent<K, V> {
        Recent { tenants: HashMap::new(), count: 0 }
    }
}

impl<K: Hash + Eq, V: Default> Recent<K, V> {
    /// Returns the value of a key, which is new if the key is.
    fn touch(&mut self, tenant: &Tenant, key: K, now: Instant) -> &mut V {
        let known = self.tenants.get(tenant).is_some_and(|values| values.contains_key(&key));
        if !known {
            if self.count >= ENTRIES_MAX {
                self.forget_half();
            }
            self.count += 1;
        }
        let values = self.tenants.entry(tenant.clone()).or_default();
        let (value, at) = values.entry(key).or_insert_with(|| (V::default(), now));
        *at = now;
        value
    }

    fn of(&self, tenant: &Tenant) -> impl Iterator<Item = (&K, &V, Instant)> {
        self.tenants.get(tenant).into_iter().flatten().map(|(key, (value, at))| (key, value, *at))
    }

    fn forget_half(&mut self) {
        let mut instants: Vec<Instant> = self.tenants.values().flatten().map(|(_, (_, at))| *at).collect();
        let middle = instants.len() / 2;
        let (_, oldest_kept, _) = instants.select_nth_unstable(middle);
        let oldest_kept = *oldest_kept;
        // Of those that were touched at the same instant as the oldest one that is kept, none is kept.
        for values in self.tenants.values_mut() {
            values.retain(|_, (_, at)| *at > oldest_kept);
        }
        self.tenants.retain(|_, values| !values.is_empty());
        self.count = self.tenants.values().map(HashMap::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use bursar_core::request::Op;

    use super::*;

    fn scope(name: &str) -> Scope {
        Scope::new(name).expect("a scope")
    }

    fn request(tenant: &str) -> Request {
        let mut request = Request::from(Op::Freeze { scope: scope("x") });
        request.context.tenant = Tenant::new(tenant).expect("a tenant");
        request
    }

    fn at_limit(name: &str, window: Window) -> Violation {
        let scope = scope(name);
        Violation::Limit {
            scope,
            window,
            limit: 5,
            requested: 1,
            available: 0,
            retry_after: None,
            possible: true,
            unit: Default::default(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_counted_by_tenant_and_limit() {
        let observed = Observed::new();
        let day: Window = "day".parse().expect("a window");
        let both = Refusal::Refused(vec![at_limit("a", day.clone()), at_limit("team", Window::Lifetime)]);
        observed.refused(&request("acme"), &both);
        tokio::time::advance(Duration::from_secs(120)).await;
        observed.refused(&request("acme"), &Refusal::Refused(vec![at_limit("a", day.clone())]));
        observed.refused(&request("acme"), &Refusal::Refused(vec![Violation::Frozen { scope: scope("a") }]));
        observed.refused(&request("globex"), &both);
        observed.refused(&Request { dry_run: true, ..request("acme") }, &both);
        observed.refused(&request("acme"), &Refusal::UnknownScope { scope: scope("a") });
        let counts = observed.refusals(&Tenant::new("acme").expect("a tenant"));
        let shown: Vec<_> = counts
            .iter()
            .map(|of| (of.scope.as_str(), of.window.as_ref().map(Window::to_string), of.count, of.last.as_secs()))
            .collect();
        let day = Some("day@UTC".to_owned());
        assert_eq!(
            shown,
            [("a", None, 1, 0), ("a", day, 2, 0), ("team", Some("lifetime".to_owned()), 1, 120)],
            "a dry run and an unknown scope do not count"
        );
        let reasons = observed.refusal_reasons().into_iter().filter(|(_, count)| *count > 0);
        let reasons: Vec<_> = reasons.map(|(reason, count)| (reason.as_str(), count)).collect();
        assert_eq!(reasons, [("limit", 3), ("frozen", 1), ("unknown_scope", 1)], "a dry run does not count");
        assert_eq!(observed.refusals(&Tenant::new("globex").expect("a tenant")).len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_seen_longest_ago_is_forgotten_first() {
        let observed = Observed::new();
        let refuse = |name: &str| {
            observed.refused(&request("acme"), &Refusal::Refused(vec![at_limit(name, Window::Lifetime)]));
        };
        for number in 0..ENTRIES_MAX {
            refuse(&format!("scope-{number}"));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        // The oldest one refuses again, so that it is not forgotten.
        refuse("scope-0");
        tokio::time::advance(Duration::from_millis(1)).await;
        refuse("one-more");
        let counts = observed.refusals(&Tenant::new("acme").expect("a tenant"));
        assert!(counts.len() <= ENTRIES_MAX / 2 + 1, "{}", counts.len());
        let count = |name: &str| counts.iter().find(|of| of.scope.as_str() == name).map(|of| of.count);
        assert_eq!((count("one-more"), count("scope-0"), count("scope-1")), (Some(1), Some(2), None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_waits_until_its_request_ends_and_is_remembered_for_an_hour() {
        let observed = Observed::new();
        let tenant = Tenant::built_in();
        let ask = |name: &str| LeaseRequest {
            queues: vec![Queue::new("media").expect("a queue")],
            kinds: Vec::new(),
            worker: WorkerName::new(name).expect("a name"),
            capacity: 1,
            lease: None,
        };
        let first = observed.asks(&tenant, &ask("gpu-1"));
        let second = observed.asks(&tenant, &ask("gpu-2"));
        tokio::time::advance(Duration::from_secs(10)).await;
        drop(first);
        let seen = || {
            let seen = observed.workers(&tenant);
            seen.iter().map(|of| (of.name.to_string(), of.waiting, of.last.as_secs())).collect::<Vec<_>>()
        };
        assert_eq!(seen(), [("gpu-2".to_owned(), true, 10), ("gpu-1".to_owned(), false, 0)]);
        tokio::time::advance(WORKER_SEEN + Duration::from_secs(1)).await;
        assert_eq!(seen().len(), 1, "one that waits is never forgotten");
        drop(second);
        assert_eq!(seen(), [("gpu-2".to_owned(), false, 0)]);
    }
}
