//! The same answers without a network, for a program that has the database itself.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bursar::meter::{MeterError, MeterSettings};
use bursar::{Bursar, SystemClock};
use hyper_util::service::TowerToHyperService;

use crate::app::App;
use crate::entry::{self, Peer};
use crate::limits::Limits;
use crate::metering::Metering;
use crate::principal::Principal;
use crate::principal::authenticate::Keys;
use crate::principal::jwt::JwtRules;

/// Answers requests in this process. Whoever has it has the database: no token is asked for, it is the operator who asks, and
/// errors are told in all their words.
#[derive(Clone)]
pub struct Local(TowerToHyperService<Router>);

impl Local {
    /// Over this database; `name` is who asks, for the journal, and `meter` what is set for the callers of a server over it.
    pub fn new(bursar: Bursar, name: String, meter: Option<MeterSettings>) -> Result<Local, MeterError> {
        let keys = Keys::new(None, Vec::new(), JwtRules::default());
        let insider = Principal { name, ..Principal::operator() };
        // The operator is never metered: what others have is told.
        let metering = Metering::new(bursar.clone(), meter, Arc::new(SystemClock))?;
        let mut app = App::new(bursar, keys, Limits::default(), Arc::new(SystemClock), metering);
        app.insider = Some(insider);
        Ok(Local(TowerToHyperService::new(entry::router(&Arc::new(app)))))
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request<Body>) -> Response {
        entry::handle(&self.0, request, Peer(IpAddr::V4(Ipv4Addr::LOCALHOST))).await
    }
}
