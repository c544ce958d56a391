//! Health, metrics, and the document of all this.

use axum::http::Method;
use std::time::Duration;

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
        Route::new(Method::GET, "/livez", Action::Public, "The process answers", live),
        Route::new(
            Method::GET,
            "/readyz",
            Action::Public,
            "The database answers, and the server takes requests",
            ready,
        ),
        Route::new(Method::GET, "/metrics", Action::MetricsRead, "Figures, as Prometheus reads them", metrics),
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
    let unready = || Problem::new(Kind::Unavailable, "not ready").retry_after(Duration::from_secs(1));
    if ask.call.app.is_stopping() {
        return Err(unready());
    }
    match tokio::time::timeout(PATIENCE, ask.call.app.bursar.now()).await {
        Ok(Ok(_)) => Ok(Reply::new(HealthAnswer { status: "ok" })),
        _ => Err(unready()),
    }
}

async fn metrics(ask: Ask) -> Result<Text<PLAIN>, Problem> {
    Ok(Text(crate::metrics::render(&ask.call.app).await))
}

async fn document(ask: Ask) -> Result<Text<DOCUMENT>, Problem> {
    Ok(Text(ask.call.app.document().to_owned()))
}

async fn show(_: Ask) -> Result<Text<HTML>, Problem> {
    Ok(Text(page::PAGE.to_owned()))
}
