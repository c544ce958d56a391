//! The meter as middleware.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use crate::meter::Meter;
use crate::meter::admit::{Asked, Payload};
use crate::meter::body::{CountedBody, MeteredBody};
use crate::meter::caller::Caller;
use crate::meter::counters::count;
use crate::meter::problem::Unserved;
use crate::meter::settings::Anonymous;
use crate::meter::settle::{ActualCost, Settlement, Streamed};
use crate::meter::standing::Standing;

/// Meters a service. From [`Meter::layer`].
#[derive(Clone)]
pub struct MeterLayer(pub(crate) Meter);

impl<S> Layer<S> for MeterLayer {
    type Service = Metered<S>;

    fn layer(&self, inner: S) -> Metered<S> {
        Metered { meter: self.0.clone(), inner }
    }
}

/// A service whose requests are charged before they are served.
#[derive(Clone)]
pub struct Metered<S> {
    meter: Meter,
    inner: S,
}

impl<S, I, O> Service<Request<I>> for Metered<S>
where
    S: Service<Request<CountedBody<I>>, Response = Response<O>> + Clone + Send + 'static,
    S::Future: Send,
    I: Body + Send + 'static,
    O: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<MeteredBody<O>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<I>) -> Self::Future {
        // The one that is ready is to be called, not its clone.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        Box::pin(serve(self.meter.clone(), inner, request))
    }
}

/// Whom a request is charged to.
enum Payer {
    Nobody,
    Caller(Caller),
}

impl Meter {
    fn payer(&self, head: &Parts) -> Result<Payer, Unserved> {
        let (settings, counters) = (&self.inner.settings, &self.inner.counters);
        if self.bypasses(head) {
            return Ok(Payer::Nobody);
        }
        let unserved = match (self.inner.identify.identify(head), settings.anonymous) {
            (Ok(Some(caller)), _) => return Ok(Payer::Caller(caller)),
            (Ok(None), Anonymous::Shared) => return Ok(Payer::Caller(Caller::anonymous())),
            (Ok(None), Anonymous::Bypass) => {
                count(&counters.bypassed);
                return Ok(Payer::Nobody);
            }
            (Ok(None), Anonymous::Refuse) => Unserved::Nobody,
            (Err(bad), _) => Unserved::Bad(bad),
        };
        count(&counters.rejected);
        Err(unserved)
    }
}

async fn serve<S, I, O>(meter: Meter, mut inner: S, request: Request<I>) -> Result<Response<MeteredBody<O>>, S::Error>
where
    S: Service<Request<CountedBody<I>>, Response = Response<O>>,
    I: Body,
{
    let (mut head, body) = request.into_parts();
    let own = |unserved: &Unserved, head: &Parts| Ok(unserved.respond(&head.headers).map(MeteredBody::own));
    let asked = match meter.payer(&head) {
        Ok(Payer::Caller(caller)) => Some(caller),
        Ok(Payer::Nobody) => None,
        Err(unserved) => return own(&unserved, &head),
    };
    let streamed = Streamed::default();
    let asked = match asked {
        Some(caller) => {
            let price = meter.inner.settings.costs.price(&head);
            let payload = match body.size_hint().exact() {
                Some(bytes) => Payload::Bytes(bytes),
                None => Payload::Streamed(streamed.clone()),
            };
            meter.ask(&caller, price, payload).await
        }
        None => Asked::Open,
    };
    let unserved = match asked {
        Asked::Held(settlement) => {
            head.extensions.insert(settlement.report());
            let request = Request::from_parts(head, CountedBody::new(body, Some(streamed)));
            return settled(inner.call(request), settlement).await;
        }
        Asked::Paid(standing) => {
            let response = inner.call(unsettled(head, body)).await?;
            if response.extensions().get::<ActualCost>().is_some() {
                count(&meter.inner.counters.unasked);
                let caller = &standing.caller;
                tracing::debug!(%caller, "a cost was reported for an operation of one phase, which is paid already");
            }
            return Ok(told(response, &standing, None));
        }
        Asked::Open => {
            let response = inner.call(unsettled(head, body)).await?;
            return Ok(response.map(|body| MeteredBody::of_handler(body, None)));
        }
        Asked::Exceeded(exceeded) => Unserved::Exceeded(Box::new(exceeded)),
        Asked::Closed => Unserved::Unavailable,
    };
    own(&unserved, &head)
}

/// A request that nothing is settled for. What its handler says it cost goes nowhere, but it may say it: a handler does not know
/// whether the meter is on.
fn unsettled<I>(mut head: Parts, body: I) -> Request<CountedBody<I>> {
    head.extensions.insert(ActualCost::unsaid());
    Request::from_parts(head, CountedBody::new(body, None))
}

/// Waits for the answer of a handler, then settles it. Whatever ends this before drops the settlement, which settles itself.
async fn settled<O, E>(
    served: impl Future<Output = Result<Response<O>, E>>,
    settlement: Settlement,
) -> Result<Response<MeteredBody<O>>, E> {
    let mut settlement = settlement;
    let mut response = served.await?;
    if let Some(report) = response.extensions_mut().remove::<ActualCost>() {
        settlement.reported(report);
    }
    if settlement.waits_for_end() {
        let standing = settlement.standing().clone();
        return Ok(told(response, &standing, Some(settlement)));
    }
    let standing = settlement.settle().await;
    Ok(told(response, &standing, None))
}

/// The answer, with how its caller stands.
fn told<O>(mut response: Response<O>, standing: &Standing, settlement: Option<Settlement>) -> Response<MeteredBody<O>> {
    standing.tell(response.headers_mut());
    response.map(|body| MeteredBody::of_handler(body, settlement))
}
