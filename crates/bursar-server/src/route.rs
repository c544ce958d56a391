//! The declaration of a route, from which its handler, its description and its limits are derived.

use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call::{Call, Input, PathParameters, Streamed};
use crate::limits;
use crate::parse;
use crate::principal::permissions::Action;
use crate::reply::{HandlerReply, ResponseSpec};
use crate::wire::problem::Problem;

/// A route. It cannot be constructed without an action, so every route is authorized.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) action: Action,
    /// One line for the OpenAPI document.
    pub(crate) summary: &'static str,
    /// The caller decides how long the request takes (long polling, event streams), so it uses the slots of `limits.waiting`.
    pub(crate) waits: bool,
    /// A health or metrics route, which has its own slots.
    pub(crate) health: bool,
    /// Requests are charged to the quota of a metered principal.
    pub(crate) metered: bool,
    /// Bytes to reserve for the response before the handler runs; 0 for responses that are always small.
    pub(crate) answer_bytes_max: usize,
    /// The resource of the path exists without being created first, so the route never returns 404.
    pub(crate) always_there: bool,
    /// What makes a retry of a write safe.
    pub(crate) retry_safety: RetrySafety,
    /// The route supports `If-Match`.
    pub(crate) takes_if_match: bool,
    /// Read-only fields of the answer that the body may have too. They are ignored.
    pub(crate) ignored: &'static [&'static str],
    pub(crate) body_bytes_max: usize,
    /// The media type of a body that the handler reads itself, as it arrives; `None` if the body is JSON.
    pub(crate) streams: Option<&'static str>,
    /// Headers of every response, also of problems.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// Statuses of problems that follow from nothing else in this declaration.
    pub(crate) problems: &'static [u16],
    /// An example of the body.
    pub(crate) example: Option<Value>,
    /// Returns the schemas of the route's input and output.
    pub(crate) schemas: fn(&mut SchemaGenerator) -> RouteSchemas,
    /// Checks that a value is a valid body of this route.
    pub(crate) check_body: fn(&Value) -> Result<(), Problem>,
    handler: Arc<Handler>,
}

/// What makes it safe to retry a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetrySafety {
    /// The `Idempotency-Key` header.
    Key,
    /// The fence of the lease: a repeated report gets the same answer. An `Idempotency-Key` is ignored.
    Fence,
    /// The bytes themselves: uploading the same ones again finds the first blob. An `Idempotency-Key` is ignored.
    Bytes,
    /// Repeating the request changes nothing more. An `Idempotency-Key` is ignored.
    Repeatable,
}

type Handler =
    dyn Fn(AuthorizedRequest) -> Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>> + Send + Sync;

/// An authorized request whose path parameters, query and body are not yet parsed.
pub(crate) struct AuthorizedRequest {
    pub(crate) call: Call,
    pub(crate) path_parameters: Vec<String>,
    pub(crate) uri: axum::http::Uri,
    pub(crate) body: bytes::Bytes,
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    /// The body of a route that streams.
    pub(crate) stream: Body,
    /// Fields of the body that are ignored.
    pub(crate) ignored: &'static [&'static str],
}

/// The schemas of a route's input and output.
pub(crate) struct RouteSchemas {
    /// The parameters of the path, in order.
    pub(crate) path_parameters: Vec<Schema>,
    /// The query.
    pub(crate) query: Schema,
    /// The body; only meaningful if the method has one.
    pub(crate) body: Schema,
    /// The success response.
    pub(crate) response: ResponseSpec,
}

impl Route {
    /// Declares a route. The types of the handler determine the schemas.
    pub(crate) fn new<P, Q, B, R, H, F>(
        method: Method,
        path: &'static str,
        action: Action,
        summary: &'static str,
        handler: H,
    ) -> Route
    where
        P: PathParameters,
        Q: DeserializeOwned + JsonSchema + Send + 'static,
        B: DeserializeOwned + JsonSchema + Send + 'static,
        R: HandlerReply,
        H: Fn(Input<P, Q, B>) -> F + Send + Sync + Copy + 'static,
        F: Future<Output = Result<R, Problem>> + Send + 'static,
    {
        let run = move |request: AuthorizedRequest| -> Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>> {
            Box::pin(async move {
                let AuthorizedRequest { call, path_parameters, uri, body: text, ignored, .. } = request;
                let parameter = P::read(&path_parameters)?;
                let query = parse::query(&uri)?;
                let body = parse::json(&text, ignored)?;
                let answered = handler(Input { call, parameter, query, body }).await;
                Ok(answered.map_err(|problem| parse::with_given_names(problem, &text))?.respond())
            })
        };
        let schemas = |schemas: &mut SchemaGenerator| RouteSchemas {
            path_parameters: P::schemas(schemas),
            query: Q::json_schema(schemas),
            body: schemas.subschema_for::<B>(),
            response: R::spec(schemas),
        };
        let check_body = |example: &Value| parse::json::<B>(example.to_string().as_bytes(), &[]).map(drop);
        Route::with(method, path, action, summary, schemas, check_body, Arc::new(run))
    }

