//! A metered service on either database.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, Method, Request};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Extension, http};
use bursar::meter::{ActualCost, Caller, CostModel, Count, Meter, MeterBuilder, Operation};
use bursar::{Bursar, Limit, ManualClock, Notices, Time};
use http_body_util::BodyExt;
use tokio::sync::Notify;
use tower::ServiceExt;

/// The full hour at which every test begins.
pub(crate) const START: i64 = 1_800_000_000;

/// Runs each test on both databases.
macro_rules! on_both_engines {
    ($($name:ident,)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name("sqlite::memory:".into()).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(bursar_testkit::fresh_database()).await;
            })*
        }
    };
}
pub(crate) use on_both_engines;

/// Returns the address of another empty database of the same engine.
pub(crate) fn another(url: &str) -> String {
    if url.starts_with("sqlite:") { url.to_owned() } else { bursar_testkit::fresh_database() }
}

/// A metered service with its instance of Bursar.
pub(crate) struct App {
    pub(crate) bursar: Bursar,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) meter: Meter,
    pub(crate) router: Router,
    pub(crate) seen: Arc<Seen>,
}

/// What the handlers have recorded.
#[derive(Default)]
pub(crate) struct Seen {
    served: AtomicUsize,
    /// Notified when a handler that never ends has started.
    pub(crate) begun: Notify,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns limit, remaining and reset from the headers.
    pub(crate) fn quota(&self) -> [i64; 3] {
        ["x-quota-limit", "x-quota-remaining", "x-quota-reset"]
            .map(|name| self.header(name).unwrap_or_else(|| panic!("{name}: {self:?}")).parse().unwrap())
    }
}

/// The costs of the service.
pub(crate) fn costs() -> CostModel {
    let operation = |name, method, path, base| Operation::new(name, method, path, base).unwrap();
    CostModel::default()
        .operation(operation("assert", Method::POST, "/claims", 10).per_kib(1))
        .operation(operation("vote", Method::POST, "/claims/{id}/vote", 1))
        .operation(operation("query", Method::GET, "/claims", 5).extra("lens", 1, Count::Query("lens".into())))
        .operation(operation("work", Method::POST, "/work", 20).two_phase())
        .operation(operation("crash", Method::POST, "/crash", 20).two_phase())
        .operation(operation("hang", Method::POST, "/hang", 20).two_phase())
        .operation(operation("stream", Method::GET, "/stream", 20).two_phase())
}

impl App {
    /// Opens the service on a database of its own, with a quota of `quota` units an hour.
    pub(crate) async fn open(url: String, quota: i64) -> App {
        App::open_with(url, |meter| meter.set(|settings| settings.quota = hourly(quota))).await
    }

    /// Opens the service with other settings.
    pub(crate) async fn open_with(url: String, set: impl FnOnce(MeterBuilder) -> MeterBuilder) -> App {
        let clock = Arc::new(ManualClock::at(Time::from_micros(START * 1_000_000)));
        let bursar = Bursar::options(&url).clock(clock.clone()).upkeep(None).open().await.unwrap();
        // A long timeout, so that a slow machine does not fail tests.
        let builder = Meter::builder(bursar.clone()).clock(clock.clone()).costs(costs());
        let builder = builder.set(|settings| settings.patience_ms = 120_000);
        let meter = set(builder).build().unwrap();
        let seen = Arc::new(Seen::default());
        let router = router(&meter, seen.clone());
        App { bursar, clock, meter, router, seen }
    }

    /// Returns the number of requests that reached a handler.
    pub(crate) fn served(&self) -> usize {
        self.seen.served.load(Ordering::SeqCst)
    }

    /// Sends a request of an agent.
    pub(crate) async fn send(&self, agent: u8, method: &str, uri: &str, body: impl Into<Body>) -> Answer {
        self.ask(request(method, uri).header("x-agent-id", key(agent)).body(body.into()).unwrap()).await
    }

    /// Sends a request.
    pub(crate) async fn ask(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        Answer { status: head.status.as_u16(), headers: head.headers, text }
    }

