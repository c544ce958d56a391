//! Serves the dashboard beside the API. Its pages call the routes of this server without a network.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use axum::middleware::map_request;
use bursar::Time;
use bursar_client::{Bytes, TransportError};
use bursar_dashboard::{Api, Caller, LoginCodes};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use hyper_util::service::TowerToHyperService;

use crate::app::App;
use crate::pipeline::{self, Peer};
use crate::principal::permissions::{Action, Allowed, Role};

/// The routes of this server, for its own pages.
struct OwnRoutes {
    app: Arc<App>,
    routes: TowerToHyperService<Router>,
}

impl Api for OwnRoutes {
    fn call(
        &self,
        request: axum::http::Request<Bytes>,
        caller: Caller,
    ) -> BoxFuture<'static, Response<bursar_client::Body>> {
        let routes = self.routes.clone();
        async move {
            let response = pipeline::handle(&routes, request.map(Body::from), Peer(caller.ip)).await;
            let broken = |error| TransportError { sent: true, source: Box::new(error) };
            response.map(|body| body.map_err(broken).boxed_unsync())
        }
        .boxed()
    }

    fn now(&self) -> Time {
        self.app.clock.now()
    }

    fn roles(&self) -> Vec<(Role, Vec<&'static str>)> {
        let allowed = |role: Role| {
            let may = Action::ALL.iter().filter(move |action| action.allows(role) == Allowed::Yes);
            may.map(|action| action.name()).collect()
        };
        Role::ALL.into_iter().map(|role| (role, allowed(role))).collect()
    }

    fn facts(&self) -> BoxFuture<'static, Vec<(&'static str, String)>> {
        let bursar = self.app.bursar.clone();
        async move {
            let mut facts = vec![("Version", env!("CARGO_PKG_VERSION").to_owned())];
            if let Ok(health) = bursar.health().await {
                facts.push(("Database", health.engine));
                facts.push(("Schema version", health.schema.to_string()));
                facts.push(("Journal position", health.position.to_string()));
            }
            facts
        }
        .boxed()
    }
}

/// Adds the dashboard to the routes of the API.
pub(crate) fn with_dashboard(app: &Arc<App>, routes: Router, codes: LoginCodes) -> Router {
    let own = OwnRoutes { app: app.clone(), routes: TowerToHyperService::new(routes.clone()) };
    let app = app.clone();
    let add_caller = map_request(move |mut request: Request| {
        let caller = caller(&app, &request);
        request.extensions_mut().insert(caller);
        async move { request }
    });
    routes.merge(bursar_dashboard::router(Arc::new(own), codes).layer(add_caller))
}

/// Returns where a request comes from.
fn caller(app: &App, request: &Request) -> Caller {
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0).expect("every request has a peer");
    let ip = app.proxies.caller(peer, request.headers());
    Caller { ip, secure: app.proxies.says_https(peer, request.headers()) }
}
