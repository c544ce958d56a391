//! A receiver of OTLP over HTTP that reads requests strictly: an unknown field or a number in the wrong form fails.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Response};
use axum::routing::post;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

/// Longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExportTraceServiceRequest {
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResourceSpans {
    resource: Resource,
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Resource {
    attributes: Vec<KeyValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScopeSpans {
    scope: Scope,
    spans: Vec<WireSpan>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Scope {
    name: String,
    version: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireSpan {
    trace_id: String,
    span_id: String,
    parent_span_id: Option<String>,
    flags: u32,
    name: String,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<KeyValue>,
    #[serde(default)]
    links: Vec<Link>,
    status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Link {
    pub(crate) trace_id: String,
    pub(crate) span_id: String,
    pub(crate) flags: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Status {
    pub(crate) code: u8,
    pub(crate) message: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyValue {
    key: String,
    value: AnyValue,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum AnyValue {
    StringValue(String),
    IntValue(String),
}

/// A span as it was received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    pub(crate) name: String,
    pub(crate) kind: u8,
    pub(crate) began: i64,
    pub(crate) ended: i64,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) links: Vec<Link>,
    pub(crate) status: Option<Status>,
}

impl Received {
    /// Returns an attribute, or nothing.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }
}

/// What the receiver answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Accept,
    /// A status, and the seconds of `Retry-After`.
    Status(u16, Option<u32>),
    /// It rejects this number of spans.
    Reject(u32),
    /// It accepts the spans when it is told to.
    Wait,
}

#[derive(Default)]
struct State {
    answers: VecDeque<Answer>,
    requests: Vec<(HeaderMap, String)>,
    spans: Vec<Received>,
}

/// A running receiver.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) endpoint: String,
    state: Arc<Mutex<State>>,
    accepted: watch::Sender<usize>,
    asked: watch::Sender<usize>,
    release: Arc<Notify>,
}

impl Receiver {
    /// Starts a receiver with its first answers. It accepts everything after them.
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Receiver {
            endpoint: format!("http://{}", listener.local_addr().unwrap()),
            state: Arc::new(Mutex::new(State { answers: answers.into_iter().collect(), ..State::default() })),
            accepted: watch::Sender::new(0),
            asked: watch::Sender::new(0),
            release: Arc::default(),
        };
        let shared = receiver.clone();
        let take = move |headers: HeaderMap, body: String| {
            let receiver = shared.clone();
            async move { receiver.take(headers, body).await }
        };
        let router = Router::new().route("/v1/traces", post(take));
        tokio::spawn(async move { axum::serve(listener, router).await });
        receiver
    }

    async fn take(&self, headers: HeaderMap, body: String) -> Response<Body> {
        assert_eq!(headers["content-type"], "application/json");
        let spans = spans(&body);
        let count = spans.len();
        let answer = {
            let mut state = self.state.lock().unwrap();
            state.requests.push((headers, body));
            state.answers.pop_front().unwrap_or(Answer::Accept)
        };
        self.asked.send_modify(|asked| *asked += 1);
        let json = |text: String| Response::builder().header("content-type", "application/json").body(text.into());
        if let Answer::Status(status, after) = answer {
            let response = Response::builder().status(status);
            let response = after.into_iter().fold(response, |response, after| response.header("retry-after", after));
            return response.body(Body::empty()).unwrap();
        }
        if let Answer::Wait = answer {
            self.release.notified().await;
        }
        self.state.lock().unwrap().spans.extend(spans);
        self.accepted.send_modify(|accepted| *accepted += count);
        match answer {
            Answer::Reject(rejected) => {
                json(format!("{{\"partialSuccess\":{{\"rejectedSpans\":\"{rejected}\",\"errorMessage\":\"no\"}}}}"))
            }
            _ => json("{\"partialSuccess\":{}}".to_owned()),
        }
        .unwrap()
    }

    /// Lets a request that waits for its answer go on.
    pub(crate) fn release(&self) {
        self.release.notify_one();
    }

    /// Waits for a number of requests.
    pub(crate) async fn asked(&self, count: usize) {
        let mut asked = self.asked.subscribe();
        let waited = tokio::time::timeout(PATIENCE, asked.wait_for(|asked| *asked >= count)).await;
        waited.expect("the receiver is asked").unwrap();
    }

    /// Waits until a number of spans was accepted; returns all of them, in the order of their beginning.
    pub(crate) async fn spans(&self, count: usize) -> Vec<Received> {
        let mut accepted = self.accepted.subscribe();
        let waited = tokio::time::timeout(PATIENCE, accepted.wait_for(|accepted| *accepted >= count)).await;
        assert!(waited.is_ok(), "{count} spans are awaited: {:#?}", self.received());
        self.received()
    }

    /// Returns the spans that were accepted so far, in the order of their beginning.
    pub(crate) fn received(&self) -> Vec<Received> {
        let mut spans = self.state.lock().unwrap().spans.clone();
        spans.sort_by_key(|span| span.began);
        spans
    }

    /// Returns the requests so far, also those that were not accepted.
    pub(crate) fn requests(&self) -> Vec<(HeaderMap, String)> {
        self.state.lock().unwrap().requests.clone()
    }
}

/// Reads a request strictly.
fn spans(body: &str) -> Vec<Received> {
    let request: ExportTraceServiceRequest =
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
    let mut received = Vec::new();
    for of_resource in request.resource_spans {
        let resource = attributes(of_resource.resource.attributes);
        assert_eq!(resource["service.name"], "bursar-test");
        assert_eq!((resource["service.version"].is_empty(), resource["service.instance.id"].len()), (false, 32));
        for of_scope in of_resource.scope_spans {
            assert!(of_scope.scope.name == "bursar" && !of_scope.scope.version.is_empty());
            received.extend(of_scope.spans.into_iter().map(read_span));
        }
    }
    received
}

fn read_span(span: WireSpan) -> Received {
    let hex = |text: &str, digits: usize| {
        let good = text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        assert!(good && text.bytes().any(|byte| byte != b'0'), "{text}");
    };
    hex(&span.trace_id, 32);
    hex(&span.span_id, 16);
    span.parent_span_id.iter().for_each(|parent| hex(parent, 16));
    assert_eq!(span.flags & 1, 1, "an exported span is sampled");
    let [began, ended] = [span.start_time_unix_nano, span.end_time_unix_nano].map(|nanos| nanos.parse().unwrap());
    assert!(began <= ended, "{}", span.name);
    Received {
        trace: span.trace_id,
        id: span.span_id,
        parent: span.parent_span_id,
        name: span.name,
        kind: span.kind,
        began,
        ended,
        attributes: attributes(span.attributes),
        links: span.links,
        status: span.status,
    }
}

fn attributes(list: Vec<KeyValue>) -> BTreeMap<String, String> {
    let read = |KeyValue { key, value }| match value {
        AnyValue::StringValue(text) => (key, text),
        AnyValue::IntValue(number) => {
            number.parse::<i64>().unwrap();
            (key, number)
        }
    };
    list.into_iter().map(read).collect()
}