    /// Returns the units that an agent has posted and holds.
    pub(crate) async fn spent(&self, agent: u8) -> (i64, i64) {
        let view = self.bursar.ledger().budget(caller(agent).scope()).await.unwrap();
        let view = view.unwrap_or_else(|| panic!("agent {agent} has no budget"));
        (view.balances[0].posted, view.balances[0].held)
    }

    /// Asserts that the balances are correct, also after a rebuild from the journal.
    pub(crate) async fn books_are_right(self) {
        let standing = self.meter.status(&caller(1)).await.unwrap();
        let report = self.bursar.verify().await.unwrap();
        assert!(report.violations.is_empty(), "{report:?}");
        self.bursar.rebuild().await.unwrap();
        assert_eq!(self.meter.status(&caller(1)).await.unwrap(), standing);
        let report = self.bursar.verify().await.unwrap();
        assert!(report.violations.is_empty(), "{report:?}");
        self.bursar.close().await;
    }
}

/// Returns a limit of `units` an hour.
pub(crate) fn hourly(units: i64) -> Vec<Limit> {
    vec![Limit::new(units, "hour".parse().unwrap())]
}

pub(crate) fn request(method: &str, uri: &str) -> http::request::Builder {
    Request::builder().method(method).uri(uri)
}

/// Returns the public key of an agent.
pub(crate) fn key(agent: u8) -> String {
    format!("{agent:02x}").repeat(32)
}

pub(crate) fn caller(agent: u8) -> Caller {
    Caller::new(&key(agent)).unwrap()
}

/// Waits for an event of a kind.
pub(crate) async fn wait_for(notices: &mut Notices, kind: &str) {
    loop {
        let next = tokio::time::timeout(Duration::from_secs(120), notices.next()).await;
        let next = next.unwrap_or_else(|_| panic!("no {kind} within two minutes")).expect("open").expect("not lagging");
        if next.event().kind() == kind {
            return;
        }
    }
}

#[derive(serde::Deserialize)]
struct Work {
    cost: Option<i64>,
}

pub(crate) fn router(meter: &Meter, seen: Arc<Seen>) -> Router {
    let plain = |State(seen): State<Arc<Seen>>| async move {
        seen.served.fetch_add(1, Ordering::SeqCst);
        "served"
    };
    let read = |State(seen): State<Arc<Seen>>, body: Bytes| async move {
        seen.served.fetch_add(1, Ordering::SeqCst);
        body.len().to_string()
    };
    Router::new()
        .route("/claims", post(read).get(plain))
        .route("/claims/{id}/vote", post(plain))
        .route("/work", post(work))
        .route("/crash", post(crash))
        .route("/hang", post(hang))
        .route("/stream", get(stream))
        .route("/livez", get(plain))
        .route("/other", get(plain).post(read))
        .layer(meter.layer())
        .with_state(seen)
}

/// Reports its cost if the query has one.
async fn work(State(seen): State<Arc<Seen>>, Query(work): Query<Work>, body: Bytes) -> axum::response::Response {
    seen.served.fetch_add(1, Ordering::SeqCst);
    match work.cost {
        Some(cost) => (Extension(ActualCost::of(cost)), body).into_response(),
        None => body.into_response(),
    }
}

/// Reports its cost so far, and panics.
async fn crash(Query(work): Query<Work>, Extension(cost): Extension<ActualCost>) -> &'static str {
    work.cost.inspect(|units| cost.set(*units));
    panic!("a handler that panics")
}

/// Reports its cost so far, and never ends.
async fn hang(State(seen): State<Arc<Seen>>, Query(work): Query<Work>, Extension(cost): Extension<ActualCost>) {
    work.cost.inspect(|units| cost.set(*units));
    seen.begun.notify_one();
    std::future::pending::<()>().await;
}

/// Reports its cost with each part of the body that it sends.
async fn stream(Extension(cost): Extension<ActualCost>) -> Body {
    cost.at_end();
    let parts = (1..=3).map(move |part| {
        cost.set(part * 2);
        Ok::<_, std::io::Error>(Bytes::from(format!("part {part};")))
    });
    Body::from_stream(Parts(parts))
}

/// A stream of an iterator's items.
struct Parts<I>(I);

impl<I: Iterator + Unpin> futures_util::Stream for Parts<I> {
    type Item = I::Item;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<I::Item>> {
        std::task::Poll::Ready(self.0.next())
    }
}
