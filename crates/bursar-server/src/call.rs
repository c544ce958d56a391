//! What a handler is given: who asks, for whom, and the parts of the request.

use std::sync::Arc;

use bursar::{
    Bursar, CommandId, Context, GrantId, HoldId, IdempotencyKey, IfMatch, JobId, KeyId, Op, Outcome, Queue, Request,
    ScheduleName, Scope, WorkerId,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

use crate::app::App;
use crate::principal::Principal;
use crate::wire::problem::Problem;

/// A request that was let in and read.
pub(crate) struct Ask<P = (), Q = Nothing, B = Nothing> {
    /// Who asks, for whom.
    pub(crate) call: Call,
    /// The part of the path.
    pub(crate) at: P,
    /// The query.
    pub(crate) query: Q,
    /// The body.
    pub(crate) body: B,
}

/// No field at all: one that is given is refused by its name.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// Who asks, for whom, and in which circumstances.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) app: Arc<App>,
    pub(crate) principal: Principal,
    pub(crate) context: Context,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) if_match: Option<IfMatch>,
    /// What the caller has seen of the stream of events.
    pub(crate) last_event: Option<String>,
}

impl Call {
    /// Bursar, acting for the caller.
    pub(crate) fn bursar(&self) -> Bursar {
        self.app.bursar.in_context(self.context.clone())
    }

    /// The same call, with a reason for the journal.
    pub(crate) fn because(mut self, reason: Option<String>) -> Call {
        self.context.reason = reason.or(self.context.reason);
        self
    }

    /// Asks for anything, once however often under the same key.
    pub(crate) async fn ask(&self, op: Op) -> Result<Outcome, Problem> {
        let request = Request {
            idempotency_key: self.key.clone(),
            if_match: self.if_match,
            ..Request::from(op).in_context(self.context.clone())
        };
        self.submit(request).await
    }

    /// Does a request.
    pub(crate) async fn submit(&self, request: Request) -> Result<Outcome, Problem> {
        Ok(self.app.bursar.request(request).await?)
    }
}

/// A part of the path.
pub(crate) trait At: Sized + Send + 'static {
    /// Reads it.
    fn read(text: Option<&str>) -> Result<Self, Problem>;
    /// What it looks like.
    fn schema(schemas: &mut SchemaGenerator) -> Option<Schema>;
}

impl At for () {
    fn read(_: Option<&str>) -> Result<(), Problem> {
        Ok(())
    }

    fn schema(_: &mut SchemaGenerator) -> Option<Schema> {
        None
    }
}

macro_rules! at {
    ($($name:ty),*) => {$(
        impl At for $name {
            fn read(text: Option<&str>) -> Result<$name, Problem> {
                Ok(text.unwrap_or_default().parse()?)
            }

            fn schema(schemas: &mut SchemaGenerator) -> Option<Schema> {
                Some(schemas.subschema_for::<$name>())
            }
        }
    )*};
}

at!(CommandId, GrantId, HoldId, JobId, KeyId, Queue, ScheduleName, Scope, WorkerId);
