//! Metrics in the Prometheus text format. No label contains a tenant or an id. The names of some queues are labels, a bounded
//! number of them.

mod queues;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use bursar::{Distribution, Histogram, Incidents, Removed};

use crate::app::App;
use crate::route::Route;

/// How long the database may take to return the load of queues.
const COUNT_TIMEOUT: Duration = Duration::from_secs(2);

/// Upper bounds of the latency buckets, in seconds.
const SECONDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0];

/// Every metric: name, Prometheus type, help text.
const METRICS: [(&str, &str, &str); 65] = [
    ("bursar_build_info", "gauge", "Always 1; the label `version` is the version of Bursar."),
    ("bursar_http_requests_total", "counter", "HTTP requests answered, by method, route and status."),
    (
        "bursar_http_request_seconds",
        "histogram",
        "Latency of HTTP requests by action, excluding requests that wait for jobs or listen to events.",
    ),
    ("bursar_http_requests", "gauge", "HTTP requests running, excluding waiting ones; limited by `limits.requests`."),
    (
        "bursar_http_waiting",
        "gauge",
        "HTTP requests that wait for jobs or listen to events; limited by `limits.waiting`.",
    ),
    ("bursar_http_connections", "gauge", "Open connections; limited by `limits.connections`."),
    (
        "bursar_http_bytes_in_flight",
        "gauge",
        "Bytes of bodies, responses and events in memory; limited by `limits.bytes`.",
    ),
    ("bursar_denied_total", "counter", "Requests with an invalid token."),
    ("bursar_jwks_keys", "gauge", "Usable keys in the key set of user tokens; 0 if none is configured."),
    (
        "bursar_jwks_readings_total",
        "counter",
        "Readings of the key set of user tokens, by result; after `failed`, the last set stays in use.",
    ),
    (
        "bursar_otlp_spans_total",
        "counter",
        "OpenTelemetry spans, by result: `exported`, `dropped` because the queue was full, `failed` if the receiver did not take them.",
    ),
    ("bursar_commands_done_total", "counter", "Requests that the engine completed."),
    (
        "bursar_commands_refused_total",
        "counter",
        "Requests that the engine refused because of a limit, a freeze, a grant or the current state.",
    ),
    (
        "bursar_commands_failed_total",
        "counter",
        "Requests that failed for technical reasons: database busy or unavailable, engine queue full.",
    ),
    ("bursar_commands_waiting", "gauge", "Requests waiting for a commit; limited by `engine.queue`."),
    (
        "bursar_batches_total",
        "counter",
        "Batches started; a batch is one transaction for all requests waiting at that time.",
    ),
    ("bursar_batch_size", "histogram", "Requests per batch."),
    ("bursar_commit_seconds", "histogram", "Duration of a batch, from its first read to its durable commit."),
    ("bursar_removed_total", "counter", "Rows that this node deleted because they were kept for long enough, by kind."),
    (
        "bursar_archive_position",
        "gauge",
        "Last position of the journal that this node knows to be archived; 0 if there is no archive.",
    ),
    ("bursar_archive_bytes_total", "counter", "Bytes of the journal's segments that this node wrote to the archive."),
    (
        "bursar_archive_failures_total",
        "counter",
        "Attempts to archive the journal in the background that failed on this node and are repeated.",
    ),
    ("bursar_meter_admitted_total", "counter", "Metered requests charged to a quota and served."),
    (
        "bursar_meter_sliced_total",
        "counter",
        "Metered requests admitted from memory; they are among the admitted ones.",
    ),
    ("bursar_meter_slices_total", "counter", "Holds placed to admit requests from memory."),
    ("bursar_meter_exceeded_total", "counter", "Metered requests refused because their caller's quota was exhausted."),
    ("bursar_meter_bypassed_total", "counter", "Metered requests that cost nothing."),
    ("bursar_meter_rejected_total", "counter", "Metered requests whose signature was missing or refused."),
    ("bursar_meter_failed_open_total", "counter", "Metered requests served although the quota could not be checked."),
    ("bursar_meter_failed_closed_total", "counter", "Metered requests refused because the quota could not be checked."),
    ("bursar_meter_abandoned_total", "counter", "Metered requests settled after their caller had disconnected."),
    ("bursar_meter_unsettled_total", "counter", "Metered requests whose hold could not be settled after the response."),
    (
        "bursar_meter_unasked_total",
        "counter",
        "Actual costs that were ignored because the operation has only one phase.",
    ),
    ("bursar_lease_waiters", "gauge", "Lease requests waiting for jobs on this node."),
    (
        "bursar_refusals_total",
        "counter",
        "Requests that the engine refused on this node, by reason; dry runs do not count.",
    ),
    ("bursar_overruns_total", "counter", "Holds committed on this node with more than they held."),
    ("bursar_late_commits_total", "counter", "Holds committed on this node after their expiry."),
    (
        "bursar_budget_trips_total",
        "counter",
        "Budgets that a commit of this node froze: their spend passed a trip limit.",
    ),
    ("bursar_budget_freezes_total", "counter", "Budgets that callers of this node froze."),
    (
        "bursar_shadow_refusals_total",
        "counter",
        "Limits and freezes of budgets in shadow mode that would have refused a request on this node.",
    ),
    ("bursar_queues", "gauge", "Queues of all tenants that have jobs; at most 10,000 are counted."),
    (
        "bursar_queues_without_figures",
        "gauge",
        "Queues above the first 1,000: their jobs count, but not their failures, waiting jobs and leases.",
    ),
    ("bursar_queue_jobs", "gauge", "Jobs by queue and state."),
    ("bursar_queue_failed_attempts", "gauge", "Attempts that failed in the last 60 minutes, by queue."),
    (
        "bursar_queue_oldest_ready_seconds",
        "gauge",
        "For how long the job that has waited longest for a worker has been due, by queue; 0 if none waits.",
    ),
    ("bursar_queue_oldest_lease_seconds", "gauge", "Age of the oldest current lease, by queue; 0 without a lease."),
    ("bursar_jobs", "gauge", "Jobs by state, of all tenants and nodes; finished jobs count until they are deleted."),
    (
        "bursar_database_up",
        "gauge",
        "1 if the database answered this scrape; otherwise 0, and the metrics of jobs and queues are absent.",
    ),
    ("bursar_bells_total", "counter", "Polls of the database for changes while lease requests wait."),
    ("bursar_hints_total", "counter", "Wake-up notifications received from other nodes."),
    ("bursar_rings_total", "counter", "Wake-up notifications sent to other nodes."),
    ("bursar_event_listeners", "gauge", "Open event streams."),
    ("bursar_event_listeners_dropped_total", "counter", "Event streams closed because their client read too slowly."),
    (
        "bursar_blob_uploads_total",
        "counter",
        "Uploads that ended with a blob on this node; `result` is `stored`, or `found` if the bytes were there already.",
    ),
    ("bursar_blob_received_bytes_total", "counter", "Bytes of uploads that this node received, also of failed ones."),
    (
        "bursar_blob_sent_bytes_total",
        "counter",
        "Bytes of blobs that this node sent; redirected downloads do not count.",
    ),
    ("bursar_blob_collected_total", "counter", "Blobs whose bytes this node deleted because nothing needed them."),
    (
        "bursar_blob_collection_failures_total",
        "counter",
        "Collections in the background that failed on this node and are tried again.",
    ),
    ("bursar_limit_requests", "gauge", "Limit on running requests (`limits.requests`)."),
    ("bursar_limit_waiting", "gauge", "Limit on waiting requests (`limits.waiting`)."),
    ("bursar_limit_connections", "gauge", "Limit on connections (`limits.connections`)."),
    ("bursar_limit_bytes", "gauge", "Limit on bytes in flight (`limits.bytes`)."),
    ("bursar_process_resident_bytes", "gauge", "Resident memory of the process (Linux)."),
    ("bursar_process_open_files", "gauge", "Open file descriptors of the process, including sockets (Linux)."),
    ("bursar_process_cpu_seconds_total", "counter", "CPU time used by the process (Linux)."),
];

