//! Figures of the server, as Prometheus reads them. No label says a tenant or an id.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use bursar::{Distribution, Histogram, JobState};

use crate::app::App;
use crate::route::Route;

/// How long the database may take to say how many jobs there are.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where the figures of latency end, in seconds.
const SECONDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0];

/// Every metric there is: its name, what it is to Prometheus, and what it says.
const METRICS: [(&str, &str, &str); 39] = [
    ("bursar_build_info", "gauge", "Always 1; the label `version` says which Bursar this is."),
    ("bursar_http_requests_total", "counter", "Requests that were answered, by method, route and status."),
    (
        "bursar_http_request_seconds",
        "histogram",
        "How long answers took, by action; without those that wait for jobs or events.",
    ),
    ("bursar_http_requests", "gauge", "Requests under way, without those that wait; `limits.requests` is the most."),
    ("bursar_http_waiting", "gauge", "Requests that wait for jobs, or listen to events; `limits.waiting` is the most."),
    ("bursar_http_connections", "gauge", "Connections that are open; `limits.connections` is the most."),
    (
        "bursar_http_bytes_in_flight",
        "gauge",
        "Bytes of bodies, answers and events that are kept now; `limits.bytes` is the most.",
    ),
    ("bursar_denied_total", "counter", "Tokens that were not taken."),
    ("bursar_commands_done_total", "counter", "Requests that the engine has done."),
    ("bursar_commands_refused_total", "counter", "Requests that the rules refused: limits, freezes, wrong states."),
    (
        "bursar_commands_failed_total",
        "counter",
        "Requests that failed below the rules: a database that is busy or gone, too many that wait.",
    ),
    ("bursar_commands_waiting", "gauge", "Requests that wait for a commit; `engine.queue` is the most."),
    ("bursar_batches_total", "counter", "Commits that were begun, each for all that waited then."),
    ("bursar_batch_size", "histogram", "Requests that shared a commit."),
    ("bursar_commit_seconds", "histogram", "How long commits took, from the first row read to the disk."),
    ("bursar_meter_admitted_total", "counter", "Requests that were charged to a quota and served."),
    ("bursar_meter_exceeded_total", "counter", "Requests beyond their caller's quota."),
    ("bursar_meter_bypassed_total", "counter", "Requests that cost nothing."),
    ("bursar_meter_rejected_total", "counter", "Requests whose caller made no sense or was missing."),
    ("bursar_meter_failed_open_total", "counter", "Requests that were served although the quota could not be asked."),
    ("bursar_meter_failed_closed_total", "counter", "Requests that were refused because the quota could not be asked."),
    ("bursar_meter_abandoned_total", "counter", "Requests that were settled after their caller had left."),
    ("bursar_meter_unsettled_total", "counter", "Requests whose second phase failed."),
    ("bursar_meter_unasked_total", "counter", "Costs that were reported for operations that have one phase only."),
    ("bursar_lease_waiters", "gauge", "Workers that wait for jobs on this node."),
    (
        "bursar_jobs",
        "gauge",
        "Jobs in each state, of all tenants and nodes together; finished ones as long as they are kept.",
    ),
    ("bursar_database_up", "gauge", "1 if the database answered this time; else `bursar_jobs` is missing."),
    ("bursar_bells_total", "counter", "Looks at the database while somebody waits for jobs."),
    ("bursar_hints_total", "counter", "What other nodes told this one meanwhile."),
    ("bursar_rings_total", "counter", "What this node told others."),
    ("bursar_event_listeners", "gauge", "Streams of events that are open."),
    ("bursar_event_listeners_dropped_total", "counter", "Streams that were too slow, and dropped."),
    ("bursar_limit_requests", "gauge", "The most requests at once (`limits.requests`)."),
    ("bursar_limit_waiting", "gauge", "The most requests at once that wait (`limits.waiting`)."),
    ("bursar_limit_connections", "gauge", "The most connections at once (`limits.connections`)."),
    ("bursar_limit_bytes", "gauge", "The most bytes in flight (`limits.bytes`)."),
    ("bursar_process_resident_bytes", "gauge", "Memory of the process (Linux)."),
    ("bursar_process_open_files", "gauge", "Open files of the process, connections among them (Linux)."),
    ("bursar_process_cpu_seconds_total", "counter", "Time that the process has computed (Linux)."),
];

/// The table of `docs/observability.md`.
pub fn markdown() -> String {
    let mut text = String::from("| metric | type | says |\n| --- | --- | --- |\n");
    for (name, kind, says) in METRICS {
        let _ = writeln!(text, "| `{name}` | {kind} | {says} |");
    }
    text
}

/// Figures since the start.
#[derive(Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<(&'static str, &'static str, u16), u64>>,
    latency: Mutex<BTreeMap<&'static str, Histogram>>,
    denied: AtomicU64,
    connections: AtomicU64,
    listeners: AtomicU64,
    dropped: AtomicU64,
}

impl Metrics {
    /// A request was answered.
    pub(crate) fn count(&self, route: &Route, status: StatusCode, took: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((route.method_name(), route.path, status.as_u16())).or_default() += 1;
        drop(requests);
        // How long somebody waited for jobs or events says nothing about the server.
        if route.waits {
            return;
        }
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        let latency = latency.entry(route.action.name()).or_insert_with(|| Histogram::new(&SECONDS));
        latency.add(took.as_secs_f64());
    }

