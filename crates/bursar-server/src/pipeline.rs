//! The steps that every request goes through, whatever its route.
//!
//! 1. [`handle`] gives the request an id and a trace, and checks the size of its head.
//! 2. [`run`] opens the log span and the exported one, and catches panics.
//! 3. [`answer`] takes a request slot, authenticates, authorizes, reads the headers ([`headers`]), and verifies the signature if the caller
//!    is metered and signs.
//! 4. It gives the slot back while it reads the body ([`read_body`]) and reserves memory for the response, then takes one again.
//! 5. It charges the caller's quota and runs the handler. Writes run in a task of their own, so they complete even if the caller
//!    disconnects.
//! 6. The response counts as bytes in flight until it has been written to the socket.

pub(crate) mod headers;
pub(crate) mod paced_body;
mod read_body;
mod signed_body;

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use bursar::{Context, IdempotencyKey};
use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tracing::Instrument;

use self::headers::{IDEMPOTENCY_KEY, LAST_EVENT_ID, header_text, if_match, tenant};
use crate::app::App;
use crate::call::Call;
use crate::events::socket::Upgrade;
use crate::in_flight::{Account, Reservation, UNCOUNTED};
use crate::limits::HEAD_BYTES_MAX;
use crate::metering::{QuotaRefusal, signature_refused};
use crate::otlp::request::RequestSpan;
use crate::principal::authenticate::authenticate;
use crate::principal::permissions::{Action, Role};
use crate::principal::{Principal, authorize};
use crate::reply::{self, Uncounted};
use crate::route::{AuthorizedRequest, Route};
use crate::trace::Trace;
use crate::wire::problem::{Kind, Problem};

/// The least bytes reserved for a request whose handler reads a stream.
const UPLOAD_BYTES_MIN: usize = 64 << 10;
/// Bytes reserved for a request whose handler answers with a stream: one piece that is read ahead.
const DOWNLOAD_BYTES: usize = 256 << 10;

/// Target of the access log, which has one line per request at level `debug`.
const ACCESS: &str = "bursar_server::access";

/// The address at the other end of the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Marks a request on a connection beyond `limits.connections`: only health routes are served there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HealthOnly;

/// Handles one request from its head to its response: trace, size of the head, routing, security headers.
pub(crate) async fn handle<S>(service: &S, mut request: Request<Body>, peer: Peer) -> Response
where
    S: hyper::service::Service<Request<Body>, Response = Response, Error = std::convert::Infallible>,
{
    let trace = Trace::of(request.headers());
    let mut response = if head_bytes(&request) > HEAD_BYTES_MAX {
        let detail =
            format!("the request line and headers exceed {HEAD_BYTES_MAX} bytes; send fewer or shorter headers");
        let mut response = reply::problem(Problem::new(Kind::HeadTooLarge, detail), trace.request_id());
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    } else {
        request.extensions_mut().insert(trace.clone());
        request.extensions_mut().insert(peer);
        match service.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    };
    trace.write_headers(response.headers_mut());
    add_security_headers(&mut response);
    response
}

/// Returns the size of a request's head in bytes: its request line and its headers.
fn head_bytes(request: &Request<Body>) -> usize {
    let uri = request.uri();
    let target = uri.path().len() + uri.query().map_or(0, |query| query.len() + 1);
    let fields = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    request.method().as_str().len() + target + "  HTTP/1.1\r\n\r\n".len() + fields.sum::<usize>()
}

