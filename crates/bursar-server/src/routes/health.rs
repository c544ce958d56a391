//! Health, metrics, and the document of all this.

use axum::http::Method;
use std::time::Duration;

use bursar::{Error, StoreError};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::call::Ask;
use crate::page;
use crate::principal::table::Action;
use crate::reply::{DOCUMENT, HTML, PLAIN, Reply, Text};
use crate::route::Route;
use crate::wire::problem::{Kind, Problem};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/livez", Action::Public, "The process answers", live).health(),
        Route::new(
            Method::GET,
            "/readyz",
            Action::Public,
            "The database answers and takes writes, and the server takes requests",
            ready,
        )
        .health(),
        Route::new(Method::GET, "/metrics", Action::MetricsRead, "Figures, as Prometheus reads them", metrics).health(),
        Route::new(Method::GET, "/v1/openapi.json", Action::Public, "This document", document),
        Route::new(Method::GET, "/", Action::Public, "The document as a page", show),
    ]
}

/// How long the database may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Serialize, JsonSchema)]
struct HealthAnswer {
    status: &'static str,
}

async fn live(_: Ask) -> Result<Reply<HealthAnswer>, Problem> {
    Ok(Reply::new(HealthAnswer { status: "ok" }))
}

async fn ready(ask: Ask) -> Result<Reply<HealthAnswer>, Problem> {
    let unready = |reason: String| Problem::new(Kind::NotReady, reason).retry_after(Duration::from_secs(1));
    if ask.call.app.is_stopping() {
        return Err(unready("the server is shutting down".into()));
    }
    match tokio::time::timeout(PATIENCE, ask.call.app.bursar.ready()).await {
        Ok(Ok(())) => Ok(Reply::new(HealthAnswer { status: "ok" })),
        Ok(Err(error)) => Err(unready(reason(&error))),
        Err(_) => Err(unready(format!("the database did not answer within {} s", PATIENCE.as_secs()))),
    }
}

/// Why the database takes no requests, in words for everybody: anybody may ask.
fn reason(error: &Error) -> String {
    let Error::Store(error) = error else { return "the server cannot be used; its log says why".into() };
    match &**error {
        StoreError::Unavailable { what, hint, .. } => format!("{what}; {hint}"),
        StoreError::Busy(_) => "the database is busy".into(),
        _ => "the database cannot be used; the log of the server says why".into(),
    }
}

async fn metrics(ask: Ask) -> Result<Text<PLAIN>, Problem> {
    Ok(Text(crate::metrics::render(&ask.call.app).await.into()))
}

async fn document(ask: Ask) -> Result<Text<DOCUMENT>, Problem> {
    Ok(Text(ask.call.app.document()))
}

async fn show(_: Ask) -> Result<Text<HTML>, Problem> {
    Ok(Text(Bytes::from_static(page::PAGE.as_bytes())))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use axum::body::Body;
    use axum::http::{Request, StatusCode};
    use bursar::{Bursar, SystemClock};
    use hyper_util::service::TowerToHyperService;

    use crate::app::App;
    use crate::entry::{self, Peer};
    use crate::limits::Limits;
    use crate::metering::Metering;
    use crate::principal::authenticate::Keys;
    use crate::principal::jwt::JwtRules;

    #[tokio::test]
    async fn a_server_that_ends_is_alive_and_not_ready() {
        let bursar = Bursar::open("sqlite::memory:").await.expect("a database in memory");
        let clock = Arc::new(SystemClock);
        let metering = Metering::new(bursar.clone(), None, clock.clone()).expect("the default meter");
        let keys = Keys::new(None, Vec::new(), JwtRules::default());
        let app = Arc::new(App::new(bursar.clone(), keys, Limits::default(), clock, metering));
        let router = TowerToHyperService::new(entry::router(&app));
        let ask = async |path: &str| {
            let request = Request::get(path).body(Body::empty()).expect("a request");
            entry::handle(&router, request, Peer(IpAddr::V4(Ipv4Addr::LOCALHOST))).await.status()
        };
        assert_eq!((ask("/livez").await, ask("/readyz").await), (StatusCode::OK, StatusCode::OK));
        app.stop();
        assert_eq!((ask("/livez").await, ask("/readyz").await), (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE));
        bursar.close().await;
    }
}
