//! The router, built from the list of routes, and the problems for unknown paths and methods.

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, MatchedPath, Request};
use axum::http::{HeaderValue, header};
use axum::routing::{MethodFilter, on};

use crate::app::App;
use crate::pipeline;
use crate::reply;
use crate::trace::Trace;
use crate::wire::problem::{Kind, Problem};

/// Longest part of an unknown path that the problem repeats, in characters.
const SHOWN_PATH_MAX: usize = 200;

/// Builds the router from the list of routes.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    for route in &app.routes {
        let filter = MethodFilter::try_from(route.method.clone()).expect("routes use standard methods");
        let (app, route) = (app.clone(), route.clone());
        let path = route.path;
        let answer = move |request: Request| {
            let (app, route) = (app.clone(), route.clone());
            async move { pipeline::run(app, route, request).await }
        };
        router = router.route(path, on(filter, answer));
    }
    let methods = Arc::new(app.methods());
    router
        .fallback(|request: Request| async move {
            let accepts = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
            if accepts.is_some_and(|accept| accept.contains("text/html")) && !request.uri().path().starts_with("/v1/") {
                return bursar_dashboard::not_found();
            }
            let path: String = request.uri().path().chars().take(SHOWN_PATH_MAX).collect();
            let problem = Problem::new(Kind::NotFound, format!("no route has the path {path}"))
                .with_hint("GET /v1/openapi.json lists all routes, and /api shows them in a browser");
            reply::problem(problem, Trace::of_request(&request).request_id())
        })
        .method_not_allowed_fallback(move |request: Request| {
            let methods = methods.clone();
            async move {
                let trace = Trace::of_request(&request);
                let detail =
                    format!("this path does not support {}; the Allow header lists its methods", request.method());
                let (mut parts, _) = request.into_parts();
                let path = MatchedPath::from_request_parts(&mut parts, &()).await;
                let mut response = reply::problem(Problem::new(Kind::MethodNotAllowed, detail), trace.request_id());
                let known = path.ok().and_then(|path| methods.get(path.as_str()).map(|methods| methods.join(", ")));
                if let Some(Ok(allow)) = known.as_deref().map(HeaderValue::from_str) {
                    response.headers_mut().insert(header::ALLOW, allow);
                }
                response
            }
        })
}
