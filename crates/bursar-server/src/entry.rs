//! The way in: every request takes it, whatever it asks for.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use bursar::{Context, Fingerprint, IdempotencyKey, IfMatch, Tenant};
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use crate::app::App;
use crate::call::Call;
use crate::connection::Pace;
use crate::in_flight::{Account, Full, InFlight, Reserved, UNCOUNTED};
use crate::limits::HEAD_BYTES_MAX;
use crate::metering::Unpaid;
use crate::principal::authenticate::authenticate;
use crate::principal::table::{Action, Role};
use crate::principal::{Principal, authorize};
use crate::reply::{self, Uncounted};
use crate::route::{Incoming, Route};
use crate::trace::Trace;
use crate::wire::problem::{Kind, Problem};

/// What the log of every request goes by; it is told where the level is `debug`.
const ACCESS: &str = "bursar_server::access";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TENANT: HeaderName = HeaderName::from_static("bursar-tenant");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Who is at the other end of the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// The request came by a connection beyond those that are served: only the health of the server is told there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spare;

/// The router, from the list of routes.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    for route in &app.routes {
        let filter = MethodFilter::try_from(route.method.clone()).expect("routes have methods that are known");
        let (app, route) = (app.clone(), route.clone());
        let path = route.path;
        let answer = move |request: Request| {
            let (app, route) = (app.clone(), route.clone());
            async move { enter(app, route, request).await }
        };
        router = router.route(path, on(filter, answer));
    }
    let methods = Arc::new(app.methods());
    router
        .fallback(|request: Request| async move {
            let detail = format!("there is nothing at {}; see /v1/openapi.json", shown(request.uri().path()));
            reply::problem(Problem::new(Kind::NotFound, detail), trace_of(&request).request_id())
        })
        .method_not_allowed_fallback(move |request: Request| {
            let methods = methods.clone();
            async move {
                let trace = trace_of(&request);
                let detail = format!("{} is not taken here", request.method());
                let (mut parts, _) = request.into_parts();
                let path = axum::extract::MatchedPath::from_request_parts(&mut parts, &()).await;
                let mut response = reply::problem(Problem::new(Kind::MethodNotAllowed, detail), trace.request_id());
                let known = path.ok().and_then(|path| methods.get(path.as_str()).map(|methods| methods.join(", ")));
                if let Some(Ok(allow)) = known.as_deref().map(HeaderValue::from_str) {
                    response.headers_mut().insert(header::ALLOW, allow);
                }
                response
            }
        })
}

/// What of a path may be told again.
fn shown(path: &str) -> String {
    path.chars().take(200).collect()
}

fn trace_of(request: &Request) -> Trace {
    request.extensions().get::<Trace>().cloned().unwrap_or_else(|| Trace::of(request.headers()))
}

async fn enter(app: Arc<App>, route: Arc<Route>, request: Request) -> Response {
    let trace = trace_of(&request);
    // The route and not the path, which has names and ids of somebody's in it. Where not every request is told, the few lines that
    // are say themselves which request they are about: to keep a span for each would cost more than to read its body.
    let span = tracing::debug_span!(
        "request", method = %route.method, route = route.path, request_id = trace.request_id(), trace_id = trace.trace_id(),
        principal = tracing::field::Empty
    );
    enter_in(app, route, request, trace).instrument(span).await
}

async fn enter_in(app: Arc<App>, route: Arc<Route>, request: Request, trace: Trace) -> Response {
    let began = Instant::now();
    // Whatever goes wrong with one request, its connection and the others go on.
    let answered = AssertUnwindSafe(answer(&app, &route, request, &trace)).catch_unwind().await;
    let response = match answered {
        Ok(Ok(response)) => response,
        Ok(Err(problem)) => refused(&app, &route, problem, &trace),
        Err(_) => {
            tracing::error!(request_id = trace.request_id(), route = route.path, "a handler panicked");
            reply::problem(Problem::new(Kind::Internal, "the server failed; it was logged"), trace.request_id())
        }
    };
    let (status, took) = (response.status(), began.elapsed());
    app.metrics.count(&route, status, took);
    tracing::debug!(target: ACCESS, status = status.as_u16(), duration_ms = took.as_secs_f64() * 1_000.0, "answered");
    response
}