/// Adds the headers that tell browsers not to guess the media type and not to cache.
fn add_security_headers(response: &mut Response) {
    let whole = [StatusCode::OK, StatusCode::PARTIAL_CONTENT, StatusCode::NOT_MODIFIED];
    let plain = !whole.contains(&response.status());
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if plain || !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

/// Runs a request on its route, inside a log span.
pub(crate) async fn run(app: Arc<App>, route: Arc<Route>, request: Request) -> Response {
    let trace = Trace::of_request(&request);
    // The span names the route, not the path, because a path contains names and ids of the tenant. It exists at `debug` only; above
    // that level a span per request would cost more than parsing the body, so log lines name the request themselves.
    let span = tracing::debug_span!(
        "request", method = %route.method, route = route.path, request_id = trace.request_id(), trace_id = trace.trace_id(),
        principal = tracing::field::Empty
    );
    let exported = RequestSpan::begin(&app, &route, &trace);
    let response = run_in_span(app, route, request, trace).instrument(span).await;
    if let Some(exported) = exported {
        exported.end(response.status());
    }
    response
}

async fn run_in_span(app: Arc<App>, route: Arc<Route>, request: Request, trace: Trace) -> Response {
    let began = Instant::now();
    // A panic in a handler fails its own request only; the connection and other requests continue.
    let answered = AssertUnwindSafe(answer(&app, &route, request, &trace)).catch_unwind().await;
    let mut response = match answered {
        Ok(Ok(response)) => response,
        Ok(Err(problem)) => problem_response(&app, &route, problem, &trace),
        Err(_) => {
            tracing::error!(request_id = trace.request_id(), route = route.path, "handler panicked");
            reply::problem(
                Problem::new(Kind::Internal, "the server failed; its log has the reason under this request_id"),
                trace.request_id(),
            )
        }
    };
    for (name, value) in route.headers {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let (status, took) = (response.status(), began.elapsed());
    app.metrics.count(&route, status, took);
    tracing::debug!(target: ACCESS, status = status.as_u16(), duration_ms = took.as_secs_f64() * 1_000.0, "request answered");
    response
}

async fn answer(app: &Arc<App>, route: &Arc<Route>, request: Request, trace: &Trace) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    if parts.extensions.get::<HealthOnly>().is_some() && !route.health {
        let detail =
            "the server has reached its limit on connections (limits.connections); nothing was changed; retry later";
        return Err(Problem::new(Kind::Overloaded, detail).retry_after(Duration::from_secs(1)));
    }
    let slot = app.slots.take(route)?;
    let principal = match (route.action, &app.local_principal) {
        (_, Some(local)) => local.clone(),
        (Action::Public, None) => Principal::anonymous(),
        (_, None) => authenticate(app, &parts).await?,
    };
    tracing::Span::current().record("principal", principal.role.map_or("anonymous", Role::name));
    authorize(&principal, route.action)?;
    let call = call(app, route, principal, &parts, trace)?;
    let path_parameters = path_parameters(&mut parts).await?;
    let signed = match route.metered {
        true => app.metering.signature(&call.principal, &call.context, &parts).await?,
        false => None,
    };
    // A slow body, or a wait for memory, must not occupy a request slot.
    drop(slot);
    let account = match (route.action, path_parameters.first()) {
        // People without a token are counted by the link that they use.
        (Action::Public, Some(link)) if route.streams.is_some() => Account::from(format!("link {link}")),
        _ => call.principal.account(),
    };
    let (body, body_reservations, stream) = match (route.streams, route.takes_body()) {
        // The handler reads the body itself, in bounded memory.
        (Some(_), takes_body) => {
            let bytes = if takes_body { upload_bytes(app, &parts, &body) } else { DOWNLOAD_BYTES };
            (Bytes::new(), vec![app.bytes.reserve_or_wait(&account, bytes).await?], signed_body::checked(body, &signed))
        }
        (None, true) => {
            let (bytes, reservations) = read_body::read_body(app, route, &account, &parts, body).await?;
            (bytes, reservations, Body::empty())
        }
        (None, false) => (Bytes::new(), Vec::new(), Body::empty()),
    };
    if let (Some(signed), None) = (&signed, route.streams) {
        signed.check_body(&body).map_err(|error| signature_refused(&error))?;
    }
    let response_reservation = match route.answer_bytes_max {
        0 => None,
        bytes => Some(app.bytes.reserve_or_wait(&account, bytes).await?),
    };
    let slot = app.slots.take(route)?;
    let charged = match route.metered {
        true => app.metering.charge(&call.principal, &call.context, &parts, body.len(), signed.as_ref()).await,
        false => Ok(None),
    };
    let standing = match charged {
        Ok(standing) => standing,
        Err(QuotaRefusal { problem, standing }) => {
            let mut response = reply::problem(problem, trace.request_id());
            standing.inspect(|standing| standing.tell(response.headers_mut()));
            return Ok(response);
        }
    };
    let Parts { method, uri, headers, .. } = parts;
    let ignored = route.ignored;
    let reported = call.quota.clone();
    let request = AuthorizedRequest { call, path_parameters, uri, body, method, headers, stream, ignored };
    let ran = match route.writes() && (!route.waits || route.streams.is_some()) {
        true => run_to_completion(route.clone(), request, (slot, body_reservations)).await,
        false if route.streams.is_some() => route.run(request).await.map(|response| hold(response, body_reservations)),
        false => route.run(request).await,
    };
    let standing = reported.get().or(standing.as_ref());
    // A request that failed was charged too, so its response also has the quota headers.
    let mut response = match ran {
        Ok(response) => response,
        Err(problem) if standing.is_none() => return Err(problem),
        Err(problem) => problem_response(app, route, problem, trace),
    };
    standing.inspect(|standing| standing.tell(response.headers_mut()));
    count_response(app, route, &account, response_reservation, response)
}

/// Returns the bytes to reserve for an upload: the most that it occupies at once.
fn upload_bytes(app: &App, parts: &Parts, body: &Body) -> usize {
    let Some(blobs) = &app.blobs else { return UPLOAD_BYTES_MIN };
    let length = body.size_hint().exact();
    let media = parts.headers.get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
    let most = match length {
        // The length of the file in a form is not known.
        Some(length) if media.starts_with("multipart/") => {
            blobs.upload_memory(None).min(usize::try_from(length).unwrap_or(usize::MAX))
        }
        // The last part of a resumable upload is put together with the others.
        Some(_) if parts.method == Method::PATCH => blobs.upload_memory(None),
        length => blobs.upload_memory(length),
    };
    most.max(UPLOAD_BYTES_MIN)
}

/// Builds the call: the caller, its tenant, and the headers that the route uses.
fn call(app: &Arc<App>, route: &Route, principal: Principal, parts: &Parts, trace: &Trace) -> Result<Call, Problem> {
    let tenant = tenant(&principal, &parts.headers)?;
    // A local request has no id that a client could have logged, so the journal records no correlation id.
    let correlation_id = app.local_principal.is_none().then(|| trace.correlation_id());
    // Jobs and events belong to the span of the request, if it is exported, and otherwise to the caller's.
    let traceparent = trace.recorded().or(trace.parent());
    let reporter = (route.action == Action::JobsWork).then(|| principal.reporter());
    let context = Context { correlation_id, traceparent, reporter, ..Context::of(tenant).by(principal.actor()) };
    let key = if route.is_keyed() { header_text(&parts.headers, &IDEMPOTENCY_KEY)? } else { None };
    let key = key.map(IdempotencyKey::new).transpose()?;
    let if_match = if route.writes() { if_match(&parts.headers)? } else { None };
    if if_match.is_some() && !route.takes_if_match {
        // Ignoring the condition would let the caller believe that it was checked.
        let detail = "this route does not support If-Match; only routes that define or remove something do";
        return Err(Problem::invalid("if-match".into(), detail));
    }
    let last_event = header_text(&parts.headers, &LAST_EVENT_ID)?.map(str::to_owned);
    let accept = parts.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let accepts_html = accept.is_some_and(|accept| accept.contains("text/html"));
    let origin = origin(app, parts);
    let upgrade = if route.action == Action::EventsListen { Upgrade::of(parts)? } else { None };
    Ok(Call {
        app: app.clone(),
        key,
        if_match,
        last_event,
        upgrade,
        origin,
        accepts_html,
        principal,
        context,
        quota: Arc::default(),
        trace: trace.clone(),
    })
}

/// Returns the scheme and host that the caller used.
fn origin(app: &App, parts: &Parts) -> Option<String> {
    let host = parts.headers.get(header::HOST)?.to_str().ok()?;
    let Peer(peer) = parts.extensions.get::<Peer>()?;
    let scheme = if app.proxies.says_https(*peer, &parts.headers) { "https" } else { "http" };
    Some(format!("{scheme}://{host}"))
}

async fn path_parameters(parts: &mut Parts) -> Result<Vec<String>, Problem> {
    match RawPathParams::from_request_parts(parts, &()).await {
        Ok(params) => Ok(params.iter().map(|(_, value)| value.to_owned()).collect()),
        Err(_) => Err(Problem::invalid("path".into(), "the path is not percent-encoded UTF-8")),
    }
}

/// Runs a write in a task of its own, so it completes even if the caller disconnects. The slot and the memory of the body stay
/// reserved until it has completed.
async fn run_to_completion(
    route: Arc<Route>,
    request: AuthorizedRequest,
    reserved: (OwnedSemaphorePermit, Vec<Reservation>),
) -> Result<Response, Problem> {
    let work = async move {
        let ran = route.run(request).await;
        drop(reserved);
        ran
    };
    match tokio::spawn(work.in_current_span()).await {
        Ok(ran) => ran,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => {
                Err(Problem::new(Kind::Unavailable, "the server is shutting down; retry with the same Idempotency-Key"))
            }
        },
    }
}

