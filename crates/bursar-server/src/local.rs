//! The same routes without a network, for a program that opens the database itself.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bursar::meter::{MeterError, MeterSettings};
use bursar::{Bursar, SystemClock};
use bursar_blobs::Blobs;
use hyper_util::service::TowerToHyperService;

use crate::app::App;
use crate::limits::Limits;
use crate::metering::Metering;
use crate::pipeline::{self, Peer};
use crate::principal::Principal;
use crate::principal::authenticate::TokenKeys;
use crate::principal::jwt::JwtRules;
use crate::router::router;

/// A server inside the calling process. The caller has the database anyway, so it needs no token, acts as the operator, and gets
/// the full text of internal errors.
#[derive(Clone)]
pub struct Local(TowerToHyperService<Router>);

impl Local {
    /// Serves this database. `name` is the actor that the journal records; `meter` is the meter configuration of a server on the
    /// same database, so that quotas are reported as that server applies them; `blobs` is where the bytes of blobs are.
    pub fn new(
        bursar: Bursar,
        name: String,
        meter: Option<MeterSettings>,
        blobs: Option<Blobs>,
    ) -> Result<Local, MeterError> {
        let token_keys = TokenKeys::new(None, Vec::new(), JwtRules::default());
        let local_principal = Principal { name, ..Principal::operator() };
        // The operator itself is never metered.
        let metering = Metering::new(bursar.clone(), meter, Arc::new(SystemClock))?;
        let mut app = App::new(bursar, token_keys, Limits::default(), Arc::new(SystemClock), metering);
        app.local_principal = Some(local_principal);
        app.blobs = blobs;
        Ok(Local(TowerToHyperService::new(router(&Arc::new(app)))))
    }

    /// Handles one request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response
    where
        B: axum::body::HttpBody<Data = bytes::Bytes, Error: Into<axum::BoxError>> + Send + 'static,
    {
        pipeline::handle(&self.0, request.map(Body::new), Peer(IpAddr::V4(Ipv4Addr::LOCALHOST))).await
    }
}
