//! What a handler receives: the caller, its context, and the parsed parts of the request.

use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::http::{HeaderMap, Method};
use bursar::meter::Standing;
use bursar::{
    BlobId, Bursar, CommandId, Context, GrantId, HoldId, IdempotencyKey, IfMatch, JobId, KeyId, Namespace, Op, Outcome,
    Queue, Referrer, Request, ScheduleName, Scope, Tenant, WorkerId,
};
use bursar_blobs::BodyStream;
use bytes::Bytes;
use futures_util::StreamExt;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

use crate::app::App;
use crate::events::socket::Upgrade;
use crate::pipeline::paced_body::paced;
use crate::principal::Principal;
use crate::trace::Trace;
use crate::wire::problem::Problem;

/// An authorized request with its parsed path parameter, query and body.
pub(crate) struct Input<P = (), Q = NoFields, B = NoFields> {
    /// The caller and its context.
    pub(crate) call: Call,
    /// The path parameter, or several as a tuple.
    pub(crate) parameter: P,
    /// The query.
    pub(crate) query: Q,
    /// The body.
    pub(crate) body: B,
}

/// An authorized request whose body the handler reads as it arrives.
pub(crate) struct Streamed<P = (), Q = NoFields> {
    /// The caller and its context.
    pub(crate) call: Call,
    /// The path parameter, or several as a tuple.
    pub(crate) parameter: P,
    /// The query.
    pub(crate) query: Q,
    /// The method, which may be `HEAD` on a route of `GET`.
    pub(crate) method: Method,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The body.
    pub(crate) body: Body,
}

impl<P, Q> Streamed<P, Q> {
    /// Returns the body as a stream that fails if it arrives too slowly.
    pub(crate) fn stream(body: Body, headers: &HeaderMap, call: &Call) -> BodyStream {
        let app = call.app.clone();
        let counted = move |bytes: &Result<Bytes, _>| {
            if let Ok(bytes) = bytes {
                app.metrics.blobs.received(bytes.len());
            }
        };
        paced(body, headers, call.app.limits.min_pace()).inspect(counted).boxed()
    }
}

/// A query or body without fields. Any field is an error that names it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoFields {}

/// The caller of a request, and what applies to everything it does.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) app: Arc<App>,
    pub(crate) principal: Principal,
    pub(crate) context: Context,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) if_match: Option<IfMatch>,
    /// The `Last-Event-ID` header: the last journal position that an event listener has seen.
    pub(crate) last_event: Option<String>,
    /// The request to continue as a WebSocket, on the route of event streams.
    pub(crate) upgrade: Option<Upgrade>,
    /// The scheme and host that the caller used, such as `https://bursar.example`.
    pub(crate) origin: Option<String>,
    /// Whether the `Accept` header names HTML, as browsers do.
    pub(crate) accepts_html: bool,
    /// The quota that the headers of the response report, in place of the principal's own.
    pub(crate) quota: Arc<OnceLock<Standing>>,
    /// The ids of the request.
    pub(crate) trace: Trace,
}

impl Call {
    /// Returns a Bursar handle that acts for the caller's tenant and records the caller in the journal.
    pub(crate) fn bursar(&self) -> Bursar {
        self.app.bursar.in_context(self.context.clone())
    }

    /// Returns the same call with a reason that the journal records.
    pub(crate) fn with_reason(mut self, reason: Option<String>) -> Call {
        self.context.reason = reason.or(self.context.reason);
        self
    }

    /// Makes the headers of the response report this quota, also if the request fails. The first one counts.
    pub(crate) fn report_quota(&self, standing: &Standing) {
        self.quota.get_or_init(|| standing.clone());
    }

    /// Runs an operation with the caller's idempotency key and `If-Match` condition.
    pub(crate) async fn run(&self, op: Op) -> Result<Outcome, Problem> {
        let request = Request {
            idempotency_key: self.key.clone(),
            if_match: self.if_match,
            ..Request::from(op).in_context(self.context.clone())
        };
        self.submit(request).await
    }

    /// Runs a request as it is.
    pub(crate) async fn submit(&self, request: Request) -> Result<Outcome, Problem> {
        Ok(self.app.bursar.request(request).await?)
    }
}

/// A path parameter, such as `{id}` in `/v1/jobs/{id}`.
pub(crate) trait PathParameter: Sized + Send + 'static {
    /// Parses the text of the parameter.
    fn read(text: &str) -> Result<Self, Problem>;
    /// Returns its JSON schema for the OpenAPI document.
    fn schema(schemas: &mut SchemaGenerator) -> Schema;
}

/// The parameters of a path, in order: `()`, one, or a pair.
pub(crate) trait PathParameters: Sized + Send + 'static {
    /// Parses the texts of the parameters.
    fn read(texts: &[String]) -> Result<Self, Problem>;
    /// Returns their JSON schemas for the OpenAPI document.
    fn schemas(schemas: &mut SchemaGenerator) -> Vec<Schema>;
}

impl PathParameters for () {
    fn read(_: &[String]) -> Result<(), Problem> {
        Ok(())
    }

    fn schemas(_: &mut SchemaGenerator) -> Vec<Schema> {
        Vec::new()
    }
}

impl<P: PathParameter> PathParameters for P {
    fn read(texts: &[String]) -> Result<P, Problem> {
        P::read(text_at(texts, 0))
    }

    fn schemas(schemas: &mut SchemaGenerator) -> Vec<Schema> {
        vec![P::schema(schemas)]
    }
}

impl<P: PathParameter, Q: PathParameter> PathParameters for (P, Q) {
    fn read(texts: &[String]) -> Result<(P, Q), Problem> {
        Ok((P::read(text_at(texts, 0))?, Q::read(text_at(texts, 1))?))
    }

    fn schemas(schemas: &mut SchemaGenerator) -> Vec<Schema> {
        vec![P::schema(schemas), Q::schema(schemas)]
    }
}

fn text_at(texts: &[String], place: usize) -> &str {
    texts.get(place).map(String::as_str).unwrap_or_default()
}

impl PathParameter for String {
    fn read(text: &str) -> Result<String, Problem> {
        Ok(text.to_owned())
    }

    fn schema(schemas: &mut SchemaGenerator) -> Schema {
        schemas.subschema_for::<String>()
    }
}

macro_rules! path_parameters {
    ($($name:ty),*) => {$(
        impl PathParameter for $name {
            fn read(text: &str) -> Result<$name, Problem> {
                Ok(text.parse()?)
            }

            fn schema(schemas: &mut SchemaGenerator) -> Schema {
                schemas.subschema_for::<$name>()
            }
        }
    )*};
}

path_parameters!(
    BlobId,
    CommandId,
    GrantId,
    HoldId,
    JobId,
    KeyId,
    Namespace,
    Queue,
    Referrer,
    ScheduleName,
    Scope,
    Tenant,
    WorkerId
);
