//! A route: declared once, with everything that is to be known of it.

use std::pin::Pin;
use std::sync::Arc;

use axum::http::Method;
use axum::response::Response;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::body;
use crate::call::{Ask, At, Call};
use crate::limits;
use crate::principal::table::Action;
use crate::reply::{Answered, Answers};
use crate::wire::problem::Problem;

/// A route. There is no way to make one that does not say which action it is.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) action: Action,
    pub(crate) summary: &'static str,
    /// It may take as long as its caller wants: it stands in a line of its own.
    pub(crate) waits: bool,
    /// It tells how the server is: it has places of its own.
    pub(crate) health: bool,
    /// Bytes that its answer may come to, where that can be many: room for them is made before it is begun.
    pub(crate) answer_bytes_max: usize,
    /// What stands at its path is there for whoever asks, as nobody has to make it first.
    pub(crate) always_there: bool,
    /// What makes a repetition safe, if it changes anything.
    pub(crate) repeats: Repeats,
    /// What it changes can be named as it was read: it takes `If-Match`.
    pub(crate) edits: bool,
    pub(crate) body_bytes_max: usize,
    pub(crate) example: Option<Value>,
    pub(crate) described: fn(&mut SchemaGenerator) -> Described,
    pub(crate) readable: fn(&Value) -> Result<(), Problem>,
    run: Arc<Run>,
}

/// What makes it safe to repeat a request that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// The idempotency key.
    Key,
    /// The fence of the lease: the same report again is answered in the same way. A key is taken and not looked at.
    Fence,
}

type Run = dyn Fn(Incoming) -> Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>> + Send + Sync;

/// A request that was let in, before its parts are read.
pub(crate) struct Incoming {
    pub(crate) call: Call,
    pub(crate) at: Option<String>,
    pub(crate) uri: axum::http::Uri,
    pub(crate) body: bytes::Bytes,
}

/// What a route takes and answers, as schemas.
pub(crate) struct Described {
    /// The part of the path.
    pub(crate) at: Option<Schema>,
    /// The query.
    pub(crate) query: Schema,
    /// The body, where the method has one.
    pub(crate) body: Schema,
    /// The answer.
    pub(crate) answers: Answered,
}

impl Route {
    /// Declares a route; its handler's types say what it takes and answers.
    pub(crate) fn new<P, Q, B, R, H, F>(
        method: Method,
        path: &'static str,
        action: Action,
        summary: &'static str,
        handler: H,
    ) -> Route
    where
        P: At,
        Q: DeserializeOwned + JsonSchema + Send + 'static,
        B: DeserializeOwned + JsonSchema + Send + 'static,
        R: Answers,
        H: Fn(Ask<P, Q, B>) -> F + Send + Sync + Copy + 'static,
        F: Future<Output = Result<R, Problem>> + Send + 'static,
    {
        let run = move |incoming: Incoming| -> Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>> {
            Box::pin(async move {
                let Incoming { call, at, uri, body } = incoming;
                let at = P::read(at.as_deref())?;
                let query = body::query(&uri)?;
                let body = body::json(&body)?;
                Ok(handler(Ask { call, at, query, body }).await?.respond())
            })
        };
        Route {
            method,
            path,
            action,
            summary,
            waits: false,
            health: false,
            answer_bytes_max: 0,
            always_there: false,
            repeats: Repeats::Key,
            edits: false,
            body_bytes_max: limits::BODY_BYTES_MAX,
            example: None,
            described: |schemas| Described {
                at: P::schema(schemas),
                query: Q::json_schema(schemas),
                body: schemas.subschema_for::<B>(),
                answers: R::answered(schemas),
            },
            readable: |example| body::json::<B>(example.to_string().as_bytes()).map(drop),
            run: Arc::new(run),
        }
    }

    /// With an example of its body.
    pub(crate) fn example(self, example: Value) -> Route {
        Route { example: Some(example), ..self }
    }

    /// It may take as long as its caller wants.
    pub(crate) fn waits(self) -> Route {
        Route { waits: true, ..self }
    }

    /// It tells how the server is.
    pub(crate) fn health(self) -> Route {
        Route { health: true, ..self }
    }

    /// It answers a page of a list.
    pub(crate) fn pages(self) -> Route {
        Route { answer_bytes_max: limits::PAGE_ANSWER_BYTES, ..self }
    }

    /// It answers something with payloads.
    pub(crate) fn carries_payloads(self) -> Route {
        Route { answer_bytes_max: limits::ITEM_ANSWER_BYTES, ..self }
    }

    /// What stands at its path need not be made first: it is never not found.
    pub(crate) fn always_there(self) -> Route {
        Route { always_there: true, ..self }
    }

    /// It changes something only if it is as it was read, where the caller says so.
    pub(crate) fn edits(self) -> Route {
        Route { edits: true, ..self }
    }

    /// What makes a repetition safe, where it is not the key.
    pub(crate) fn repeats(self, repeats: Repeats) -> Route {
        Route { repeats, ..self }
    }

    /// With a larger body than others.
    pub(crate) fn body_up_to(self, bytes: usize) -> Route {
        Route { body_bytes_max: bytes, ..self }
    }

    /// The name of its method.
    pub(crate) fn method_name(&self) -> &'static str {
        match self.method.as_str() {
            "GET" => "GET",
            "POST" => "POST",
            "PUT" => "PUT",
            "PATCH" => "PATCH",
            "DELETE" => "DELETE",
            other => unreachable!("no route is declared with {other}"),
        }
    }

    /// Whether it takes a body.
    pub(crate) fn takes_body(&self) -> bool {
        self.method == Method::POST || self.method == Method::PUT || self.method == Method::PATCH
    }

    /// Whether a key makes a repetition safe.
    pub(crate) fn is_keyed(&self) -> bool {
        self.writes() && self.repeats == Repeats::Key
    }

    /// Whether it changes anything.
    pub(crate) fn writes(&self) -> bool {
        self.method != Method::GET
    }

    pub(crate) async fn run(&self, incoming: Incoming) -> Result<Response, Problem> {
        (self.run)(incoming).await
    }
}
