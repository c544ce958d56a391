//! The meter as tower middleware.

use std::pin::Pin;
use std::task::{Context, Poll};

use bursar_signatures::SignatureError;
use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use crate::meter::Meter;
use crate::meter::admit::{Admitted, PayloadSize};
use crate::meter::body::{CountedBody, MeteredBody};
use crate::meter::caller::Caller;
use crate::meter::counters::count;
use crate::meter::problem::Rejection;
use crate::meter::settings::Anonymous;
use crate::meter::settle::{ActualCost, Settlement, StreamedBytes};
use crate::meter::signed::{Signed, SignedRequest, read_signed_body};
use crate::meter::standing::Standing;

/// The layer that meters a service. From [`Meter::layer`].
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
        // Call the service that `poll_ready` was called on, not its clone.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        Box::pin(serve(self.meter.clone(), inner, request))
    }
}

/// Who pays for a request.
struct Payer {
    caller: Caller,
    /// The signature of the request, if it has one.
    signed: Option<SignedRequest>,
}

impl Meter {
    /// Returns the caller to charge, `None` if the request costs nothing, and the body, which is read if the request is signed.
    async fn payer<I: Body>(&self, head: &Parts, body: I) -> Result<(Option<Payer>, CountedBody<I>), Rejection> {
        if self.bypasses(head) {
            return Ok((None, CountedBody::streamed(body)));
        }
        let found = self.identified(head, body).await;
        match &found {
            Ok((None, _)) => count(&self.inner.counters.bypassed),
            Err(_) => count(&self.inner.counters.rejected),
            Ok(_) => {}
        }
        found
    }

    async fn identified<I: Body>(&self, head: &Parts, body: I) -> Result<(Option<Payer>, CountedBody<I>), Rejection> {
        if let Some(signed) = self.signature_of(head).await? {
            let body = read_signed_body(body, &signed, &self.inner.settings.signatures).await?;
            let payer = Payer { caller: signed.caller().clone(), signed: Some(signed) };
            return Ok((Some(payer), CountedBody::read(body)));
        }
        if self.inner.settings.signed == Signed::Required {
            return Err(Rejection::Signature(SignatureError::Unsigned));
        }
        let caller = match (self.inner.identify.identify(head), self.inner.settings.anonymous) {
            (Ok(Some(caller)), _) => Some(caller),
            (Ok(None), Anonymous::Shared) => Some(Caller::anonymous()),
            (Ok(None), Anonymous::Bypass) => None,
            (Ok(None), Anonymous::Refuse) => return Err(Rejection::Anonymous),
            (Err(bad), _) => return Err(Rejection::BadCaller(bad)),
        };
        if let Some(caller) = &caller {
            self.may_be_unsigned(caller.name()).await?;
        }
        let payer = caller.map(|caller| Payer { caller, signed: None });
        Ok((payer, CountedBody::streamed(body)))
    }
}

async fn serve<S, I, O>(meter: Meter, mut inner: S, request: Request<I>) -> Result<Response<MeteredBody<O>>, S::Error>
where
    S: Service<Request<CountedBody<I>>, Response = Response<O>>,
    I: Body,
{
    let (mut head, body) = request.into_parts();
    let reject = |rejection: &Rejection, head: &Parts| Ok(rejection.respond(&head.headers).map(MeteredBody::own));
    let (payer, body) = match meter.payer(&head, body).await {
        Ok(found) => found,
        Err(rejection) => return reject(&rejection, &head),
    };
    let streamed = StreamedBytes::default();
    let admitted = match payer {
        Some(Payer { caller, signed }) => {
            let price = meter.inner.settings.costs.price(&head);
            let payload = match body.size_hint().exact() {
                Some(bytes) => PayloadSize::Known(bytes),
                None => PayloadSize::Streamed(streamed.clone()),
            };
            Some(meter.admit(&caller, price, payload, signed.as_ref()).await)
        }
        None => None,
    };
    let rejection = match admitted {
        Some(Admitted::Held(settlement)) => {
            head.extensions.insert(settlement.report());
            let request = Request::from_parts(head, body.counted(streamed));
            return serve_and_settle(inner.call(request), settlement).await;
        }
        Some(Admitted::Paid(standing)) => {
            let response = inner.call(without_settlement(head, body)).await?;
            if response.extensions().get::<ActualCost>().is_some() {
                count(&meter.inner.counters.unasked);
                let caller = &standing.caller;
                tracing::debug!(%caller, "actual cost ignored: the operation has one phase and is already charged");
            }
            return Ok(with_quota(response, &standing, None));
        }
        Some(Admitted::FailedOpen) | None => {
            let response = inner.call(without_settlement(head, body)).await?;
            return Ok(response.map(|body| MeteredBody::of_handler(body, None)));
        }
        Some(Admitted::Exceeded(exceeded)) => Rejection::Exceeded(Box::new(exceeded)),
        Some(Admitted::FailedClosed) => Rejection::Unavailable,
        Some(Admitted::Replayed) => Rejection::Signature(SignatureError::Replayed),
    };
    reject(&rejection, &head)
}

/// Builds a request that is not settled. It has an [`ActualCost`] too, which is ignored, because a handler does not know
/// whether its request is metered.
fn without_settlement<I>(mut head: Parts, body: CountedBody<I>) -> Request<CountedBody<I>> {
    head.extensions.insert(ActualCost::unset());
    Request::from_parts(head, body)
}

/// Awaits the handler's response, then settles its cost. If this is cancelled or the handler panics, the settlement is
/// dropped and settles itself.
async fn serve_and_settle<O, E>(
    served: impl Future<Output = Result<Response<O>, E>>,
    settlement: Settlement,
) -> Result<Response<MeteredBody<O>>, E> {
    let mut settlement = settlement;
    let mut response = served.await?;
    if let Some(report) = response.extensions_mut().remove::<ActualCost>() {
        settlement.set_report(report);
    }
    if settlement.waits_for_end() {
        let standing = settlement.standing().clone();
        return Ok(with_quota(response, &standing, Some(settlement)));
    }
    let standing = settlement.settle().await;
    Ok(with_quota(response, &standing, None))
}

/// Adds the quota headers to a response, and the settlement to its body.
fn with_quota<O>(
    mut response: Response<O>,
    standing: &Standing,
    settlement: Option<Settlement>,
) -> Response<MeteredBody<O>> {
    standing.tell(response.headers_mut());
    response.map(|body| MeteredBody::of_handler(body, settlement))
}