async fn answer(app: &Arc<App>, route: &Arc<Route>, request: Request, trace: &Trace) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    if parts.extensions.get::<Spare>().is_some() && !route.health {
        let detail = "the server has as many connections as it takes; try again later";
        return Err(Problem::new(Kind::Overloaded, detail).retry_after(Duration::from_secs(1)));
    }
    let place = app.places.take(route)?;
    let principal = match (route.action, &app.insider) {
        (_, Some(insider)) => insider.clone(),
        (Action::Public, None) => Principal::nobody(),
        (_, None) => authenticate(app, &parts).await?,
    };
    tracing::Span::current().record("principal", principal.role.map_or("nobody", Role::name));
    authorize(&principal, route.action)?;
    let tenant = tenant(&principal, &parts.headers)?;
    // Where there is no request that somebody could look for, nothing is to be found by it.
    let correlation_id = app.insider.is_none().then(|| trace.correlation_id());
    let traceparent = trace.parent();
    let reporter = (route.action == Action::JobsWork).then(|| principal.reporter());
    let context = Context { correlation_id, traceparent, reporter, ..Context::of(tenant).by(principal.actor()) };
    let key = if route.is_keyed() { header_text(&parts.headers, &IDEMPOTENCY_KEY)? } else { None };
    let call = Call {
        app: app.clone(),
        key: key.map(IdempotencyKey::new).transpose()?,
        if_match: if route.writes() { wanted(route, if_match(&parts.headers)?)? } else { None },
        last_event: header_text(&parts.headers, &LAST_EVENT)?.map(str::to_owned),
        principal,
        context,
    };
    let at = path_part(&mut parts).await?;
    // A body may come slowly, and an answer may have to wait for room: neither holds a place among those that are served.
    drop(place);
    let account = call.principal.account();
    let (body, body_room) = match route.takes_body() {
        true => read(app, route, &account, &parts, body).await?,
        false => (Bytes::new(), Vec::new()),
    };
    let room = match route.answer_bytes_max {
        0 => None,
        bytes => Some(app.bytes.reserve_soon(&account, bytes).await?),
    };
    let place = app.places.take(route)?;
    let standing = match app.metering.charge(&call.principal, &call.context, &parts, body.len()).await {
        Ok(standing) => standing,
        Err(Unpaid { problem, standing }) => {
            let mut response = reply::problem(problem, trace.request_id());
            standing.inspect(|standing| standing.tell(response.headers_mut()));
            return Ok(response);
        }
    };
    // Whatever came of it, it is paid: who is told of a problem is told how it stands too.
    let incoming = Incoming { call, at, uri: parts.uri, body };
    let ran = match route.writes() && !route.waits {
        true => run_to_the_end(route.clone(), incoming, (place, body_room)).await,
        false => route.run(incoming).await,
    };
    let mut response = match ran {
        Ok(response) => response,
        Err(problem) if standing.is_none() => return Err(problem),
        Err(problem) => refused(app, route, problem, trace),
    };
    standing.inspect(|standing| standing.tell(response.headers_mut()));
    keep(app, route, &account, room, response)
}

/// Runs a request whose caller may leave: what it brought is in the engine until it is done, and is counted until then.
async fn run_to_the_end(
    route: Arc<Route>,
    incoming: Incoming,
    held: (OwnedSemaphorePermit, Vec<Reserved>),
) -> Result<Response, Problem> {
    let work = async move {
        let ran = route.run(incoming).await;
        drop(held);
        ran
    };
    match tokio::spawn(work.in_current_span()).await {
        Ok(ran) => ran,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Problem::new(Kind::Unavailable, "the server is shutting down")),
        },
    }
}

