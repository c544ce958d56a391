//! The task that sends spans in batches, and retries for a bounded time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::{HeaderValue, Method, StatusCode, header};
use bursar_client::{Body, Bytes, Http, Request, Transport};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::span::{Attributes, Span};
use super::{Otlp, OtlpSettings};

/// How often a batch is sent again.
const RETRIES_MAX: u32 = 5;
/// The longest wait between two tries, also if the receiver asks for a longer one.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// The most bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The most often that a failure is logged.
const WARNING_PAUSE: Duration = Duration::from_secs(60);

/// Sends the spans of a queue.
pub(crate) struct Exporter {
    otlp: Arc<Otlp>,
    settings: OtlpSettings,
    spans: mpsc::Receiver<Span>,
    http: Http,
    /// The attributes of this process.
    resource: Vec<Value>,
    stopping: bool,
    warned: Option<Instant>,
}

/// Why a batch was not accepted.
struct Failure {
    reason: String,
    /// Whether another try may succeed.
    again: bool,
    /// How long the receiver wants to be left alone.
    after: Option<Duration>,
}

impl Failure {
    fn passing(reason: String) -> Failure {
        Failure { reason, again: true, after: None }
    }
}

/// The answer of a receiver, as far as it concerns a sender.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Accepted {
    partial_success: Option<PartialSuccess>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialSuccess {
    /// A number, or a number as text.
    rejected_spans: Value,
}

impl Accepted {
    fn rejected(&self) -> u64 {
        let rejected = self.partial_success.as_ref().map(|partial| &partial.rejected_spans);
        let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
        rejected.and_then(number).unwrap_or_default()
    }
}

impl Exporter {
    pub(super) fn new(otlp: Arc<Otlp>, settings: OtlpSettings, spans: mpsc::Receiver<Span>) -> Exporter {
        let instance = format!("{:032x}", random(16));
        let resource = Attributes::default()
            .text("service.name", &settings.service_name)
            .text("service.version", env!("CARGO_PKG_VERSION"))
            .text("service.instance.id", &instance)
            .json();
        Exporter { otlp, settings, spans, http: Http::new(), resource, stopping: false, warned: None }
    }

    /// Sends spans until it is stopped, and then those that are queued already.
    pub(super) async fn run(mut self, mut stop: oneshot::Receiver<()>) {
        loop {
            let batch = self.gather(&mut stop).await;
            if batch.is_empty() {
                return;
            }
            self.deliver(&batch, &mut stop).await;
        }
    }

    /// Returns the next batch: it is full, or its first span has waited long enough. It is empty only at the end.
    async fn gather(&mut self, stop: &mut oneshot::Receiver<()>) -> Vec<Span> {
        let (mut batch, mut due) = (Vec::new(), None);
        while batch.len() < self.settings.batch.max(1) {
            if self.stopping {
                let Ok(span) = self.spans.try_recv() else { break };
                batch.push(span);
                continue;
            }
            let waited = async move {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = &mut *stop => self.stopping = true,
                () = waited => break,
                Some(span) = self.spans.recv() => {
                    due = due.or_else(|| Some(Instant::now() + self.settings.delay));
                    batch.push(span);
                }
            }
        }
        batch
    }

    /// Sends a batch until it is accepted, rejected, or was tried often enough.
    async fn deliver(&mut self, batch: &[Span], stop: &mut oneshot::Receiver<()>) {
        let body = self.encode(batch);
        let mut pause = self.settings.retry;
        for retries in 0.. {
            let sent = timeout(self.settings.timeout, self.send(body.clone())).await;
            let failure = match sent.unwrap_or_else(|_| Err(Failure::passing("no answer in time".to_owned()))) {
                Ok(accepted) => {
                    let rejected = accepted.rejected().min(batch.len() as u64);
                    self.otlp.exported.fetch_add(batch.len() as u64 - rejected, Ordering::Relaxed);
                    if rejected > 0 {
                        self.fail(rejected, "the receiver has rejected spans");
                    }
                    return;
                }
                Err(failure) => failure,
            };
            if !failure.again || retries == RETRIES_MAX || self.stopping {
                self.fail(batch.len() as u64, &failure.reason);
                return;
            }
            self.warn(&failure.reason, "sending OpenTelemetry spans failed, retrying");
            let wait = failure.after.unwrap_or_else(|| jittered(pause)).min(RETRY_MAX);
            pause = (pause * 2).min(RETRY_MAX);
            tokio::select! {
                () = sleep(wait) => {}
                // The last try.
                _ = &mut *stop => self.stopping = true,
            }
        }
    }

    fn fail(&mut self, spans: u64, reason: &str) {
        self.otlp.failed.fetch_add(spans, Ordering::Relaxed);
        self.warn(reason, "OpenTelemetry spans are lost");
    }

    /// Logs a failure, not too often.
    fn warn(&mut self, reason: &str, what: &str) {
        let now = Instant::now();
        if self.warned.is_none_or(|warned| now - warned >= WARNING_PAUSE) {
            self.warned = Some(now);
            let counts = self.otlp.counts();
            tracing::warn!(reason, failed = counts.failed, dropped = counts.dropped, "{what}");
        }
    }

    fn encode(&self, batch: &[Span]) -> Bytes {
        let scope = json!({ "name": "bursar", "version": env!("CARGO_PKG_VERSION") });
        let spans: Vec<Value> = batch.iter().map(Span::json).collect();
        let of_resource =
            json!({ "resource": { "attributes": self.resource }, "scopeSpans": [{ "scope": scope, "spans": spans }] });
        json!({ "resourceSpans": [of_resource] }).to_string().into()
    }

    async fn send(&self, body: Bytes) -> Result<Accepted, Failure> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.settings.address.clone();
        let headers = request.headers_mut();
        headers.extend(self.settings.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let response = self.http.send(request).await.map_err(|error| Failure::passing(error.to_string()))?;
        let status = response.status();
        if status.is_success() {
            // An answer that cannot be read was still an acceptance.
            let text = read(response.into_body()).await.unwrap_or_default();
            return Ok(serde_json::from_slice(&text).unwrap_or_default());
        }
        let again = [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::BAD_GATEWAY,
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::GATEWAY_TIMEOUT,
        ];
        let after = response.headers().get(header::RETRY_AFTER).and_then(|after| after.to_str().ok()?.parse().ok());
        let reason = format!("the receiver has answered {}", status.as_u16());
        Err(Failure { reason, again: again.contains(&status), after: after.map(Duration::from_secs) })
    }
}

/// Reads an answer, up to a bound. Returns `None` if it is longer or breaks off.
async fn read(mut body: Body) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        if text.len() + data.len() > ANSWER_BYTES_MAX {
            return None;
        }
        text.extend(data);
    }
    Some(text)
}

/// Returns a wait of up to half as much more, so that nodes do not retry at the same time.
fn jittered(wait: Duration) -> Duration {
    let part = (random(2) & 0xffff) as u32;
    wait + wait / 2 * part / 0xffff
}

/// Returns random bytes as a number.
fn random(bytes: usize) -> u128 {
    let mut random = [0; 16];
    // Without randomness, nodes have one id and retry at the same time, which is no reason to fail.
    let _ = getrandom::fill(&mut random[..bytes]);
    u128::from_le_bytes(random)
}
