//! How pages reach the routes of the server.

use std::net::IpAddr;
use std::sync::Arc;

use bursar_client::{Body, Bytes, Request, Response, Transport, TransportError};
use bursar_core::time::Time;
use bursar_wire::role::Role;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

/// The routes of the server, called without a network.
pub trait Api: Send + Sync + 'static {
    /// Handles a request of a page as if the browser had sent it.
    fn call(&self, request: Request<Bytes>, caller: Caller) -> BoxFuture<'static, Response<Body>>;
    /// Returns the current time, for times relative to now.
    fn now(&self) -> Time;
    /// Returns the roles with the actions that the table of permissions allows them.
    fn roles(&self) -> Vec<(Role, Vec<&'static str>)>;
    /// Returns facts about the server that no route has, as name and value, for the page of settings.
    fn facts(&self) -> BoxFuture<'static, Vec<(&'static str, String)>>;
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The address of the browser.
    pub ip: IpAddr,
    /// Whether the browser uses HTTPS, so that its cookie must as well.
    pub secure: bool,
}

/// The transport of a client that acts for one browser.
pub(crate) struct InProcess {
    pub(crate) api: Arc<dyn Api>,
    pub(crate) caller: Caller,
}

impl Transport for InProcess {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Body>, TransportError>> {
        self.api.call(request, self.caller).map(Ok).boxed()
    }
}