/// Counts an answer for as long as it is not written. What only reads is refused where there is no room for its answer; what was done is
/// answered, and counts against what its principal asks next.
fn keep(
    app: &App,
    route: &Route,
    account: &Account,
    room: Option<Reserved>,
    response: Response,
) -> Result<Response, Problem> {
    let size = response.body().size_hint().exact().map_or(0, |size| size as usize);
    if size <= UNCOUNTED || response.extensions().get::<Uncounted>().is_some() {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let whole = body.collect().now_or_never().and_then(Result::ok);
    let whole = whole.ok_or_else(|| Problem::new(Kind::Internal, "an answer was not whole"))?;
    // It came to more than there is room for.
    let room = room.filter(|room| room.bytes() >= size);
    let room = match room {
        Some(room) => room,
        None if route.writes() => app.bytes.count(account, size),
        None => app.bytes.reserve(account, size)?,
    };
    Ok(Response::from_parts(parts, Body::from(room.bind(whole.to_bytes()))))
}

/// Tells of a problem. What is the server's own fault is logged; whoever asks in the process is told all of it instead.
fn refused(app: &App, route: &Route, problem: Problem, trace: &Trace) -> Response {
    if app.insider.is_some() {
        return reply::whole_problem(&problem);
    }
    if problem.status >= 500 {
        tracing::warn!(request_id = trace.request_id(), route = route.path, kind = ?problem.kind, "{}", problem.detail);
    }
    reply::problem(problem, trace.request_id())
}

/// Whose data it is: the operator says it, everybody else has one.
fn tenant(principal: &Principal, headers: &HeaderMap) -> Result<Tenant, Problem> {
    let Some(asked) = header_text(headers, &TENANT)? else { return Ok(principal.tenant.clone()) };
    let asked = Tenant::new(asked)?;
    if asked != principal.tenant && !principal.is_operator() {
        return Err(Problem::new(Kind::Forbidden, "this token acts for another tenant than Bursar-Tenant names"));
    }
    Ok(asked)
}

fn header_text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::invalid(name.to_string(), format!("the header {name} is given twice")));
    }
    let text =
        value.to_str().map_err(|_| Problem::invalid(name.to_string(), format!("the header {name} is not ASCII")));
    text.map(Some)
}

/// What the caller has read: one strong tag, as it was given out, or that there is anything.
pub(crate) fn if_match(headers: &HeaderMap) -> Result<Option<IfMatch>, Problem> {
    let Some(text) = header_text(headers, &header::IF_MATCH)? else { return Ok(None) };
    if text == "*" {
        return Ok(Some(IfMatch::Any));
    }
    let hexadecimal = |digits: &&str| digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let digits = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).filter(hexadecimal);
    match digits.map(|digits| u128::from_str_radix(digits, 16)) {
        Some(Ok(digest)) => Ok(Some(IfMatch::Only(Fingerprint(digest)))),
        _ => Err(Problem::invalid("if-match".into(), "If-Match takes one ETag, as an answer gave it, or *")),
    }
}

/// A condition that nobody looks at must not be taken for one that holds.
fn wanted(route: &Route, if_match: Option<IfMatch>) -> Result<Option<IfMatch>, Problem> {
    match if_match {
        Some(_) if !route.edits => {
            let detail = "If-Match is taken only where something is defined or removed";
            Err(Problem::invalid("if-match".into(), detail))
        }
        if_match => Ok(if_match),
    }
}

async fn path_part(parts: &mut Parts) -> Result<Option<String>, Problem> {
    match RawPathParams::from_request_parts(parts, &()).await {
        Ok(params) => Ok(params.iter().next().map(|(_, value)| value.to_owned())),
        Err(_) => Err(Problem::invalid("path".into(), "the path is not UTF-8 in percent-encoding")),
    }
}

/// Reads a body, once there is room for it. What it is counted with lasts as long as the request.
async fn read(
    app: &App,
    route: &Route,
    account: &Account,
    parts: &Parts,
    body: Body,
) -> Result<(Bytes, Vec<Reserved>), Problem> {
    if parts.headers.contains_key(header::CONTENT_ENCODING) {
        let detail = "encoded bodies are not taken: send it as it is";
        return Err(Problem::new(Kind::UnsupportedMediaType, detail));
    }
    let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let most = route.body_bytes_max.min(app.limits.body_bytes);
    let mut room = Vec::new();
    let counting = Counting { bytes: &app.bytes, account, pace: app.limits.pace(), room: &mut room };
    let bytes = match timeout(app.limits.body, collect(body, length, most, counting)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(Broken::Off)) => return Err(Problem::invalid("body".into(), "the body broke off")),
        Ok(Err(Broken::TooLarge)) => {
            return Err(Problem::new(Kind::TooLarge, format!("the body has more than {most} bytes: split it")));
        }
        Ok(Err(Broken::NoRoom(full))) => return Err(full.into()),
        Ok(Err(Broken::Slow)) | Err(_) => return Err(Problem::new(Kind::Timeout, "the body took too long")),
    };
    let media = parts.headers.get(header::CONTENT_TYPE).map(|media| media.to_str().unwrap_or_default());
    let media = media.map(|media| media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    match media.as_deref() {
        Some("application/json") => Ok((bytes, room)),
        None if bytes.is_empty() => Ok((bytes, room)),
        _ => Err(Problem::new(Kind::UnsupportedMediaType, "the body must be application/json")),
    }
}