/// Keeps memory reserved until a streamed response has been written.
fn hold(response: Response, reserved: Vec<Reservation>) -> Response {
    if response.body().is_end_stream() {
        return response;
    }
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _ = &reserved;
            frame
        }))
    })
}

/// Counts a response as bytes in flight until it has been written. If there is no room, a read fails; the response of a write is
/// sent in any case, and counts against the principal's next requests.
fn count_response(
    app: &App,
    route: &Route,
    account: &Account,
    reservation: Option<Reservation>,
    response: Response,
) -> Result<Response, Problem> {
    let size = response.body().size_hint().exact().map_or(0, |size| size as usize);
    if size <= UNCOUNTED || response.extensions().get::<Uncounted>().is_some() {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let whole = body.collect().now_or_never().and_then(Result::ok);
    let whole = whole.ok_or_else(|| Problem::new(Kind::Internal, "a response body was incomplete"))?;
    // The response may be larger than what was reserved for it.
    let reservation = match reservation.filter(|reservation| reservation.bytes() >= size) {
        Some(reservation) => reservation,
        None if route.writes() => app.bytes.count(account, size),
        None => app.bytes.reserve(account, size)?,
    };
    Ok(Response::from_parts(parts, Body::from(reservation.bind(whole.to_bytes()))))
}

/// Turns a problem into a response. Server faults are logged and their details hidden, except from a local caller, which gets them
/// in full.
fn problem_response(app: &App, route: &Route, problem: Problem, trace: &Trace) -> Response {
    if app.local_principal.is_some() {
        return reply::full_problem(&problem);
    }
    if problem.status >= 500 {
        tracing::warn!(request_id = trace.request_id(), route = route.path, kind = ?problem.kind, "{}", problem.detail);
    }
    reply::problem(problem, trace.request_id())
}