/// Returns the table of metrics for `docs/observability.md`.
pub fn markdown() -> String {
    let mut text = String::from("| metric | type | meaning |\n| --- | --- | --- |\n");
    for (name, kind, help) in METRICS {
        let _ = writeln!(text, "| `{name}` | {kind} | {help} |");
    }
    text
}

/// Counters of the HTTP server since its start.
#[derive(Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<(&'static str, &'static str, u16), u64>>,
    latency: Mutex<BTreeMap<&'static str, Histogram>>,
    denied: AtomicU64,
    connections: AtomicU64,
    listeners: AtomicU64,
    dropped: AtomicU64,
    pub(crate) blobs: BlobMetrics,
}

/// Counters of blobs since the start of the server.
#[derive(Default)]
pub(crate) struct BlobMetrics {
    stored: AtomicU64,
    found: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    collected: AtomicU64,
    collection_failures: AtomicU64,
}

impl BlobMetrics {
    /// Counts an upload that ended with a blob; `found` if the bytes were there already.
    pub(crate) fn uploaded(&self, found: bool) {
        let count = if found { &self.found } else { &self.stored };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts bytes of an upload.
    pub(crate) fn received(&self, bytes: usize) {
        self.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes of a download.
    pub(crate) fn sent(&self, bytes: usize) {
        self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts blobs that were collected.
    pub(crate) fn collected(&self, blobs: usize) {
        self.collected.fetch_add(blobs as u64, Ordering::Relaxed);
    }

    /// Counts a collection that failed.
    pub(crate) fn collection_failed(&self) {
        self.collection_failures.fetch_add(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Counts an answered request.
    pub(crate) fn count(&self, route: &Route, status: StatusCode, took: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((route.method_name(), route.path, status.as_u16())).or_default() += 1;
        drop(requests);
        // The duration of a wait for jobs or events is chosen by the client.
        if route.waits {
            return;
        }
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        let latency = latency.entry(route.action.name()).or_insert_with(|| Histogram::new(&SECONDS));
        latency.add(took.as_secs_f64());
    }

    /// Counts an invalid token.
    pub(crate) fn denied(&self) {
        self.denied.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that opens (`true`) or closes (`false`).
    pub(crate) fn connection(&self, opens: bool) {
        step(&self.connections, opens);
    }

    /// Counts an event stream that opens (`true`) or closes (`false`).
    pub(crate) fn listener(&self, opens: bool) {
        step(&self.listeners, opens);
    }

    /// Counts an event stream that was closed because its client read too slowly.
    pub(crate) fn dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Adds one to a gauge, or subtracts one.
fn step(gauge: &AtomicU64, up: bool) {
    match up {
        true => gauge.fetch_add(1, Ordering::Relaxed),
        false => gauge.fetch_sub(1, Ordering::Relaxed),
    };
}

/// Renders all metrics as text.
pub(crate) async fn render(app: &App) -> String {
    // Metrics matter most when the database fails, so its failure leaves out only the job counts.
    let queues = app.bursar.all_queues(app.limits.metric_queues);
    let queues = tokio::time::timeout(COUNT_TIMEOUT, queues).await.ok().and_then(Result::ok);
    let mut page = Page::default();
    page.family("bursar_build_info");
    page.sample("bursar_build_info", &format!("version=\"{}\"", env!("CARGO_PKG_VERSION")), 1);
    server_metrics(app, &mut page);
    engine_metrics(app, &mut page);
    page.value("bursar_database_up", u64::from(queues.is_some()));
    if let Some(queues) = queues {
        queues::write(&queues, &mut page);
    }
    for (name, _, count) in app.metering.meter.counters().each() {
        page.value(&format!("bursar_meter_{name}_total"), count);
    }
    process_metrics(&mut page);
    page.0
}

fn server_metrics(app: &App, page: &mut Page) {
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
    let (requests, waiting) = app.slots.in_use(limits);
    page.value("bursar_http_requests", requests);
    page.value("bursar_http_waiting", waiting);
    page.value("bursar_http_connections", load(&metrics.connections));
    page.value("bursar_http_bytes_in_flight", app.bytes.total());
    page.value("bursar_limit_bytes", limits.bytes);
    page.value("bursar_limit_requests", limits.requests);
    page.value("bursar_limit_waiting", limits.waiting);
    page.value("bursar_limit_connections", limits.connections);
    page.value("bursar_denied_total", load(&metrics.denied));
    let (keys, readings) = app.token_keys.jwks.as_ref().map(|jwks| jwks.figures()).unwrap_or_default();
    page.value("bursar_jwks_keys", keys);
    page.family("bursar_jwks_readings_total");
    page.sample("bursar_jwks_readings_total", "result=\"good\"", readings.good);
    page.sample("bursar_jwks_readings_total", "result=\"failed\"", readings.failed);
    let spans = app.otlp.as_ref().map(|otlp| otlp.counts()).unwrap_or_default();
    page.family("bursar_otlp_spans_total");
    for (result, count) in [("exported", spans.exported), ("dropped", spans.dropped), ("failed", spans.failed)] {
        page.sample("bursar_otlp_spans_total", &format!("result=\"{result}\""), count);
    }
    page.value("bursar_event_listeners", load(&metrics.listeners));
    page.value("bursar_event_listeners_dropped_total", load(&metrics.dropped));
    let blobs = &metrics.blobs;
    page.family("bursar_blob_uploads_total");
    page.sample("bursar_blob_uploads_total", "result=\"stored\"", load(&blobs.stored));
    page.sample("bursar_blob_uploads_total", "result=\"found\"", load(&blobs.found));
    page.value("bursar_blob_received_bytes_total", load(&blobs.received_bytes));
    page.value("bursar_blob_sent_bytes_total", load(&blobs.sent_bytes));
    page.value("bursar_blob_collected_total", load(&blobs.collected));
    page.value("bursar_blob_collection_failures_total", load(&blobs.collection_failures));
}

fn engine_metrics(app: &App, page: &mut Page) {
    let (counters, vitals) = (app.bursar.counters(), app.bursar.vitals());
    page.value("bursar_commands_done_total", counters.done);
    page.value("bursar_commands_refused_total", counters.refused);
    page.value("bursar_commands_failed_total", counters.failed);
    page.family("bursar_refusals_total");
    for (reason, count) in app.bursar.refusal_reasons() {
        page.sample("bursar_refusals_total", &format!("reason=\"{}\"", reason.as_str()), count);
    }
    let Incidents { overruns, late_commits, trips, freezes, shadow_refusals } = app.bursar.incidents();
    page.value("bursar_overruns_total", overruns);
    page.value("bursar_late_commits_total", late_commits);
    page.value("bursar_budget_trips_total", trips);
    page.value("bursar_budget_freezes_total", freezes);
    page.value("bursar_shadow_refusals_total", shadow_refusals);
    page.value("bursar_commands_waiting", vitals.waiting);
    page.value("bursar_batches_total", counters.batches);
    page.family("bursar_batch_size");
    page.distribution("bursar_batch_size", "", &vitals.batch_size);
    page.family("bursar_commit_seconds");
    page.distribution("bursar_commit_seconds", "", &vitals.commit_seconds);
    let Removed { keys, holds, grants, jobs, scopes, costs } = app.bursar.removed();
    page.family("bursar_removed_total");
    let kinds =
        [("keys", keys), ("holds", holds), ("grants", grants), ("jobs", jobs), ("scopes", scopes), ("costs", costs)];
    for (kind, count) in kinds {
        page.sample("bursar_removed_total", &format!("kind=\"{kind}\""), count);
    }
    let archived = app.bursar.journal().archive_counts();
    page.value("bursar_archive_position", archived.position);
    page.value("bursar_archive_bytes_total", archived.bytes);
    page.value("bursar_archive_failures_total", archived.failures);
    page.value("bursar_lease_waiters", vitals.lease_waiters);
    page.value("bursar_bells_total", counters.polls);
    page.value("bursar_hints_total", counters.notifications_received);
    page.value("bursar_rings_total", counters.notifications_sent);
}

/// Clock ticks per second in `/proc`, a constant of Linux's user-space interface.
const TICKS: f64 = 100.0;

/// Adds memory, files and CPU time of this process, read from `/proc`; nothing on systems without it.
fn process_metrics(page: &mut Page) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).ok();
    let resident = read("status").and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    });
    if let Some(kibibytes) = resident {
        page.value("bursar_process_resident_bytes", kibibytes << 10);
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        page.value("bursar_process_open_files", files.count());
    }
    let cpu_ticks = read("stat").and_then(|stat| {
        // The process name, in parentheses, may contain blanks, so fields are counted after it: `utime` and `stime` are the 12th
        // and 13th.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        Some(fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?)
    });
    if let Some(ticks) = cpu_ticks {
        page.value("bursar_process_cpu_seconds_total", ticks / TICKS);
    }
}

/// The metrics page, as text.
#[derive(Default)]
struct Page(String);

impl Page {
    /// Writes the help and type lines of a metric.
    fn family(&mut self, name: &str) {
        let (_, kind, help) = METRICS.iter().find(|(known, ..)| *known == name).expect("every metric is declared");
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// Writes a metric without labels.
    fn value(&mut self, name: &str, value: impl std::fmt::Display) {
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