/// Why a body was not taken.
enum Broken {
    Off,
    TooLarge,
    Slow,
    NoRoom(Full),
}

/// What a body is counted with, and how fast it must come.
struct Counting<'a> {
    bytes: &'a InFlight,
    account: &'a Account,
    pace: Pace,
    room: &'a mut Vec<Reserved>,
}

impl Counting<'_> {
    /// Makes room for so many bytes more.
    fn make_room(&mut self, bytes: usize) -> Result<usize, Broken> {
        self.room.push(self.bytes.reserve(self.account, bytes).map_err(Broken::NoRoom)?);
        Ok(bytes)
    }
}

/// How long what is too large is still taken, and thrown away: who is cut off while it sends may never see the answer.
const LINGER: Duration = Duration::from_secs(1);

/// Takes a body in. One that is too large is refused as soon as that is known, however slowly the rest of it comes.
async fn collect(
    mut body: Body,
    length: Option<u64>,
    most: usize,
    mut counting: Counting<'_>,
) -> Result<Bytes, Broken> {
    let (pace, began) = (counting.pace, Instant::now());
    let mut too_large = length.is_some_and(|length| length > most as u64);
    let mut room = UNCOUNTED;
    if let Some(length) = length.filter(|length| !too_large && *length > UNCOUNTED as u64) {
        room = counting.make_room(length as usize)?;
    }
    let mut bytes = BytesMut::with_capacity(if too_large { 0 } else { length.unwrap_or(0) as usize });
    while !too_large {
        // Before the next wait: what comes drop by drop is given up, as is what does not come at all.
        if pace.is_too_slow(bytes.len(), began.elapsed()) {
            return Err(Broken::Slow);
        }
        match timeout(pace.stall, body.frame()).await {
            Err(_) => return Err(Broken::Slow),
            Ok(None) => return Ok(bytes.freeze()),
            Ok(Some(Err(_))) => return Err(Broken::Off),
            Ok(Some(Ok(frame))) => {
                let data = frame.into_data().unwrap_or_default();
                too_large = bytes.len() + data.len() > most;
                // One that does not say how long it is has as much again each time.
                while !too_large && bytes.len() + data.len() > room {
                    room += counting.make_room(room.max(data.len()))?;
                }
                bytes.extend_from_slice(&data);
            }
        }
    }
    tokio::spawn(timeout(LINGER, async move { while let Some(Ok(_)) = body.frame().await {} }));
    Err(Broken::TooLarge)
}

/// The whole of a request: what it is known by, and the answer.
pub(crate) async fn handle<S>(service: &S, mut request: Request<Body>, peer: Peer) -> Response
where
    S: hyper::service::Service<Request<Body>, Response = Response, Error = std::convert::Infallible>,
{
    let trace = Trace::of(request.headers());
    let mut response = if head_bytes(&request) > HEAD_BYTES_MAX {
        let detail = format!("the head of the request has more than {HEAD_BYTES_MAX} bytes");
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
    trace.tell(response.headers_mut());
    harden(&mut response);
    response
}

/// The bytes of a head: its first line, and its fields.
fn head_bytes(request: &Request<Body>) -> usize {
    let uri = request.uri();
    let target = uri.path().len() + uri.query().map_or(0, |query| query.len() + 1);
    let fields = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    request.method().as_str().len() + target + "  HTTP/1.1\r\n\r\n".len() + fields.sum::<usize>()
}

/// What every answer says to a browser.
fn harden(response: &mut Response) {
    let plain = response.status() != StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if plain || !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}
