//! Figures of the server, as Prometheus reads them. No label says a tenant or an id.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use bursar::Counters;
use bursar::meter::MeterCounters;

use crate::route::Route;

/// Where the figures of latency end, in seconds.
const BOUNDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0];

/// Figures since the start.
#[derive(Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<(&'static str, &'static str, u16), u64>>,
    latency: Mutex<BTreeMap<&'static str, Latency>>,
    denied: AtomicU64,
    listeners: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Latency {
    buckets: [u64; BOUNDS.len()],
    count: u64,
    seconds: f64,
}

impl Metrics {
    /// A request was answered.
    pub(crate) fn count(&self, route: &Route, status: StatusCode, took: Duration) {
        let method = match route.method.as_str() {
            "GET" => "GET",
            "POST" => "POST",
            "PUT" => "PUT",
            "DELETE" => "DELETE",
            _ => "PATCH",
        };
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((method, route.path, status.as_u16())).or_default() += 1;
        drop(requests);
        // How long somebody waited for jobs or events says nothing about the server.
        if route.waits {
            return;
        }
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        let latency = latency.entry(route.action.name()).or_default();
        let seconds = took.as_secs_f64();
        latency.count += 1;
        latency.seconds += seconds;
        for (bucket, bound) in latency.buckets.iter_mut().zip(BOUNDS) {
            *bucket += u64::from(seconds <= bound);
        }
    }

    /// A token was not taken.
    pub(crate) fn denied(&self) {
        self.denied.fetch_add(1, Ordering::Relaxed);
    }

    /// Somebody listens to events, or no longer.
    pub(crate) fn listening(&self, begins: bool) {
        if begins {
            self.listeners.fetch_add(1, Ordering::Relaxed);
        } else {
            self.listeners.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A listener was too slow.
    pub(crate) fn dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// All of it as text.
    pub(crate) fn render(&self, engine: Counters, meter: MeterCounters) -> String {
        let mut text = String::new();
        let plain = |text: &mut String, name: &str, kind: &str, help: &str, value: u64| {
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
        };
        plain(&mut text, "bursar_commands_done_total", "counter", "Requests the engine has done.", engine.done);
        plain(&mut text, "bursar_commands_refused_total", "counter", "Requests the rules refused.", engine.refused);
        plain(
            &mut text,
            "bursar_commands_failed_total",
            "counter",
            "Requests that failed below the rules.",
            engine.failed,
        );
        plain(&mut text, "bursar_batches_total", "counter", "Transactions they shared.", engine.batches);
        plain(
            &mut text,
            "bursar_bells_total",
            "counter",
            "Looks at the database's bell while somebody waits for jobs.",
            engine.bells,
        );
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
        plain(&mut text, "bursar_denied_total", "counter", "Tokens that were not taken.", load(&self.denied));
        plain(&mut text, "bursar_event_listeners", "gauge", "Streams of events that are open.", load(&self.listeners));
        plain(
            &mut text,
            "bursar_event_listeners_dropped_total",
            "counter",
            "Streams that were too slow.",
            load(&self.dropped),
        );
        for (name, help, count) in meter.each() {
            plain(&mut text, &format!("bursar_meter_{name}_total"), "counter", help.trim(), count);
        }
        text.push_str("# HELP bursar_http_requests_total Requests that were answered.\n# TYPE bursar_http_requests_total counter\n");
        for ((method, path, status), count) in self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = writeln!(
                text,
                "bursar_http_requests_total{{method=\"{method}\",route=\"{path}\",status=\"{status}\"}} {count}"
            );
        }
        text.push_str(
            "# HELP bursar_http_request_seconds How long answers took.\n# TYPE bursar_http_request_seconds histogram\n",
        );
        for (action, latency) in self.latency.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            for (bucket, bound) in latency.buckets.iter().zip(BOUNDS) {
                let _ =
                    writeln!(text, "bursar_http_request_seconds_bucket{{action=\"{action}\",le=\"{bound}\"}} {bucket}");
            }
            let Latency { count, seconds, .. } = latency;
            let _ = writeln!(text, "bursar_http_request_seconds_bucket{{action=\"{action}\",le=\"+Inf\"}} {count}");
            let _ = writeln!(text, "bursar_http_request_seconds_sum{{action=\"{action}\"}} {seconds}");
            let _ = writeln!(text, "bursar_http_request_seconds_count{{action=\"{action}\"}} {count}");
        }
        text
    }
}