    /// A token was not taken.
    pub(crate) fn denied(&self) {
        self.denied.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection begins, or is over.
    pub(crate) fn connected(&self, begins: bool) {
        one(&self.connections, begins);
    }

    /// Somebody listens to events, or no longer.
    pub(crate) fn listening(&self, begins: bool) {
        one(&self.listeners, begins);
    }

    /// A listener was too slow.
    pub(crate) fn dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// One more, or one less.
fn one(count: &AtomicU64, begins: bool) {
    match begins {
        true => count.fetch_add(1, Ordering::Relaxed),
        false => count.fetch_sub(1, Ordering::Relaxed),
    };
}

/// All of it as text.
pub(crate) async fn render(app: &App) -> String {
    // The server is looked at most when the database is in trouble: then all else is told without it.
    let jobs = tokio::time::timeout(PATIENCE, app.bursar.job_counts()).await.ok().and_then(Result::ok);
    let mut page = Page::default();
    page.family("bursar_build_info");
    page.sample("bursar_build_info", &format!("version=\"{}\"", env!("CARGO_PKG_VERSION")), 1);
    of_server(app, &mut page);
    of_engine(app, &mut page);
    page.one("bursar_database_up", u64::from(jobs.is_some()));
    if let Some(jobs) = jobs {
        page.family("bursar_jobs");
        for state in JobState::ALL {
            let count: i64 = jobs.iter().filter(|(of, _)| *of == state).map(|(_, count)| count).sum();
            page.sample("bursar_jobs", &format!("state=\"{state}\""), count);
        }
    }
    for (name, _, count) in app.metering.meter.counters().each() {
        page.one(&format!("bursar_meter_{name}_total"), count);
    }
    of_process(&mut page);
    page.0
}

fn of_server(app: &App, page: &mut Page) {
    let (metrics, limits) = (&app.metrics, &app.limits);
    let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
    page.family("bursar_http_requests_total");
    for ((method, route, status), count) in metrics.requests.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let labels = format!("method=\"{method}\",route=\"{route}\",status=\"{status}\"");
        page.sample("bursar_http_requests_total", &labels, *count);
    }
    page.family("bursar_http_request_seconds");
    for (action, latency) in metrics.latency.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        page.distribution("bursar_http_request_seconds", &format!("action=\"{action}\""), &latency.read());
    }
    let (requests, waiting) = app.places.taken(limits);
    page.one("bursar_http_requests", requests);
    page.one("bursar_http_waiting", waiting);
    page.one("bursar_http_connections", load(&metrics.connections));
    page.one("bursar_http_bytes_in_flight", app.bytes.total());
    page.one("bursar_limit_bytes", limits.bytes);
    page.one("bursar_limit_requests", limits.requests);
    page.one("bursar_limit_waiting", limits.waiting);
    page.one("bursar_limit_connections", limits.connections);
    page.one("bursar_denied_total", load(&metrics.denied));
    page.one("bursar_event_listeners", load(&metrics.listeners));
    page.one("bursar_event_listeners_dropped_total", load(&metrics.dropped));
}

fn of_engine(app: &App, page: &mut Page) {
    let (counters, vitals) = (app.bursar.counters(), app.bursar.vitals());
    page.one("bursar_commands_done_total", counters.done);
    page.one("bursar_commands_refused_total", counters.refused);
    page.one("bursar_commands_failed_total", counters.failed);
    page.one("bursar_commands_waiting", vitals.waiting);
    page.one("bursar_batches_total", counters.batches);
    page.family("bursar_batch_size");
    page.distribution("bursar_batch_size", "", &vitals.batch_size);
    page.family("bursar_commit_seconds");
    page.distribution("bursar_commit_seconds", "", &vitals.commit_seconds);
    page.one("bursar_lease_waiters", vitals.lease_waiters);
    page.one("bursar_bells_total", counters.bells);
    page.one("bursar_hints_total", counters.hints);
    page.one("bursar_rings_total", counters.rings);
}

/// Ticks of a second in `/proc`, for all programs on Linux.
const TICKS: f64 = 100.0;

/// What Linux says of this process; elsewhere nothing.
fn of_process(page: &mut Page) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).ok();
    let resident = read("status").and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    });
    if let Some(kibibytes) = resident {
        page.one("bursar_process_resident_bytes", kibibytes << 10);
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        page.one("bursar_process_open_files", files.count());
    }
    let computed = read("stat").and_then(|stat| {
        // The name, in parentheses, may hold anything; the eleventh and twelfth field after the state are counted in ticks.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        Some(fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?)
    });
    if let Some(ticks) = computed {
        page.one("bursar_process_cpu_seconds_total", ticks / TICKS);
    }
}

/// The text of all metrics.
#[derive(Default)]
struct Page(String);

impl Page {
    /// Begins a metric, as it is declared.
    fn family(&mut self, name: &str) {
        let (_, kind, says) = METRICS.iter().find(|(known, ..)| *known == name).expect("every metric is declared");
        let _ = write!(self.0, "# HELP {name} {says}\n# TYPE {name} {kind}\n");
    }

    /// A metric without labels.
    fn one(&mut self, name: &str, value: impl std::fmt::Display) {
        self.family(name);
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name}{{{labels}}} {value}");
    }

    fn distribution(&mut self, name: &str, labels: &str, read: &Distribution) {
        let before = if labels.is_empty() { String::new() } else { format!("{labels},") };
        let own = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        for (bound, count) in &read.buckets {
            self.sample(&format!("{name}_bucket"), &format!("{before}le=\"{bound}\""), *count);
        }
        self.sample(&format!("{name}_bucket"), &format!("{before}le=\"+Inf\""), read.count);
        let _ = write!(self.0, "{name}_sum{own} {}\n{name}_count{own} {}\n", read.sum, read.count);
    }
}