    /// Declares a route whose handler reads the body as it arrives, or answers with bytes. `media` is the type of the body.
    pub(crate) fn streaming<P, Q, R, H, F>(
        method: Method,
        path: &'static str,
        action: Action,
        summary: &'static str,
        media: &'static str,
        handler: H,
    ) -> Route
    where
        P: PathParameters,
        Q: DeserializeOwned + JsonSchema + Send + 'static,
        R: HandlerReply,
        H: Fn(Streamed<P, Q>) -> F + Send + Sync + Copy + 'static,
        F: Future<Output = Result<R, Problem>> + Send + 'static,
    {
        let run = move |request: AuthorizedRequest| -> Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>> {
            Box::pin(async move {
                let AuthorizedRequest { call, path_parameters, uri, method, headers, stream, .. } = request;
                let parameter = P::read(&path_parameters)?;
                let query = parse::query(&uri)?;
                Ok(handler(Streamed { call, parameter, query, method, headers, body: stream }).await?.respond())
            })
        };
        let schemas = |schemas: &mut SchemaGenerator| RouteSchemas {
            path_parameters: P::schemas(schemas),
            query: Q::json_schema(schemas),
            body: schemars::json_schema!({ "type": "string", "format": "binary" }),
            response: R::spec(schemas),
        };
        let route = Route::with(method, path, action, summary, schemas, |_| Ok(()), Arc::new(run));
        Route { streams: Some(media), waits: true, ..route }
    }

    fn with(
        method: Method,
        path: &'static str,
        action: Action,
        summary: &'static str,
        schemas: fn(&mut SchemaGenerator) -> RouteSchemas,
        check_body: fn(&Value) -> Result<(), Problem>,
        handler: Arc<Handler>,
    ) -> Route {
        Route {
            method,
            path,
            action,
            summary,
            waits: false,
            health: false,
            metered: true,
            answer_bytes_max: 0,
            always_there: false,
            retry_safety: RetrySafety::Key,
            takes_if_match: false,
            ignored: &[],
            body_bytes_max: limits::BODY_BYTES_MAX,
            streams: None,
            headers: &[],
            problems: &[],
            example: None,
            schemas,
            check_body,
            handler,
        }
    }

    /// Sets the example of the body.
    pub(crate) fn example(self, example: Value) -> Route {
        Route { example: Some(example), ..self }
    }

    /// Marks a route whose requests last as long as the caller chooses.
    pub(crate) fn waits(self) -> Route {
        Route { waits: true, ..self }
    }

    /// Marks a health or metrics route.
    pub(crate) fn health(self) -> Route {
        Route { health: true, ..self }
    }

    /// Marks a route that a metered principal can use whatever is left of its quota. It costs nothing.
    pub(crate) fn unmetered(self) -> Route {
        Route { metered: false, ..self }
    }

    /// Marks a route that returns a page of a list.
    pub(crate) fn pages(self) -> Route {
        Route { answer_bytes_max: limits::PAGE_ANSWER_BYTES, ..self }
    }

    /// Marks a route whose response contains payloads.
    pub(crate) fn carries_payloads(self) -> Route {
        Route { answer_bytes_max: limits::ITEM_ANSWER_BYTES, ..self }
    }

    /// Marks a route whose resource exists without being created, so it never returns 404.
    pub(crate) fn always_there(self) -> Route {
        Route { always_there: true, ..self }
    }

    /// Marks a route that supports `If-Match`.
    pub(crate) fn takes_if_match(self) -> Route {
        Route { takes_if_match: true, ..self }
    }

    /// Sets the read-only fields of the answer that the body may have too, so that an answer can be changed and sent back.
    pub(crate) fn ignores(self, fields: &'static [&'static str]) -> Route {
        Route { ignored: fields, ..self }
    }

    /// Sets what makes a retry safe, if it is not the idempotency key.
    pub(crate) fn retry_safety(self, retry_safety: RetrySafety) -> Route {
        Route { retry_safety, ..self }
    }

    /// Sets headers of every response, also of problems.
    pub(crate) fn headers(self, headers: &'static [(&'static str, &'static str)]) -> Route {
        Route { headers, ..self }
    }

    /// Sets further problems that the route can return.
    pub(crate) fn problems(self, problems: &'static [u16]) -> Route {
        Route { problems, ..self }
    }

    /// Sets the maximum size of the body in bytes.
    pub(crate) fn body_up_to(self, bytes: usize) -> Route {
        Route { body_bytes_max: bytes, ..self }
    }

    /// Returns the name of the method.
    pub(crate) fn method_name(&self) -> &'static str {
        match self.method.as_str() {
            "GET" => "GET",
            "POST" => "POST",
            "PUT" => "PUT",
            "PATCH" => "PATCH",
            "DELETE" => "DELETE",
            "OPTIONS" => "OPTIONS",
            other => unreachable!("no route uses the method {other}"),
        }
    }

    /// Returns whether requests have a body.
    pub(crate) fn takes_body(&self) -> bool {
        self.method == Method::POST || self.method == Method::PUT || self.method == Method::PATCH
    }

    /// Returns whether the route uses the `Idempotency-Key` header.
    pub(crate) fn is_keyed(&self) -> bool {
        self.writes() && self.retry_safety == RetrySafety::Key
    }

    /// Returns whether the route can change data.
    pub(crate) fn writes(&self) -> bool {
        self.method != Method::GET && self.method != Method::OPTIONS
    }

    /// Parses the request and runs the handler.
    pub(crate) async fn run(&self, request: AuthorizedRequest) -> Result<Response, Problem> {
        (self.handler)(request).await
    }
}
