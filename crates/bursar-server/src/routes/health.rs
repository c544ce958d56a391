//! Health, metrics, the OpenAPI document and its HTML page.

use axum::http::Method;
use std::sync::LazyLock;
use std::time::Duration;

use bursar::{Error, StoreError};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::call::Input;
use crate::principal::permissions::Action;
use crate::reply::{DOCUMENT, HTML, PLAIN, Reply, Text};
use crate::route::Route;
use crate::wire::problem::{Kind, Problem};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/livez", Action::Public, "Check that the process is running", live).health(),
        Route::new(
            Method::GET,
            "/readyz",
            Action::Public,
            "Check that the database accepts writes and the server is not shutting down",
            ready,
        )
        .health(),
        Route::new(Method::GET, "/metrics", Action::MetricsRead, "Get metrics in the Prometheus text format", metrics)
            .health(),
        Route::new(Method::GET, "/v1/openapi.json", Action::Public, "Get the OpenAPI document", document),
        Route::new(Method::GET, "/api", Action::Public, "Show the OpenAPI document as a web page", show),
    ]
}

/// The page that shows the OpenAPI document, in the look of the dashboard. It loads nothing from other hosts, so it works offline.
const API_PAGE: &str = include_str!("../api_page.html");

/// How long the database may take to answer.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Serialize, JsonSchema)]
struct HealthAnswer {
    status: &'static str,
}

async fn live(_: Input) -> Result<Reply<HealthAnswer>, Problem> {
    Ok(Reply::new(HealthAnswer { status: "ok" }))
}

async fn ready(input: Input) -> Result<Reply<HealthAnswer>, Problem> {
    let unready = |reason: String| Problem::new(Kind::NotReady, reason).retry_after(Duration::from_secs(1));
    if input.call.app.is_stopping() {
        return Err(unready("the server is shutting down".into()));
    }
    match tokio::time::timeout(DATABASE_TIMEOUT, input.call.app.bursar.ready()).await {
        Ok(Ok(())) => Ok(Reply::new(HealthAnswer { status: "ok" })),
        Ok(Err(error)) => Err(unready(reason(&error))),
        Err(_) => Err(unready(format!("the database did not answer within {} s", DATABASE_TIMEOUT.as_secs()))),
    }
}

/// Returns why the database is not ready, without internal details, because the route is public.
fn reason(error: &Error) -> String {
    let Error::Store(error) = error else { return "the server is not usable; see its log".into() };
    match &**error {
        StoreError::Unavailable { what, hint, .. } => format!("{what}; {hint}"),
        StoreError::Busy(_) => "the database is busy".into(),
        _ => "the database is not usable; see the server's log".into(),
    }
}

async fn metrics(input: Input) -> Result<Text<PLAIN>, Problem> {
    Ok(Text(crate::metrics::render(&input.call.app).await.into()))
}

async fn document(input: Input) -> Result<Text<DOCUMENT>, Problem> {
    Ok(Text(input.call.app.document()))
}

async fn show(_: Input) -> Result<Text<HTML>, Problem> {
    static PAGE: LazyLock<Bytes> = LazyLock::new(|| {
        let (style, icon) = bursar_dashboard::look();
        API_PAGE.replace("{{style}}", style).replace("{{icon}}", icon).into()
    });
    Ok(Text(PAGE.clone()))
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
    use crate::limits::Limits;
    use crate::metering::Metering;
    use crate::pipeline::{self, Peer};
    use crate::principal::authenticate::TokenKeys;
    use crate::principal::jwt::JwtRules;
    use crate::router::router;

    #[tokio::test]
    async fn a_stopping_server_is_alive_but_not_ready() {
        let bursar = Bursar::open("sqlite::memory:").await.expect("a database in memory");
        let clock = Arc::new(SystemClock);
        let metering = Metering::new(bursar.clone(), None, clock.clone()).expect("the default meter");
        let token_keys = TokenKeys::new(None, Vec::new(), JwtRules::default());
        let app = Arc::new(App::new(bursar.clone(), token_keys, Limits::default(), clock, metering));
        let router = TowerToHyperService::new(router(&app));
        let status = async |path: &str| {
            let request = Request::get(path).body(Body::empty()).expect("a request");
            pipeline::handle(&router, request, Peer(IpAddr::V4(Ipv4Addr::LOCALHOST))).await.status()
        };
        assert_eq!((status("/livez").await, status("/readyz").await), (StatusCode::OK, StatusCode::OK));
        app.stop();
        assert_eq!(
            (status("/livez").await, status("/readyz").await),
            (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE)
        );
        bursar.close().await;
    }
}
