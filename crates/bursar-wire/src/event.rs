//! Events of the journal.

use bursar_core::event::{CheckpointedJob, Event, GrownBlob, LeasedJob, StartedBlob, StoredBlob, Stream};
use bursar_core::id::CommandId;
use bursar_core::job::Emit;
use bursar_core::name::Tenant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::borrow::Cow;

use crate::budget::{ActorAnswer, BudgetBody, WouldRefuseAnswer};
use crate::command::{ChargeAnswer, charges};
use crate::hold::{ClampedAnswer, OnExpiryBody};
use crate::job::{ErrorAnswer, JobBody};
use crate::namespace::NamespaceBody;
use crate::queue::QueueBody;
use crate::schedule::ScheduleBody;
use crate::stamp;
use crate::window::WindowFields;

/// An event of the journal.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct EventAnswer {
    /// The position in the journal: without gaps, in the order of commits.
    pub position: u64,
    /// The object that the event changed.
    pub stream: StreamAnswer,
    /// The version of that object after the event.
    pub version: u64,
    /// The type of the event, such as `hold.placed`.
    pub kind: Cow<'static, str>,
    /// When the event happened.
    pub at: Option<String>,
    /// The command that caused the event.
    pub command: CommandId,
    /// The caller of the command.
    pub actor: ActorAnswer,
    pub tenant: Tenant,
    /// The correlation id that the caller gave.
    pub correlation_id: Option<String>,
    /// The W3C trace context in which the job was enqueued; for events of other objects, that of the request.
    pub traceparent: Option<String>,
    /// The reason that the caller gave.
    pub reason: Option<String>,
    /// The fields of the event; they depend on `kind`.
    pub data: Value,
}

/// The object that an event changed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct StreamAnswer {
    /// The type of the object, such as `hold` or `job`.
    pub kind: Cow<'static, str>,
    /// The id or the name of the object.
    pub id: String,
}

/// Returns the id of a stream without its tenant, which an event has in a field of its own.
pub fn stream_id(stream: &Stream) -> String {
    match stream {
        Stream::Scope(_, scope) => scope.to_string(),
        Stream::Queue(_, queue) => queue.to_string(),
        Stream::Schedule(_, schedule) => schedule.to_string(),
        Stream::Namespace(_, namespace) => namespace.to_string(),
        other => other.to_string(),
    }
}

/// Returns the `data` of an event. Digests of tokens are left out.
pub fn data(event: &Event) -> Value {
    match event {
        Event::HoldPlaced {
            hold,
            charges: charged,
            expires_at,
            life_until,
            late,
            overrun,
            job,
            clamped,
            on_expiry,
        } => json!({
            "hold": hold, "charges": charges(charged), "expires_at": stamp(*expires_at),
            "life_until": stamp(*life_until), "late": late, "overrun": overrun, "job": job,
            "clamped": clamped.as_ref().map(ClampedAnswer::from), "on_expiry": OnExpiryBody::of(*on_expiry),
        }),
        Event::HoldCommitted { hold, charges: charged, late, overrun } => {
            json!({ "hold": hold, "charges": charges(charged), "late": late, "overrun": overrun })
        }
        Event::HoldReleased { hold, charges: charged } => json!({ "hold": hold, "charges": charges(charged) }),
        Event::HoldExpired { hold, at, scopes, charged } => {
            json!({ "hold": hold, "at": stamp(*at), "scopes": scopes, "charged": charged })
        }
        Event::HoldExtended { hold, expires_at, scopes, clamped } => {
            let clamped = clamped.as_ref().map(ClampedAnswer::from);
            json!({ "hold": hold, "expires_at": stamp(*expires_at), "scopes": scopes, "clamped": clamped })
        }
        Event::Posted { charges: charged } => json!({ "charges": charges(charged) }),
        Event::Credited { charge, at, hold, beyond, excess } => {
            let beyond = beyond.as_ref().map(|beyond| json!({ "at": stamp(beyond.at), "scopes": beyond.left }));
            let charge = ChargeAnswer::from(charge);
            json!({ "charge": charge, "at": stamp(*at), "hold": hold, "beyond": beyond, "excess": excess })
        }
        Event::BudgetRemoved { scope } => json!({ "scope": scope }),
        Event::BudgetDefined { scope, budget } => json!({ "scope": scope, "budget": BudgetBody::from(&**budget) }),
        Event::BudgetFrozen { scope } => json!({ "scope": scope }),
        Event::BudgetTripped { scope, window, limit, spent, until } => with_window(
            window,
            json!({ "scope": scope, "limit": limit, "spent": spent, "until": until.and_then(stamp) }),
        ),
        Event::BudgetUnfrozen { scope, turned } => json!({ "scope": scope, "turned": turned }),
        Event::BudgetCrossed { scope, window, percent, limit, spent } => {
            with_window(window, json!({ "scope": scope, "percent": percent, "limit": limit, "spent": spent }))
        }
        Event::BudgetCleared { scope, window, percent } => {
            with_window(window, json!({ "scope": scope, "percent": percent }))
        }
        Event::BudgetWouldRefuse(shadowed) => {
            json!(WouldRefuseAnswer::from(shadowed))
        }
        Event::GrantMinted { grant, purpose, subject, payload, expires_at, digest: _ } => json!({
            "grant": grant, "purpose": purpose, "subject": subject, "payload": payload,
            "expires_at": stamp(*expires_at),
        }),
        Event::GrantRedeemed { grant, purpose } => json!({ "grant": grant, "purpose": purpose }),
        Event::GrantCurtailed { grant, expires_at } => json!({ "grant": grant, "expires_at": stamp(*expires_at) }),
        Event::GrantUsed { grant }
        | Event::GrantRevoked { grant }
        | Event::GrantErased { grant }
        | Event::GrantPurged { grant } => json!({ "grant": grant }),
        Event::JobEnqueued { job, spec, run_at, hold } => {
            json!({ "job": job, "spec": JobBody::from(&**spec), "run_at": stamp(*run_at), "hold": hold })
        }
        Event::QueueDefined { queue, config } => json!({ "queue": queue, "config": QueueBody::from(&**config) }),
        event => blob_data(event).unwrap_or_else(|| job_data(event)),
    }
}

/// Returns the `data` of an event of a blob or a namespace; `None` for other events.
fn blob_data(event: &Event) -> Option<Value> {
    Some(match event {
        Event::NamespaceDefined { namespace, config } => {
            json!({ "namespace": namespace, "config": NamespaceBody::from(&**config) })
        }
        Event::BlobStarted(StartedBlob { blob, spec, due_at, charge, hold }) => json!({
            "blob": blob, "namespace": spec.namespace, "backend": spec.backend, "filename": spec.filename,
            "content_type": spec.content_type, "metadata": spec.metadata, "size": spec.size, "sha256": spec.digest,
            "due_at": stamp(*due_at), "charge": charge, "hold": hold,
        }),
        Event::BlobGrown(GrownBlob { blob, due_at, hold }) => {
            json!({ "blob": blob, "due_at": stamp(*due_at), "hold": hold })
        }
        Event::BlobStored(StoredBlob { blob, size, digest, due_at }) => {
            json!({ "blob": blob, "size": size, "sha256": digest, "due_at": stamp(*due_at) })
        }
        Event::BlobReferenced { blob, by } => json!({ "blob": blob, "by": by }),
        Event::BlobReleased { blob, by, due_at } => json!({ "blob": blob, "by": by, "due_at": stamp(*due_at) }),
        Event::BlobDeleted { blob, due_at } | Event::BlobRestored { blob, due_at } => {
            json!({ "blob": blob, "due_at": stamp(*due_at) })
        }
        Event::BlobMoved { blob, backend } => json!({ "blob": blob, "backend": backend }),
        Event::BlobDoomed { blob, found } => json!({ "blob": blob, "found": found }),
        Event::BlobCollected { blob } => json!({ "blob": blob }),
        _ => return None,
    })
}

/// Returns the `data` of an event of an existing job or of a schedule.
fn job_data(event: &Event) -> Value {
    match event {
        Event::JobLeased(LeasedJob { job, fence, attempt, worker, lease, deadline, slots, owner }) => json!({
            "job": job, "fence": fence, "attempt": attempt, "worker": worker, "lease_ms": lease.millis(),
            "deadline": stamp(*deadline), "slots": slots, "owner": owner,
        }),
        Event::JobSucceeded { job, fence, result } => json!({ "job": job, "fence": fence, "result": result }),
        Event::JobFailed { job, fence, attempt, worker, error, run_at }
        | Event::JobRescued { job, fence, attempt, worker, error, run_at } => json!({
            "job": job, "fence": fence, "attempt": attempt, "worker": worker, "error": ErrorAnswer::from(error),
            "run_at": run_at.and_then(stamp),
        }),
        Event::JobCheckpointed(CheckpointedJob { job, fence, report: _, checkpoint, percent, message, data }) => {
            json!({
                "job": job, "fence": fence, "checkpoint": checkpoint, "percent": percent, "message": message, "data": data,
            })
        }
        Event::JobEmitted(Emit { job, fence, event, data }) => {
            json!({ "job": job, "fence": fence, "event": event, "data": data })
        }
        Event::JobSnoozed { job, fence, run_at } => json!({ "job": job, "fence": fence, "run_at": stamp(*run_at) }),
        Event::JobReturned { job, fence } => json!({ "job": job, "fence": fence }),
        Event::JobParked { job, scope, run_at } => json!({ "job": job, "scope": scope, "run_at": stamp(*run_at) }),
        Event::JobResumed { job, scope, hold } => json!({ "job": job, "scope": scope, "hold": hold }),
        Event::JobRetried { job, hold } => json!({ "job": job, "hold": hold }),
        Event::JobFunded { job, hold } => json!({ "job": job, "hold": hold }),
        Event::JobMoved { job, queue } => json!({ "job": job, "queue": queue }),
        Event::JobEdited { job, priority, run_at } => {
            json!({ "job": job, "priority": priority, "run_at": stamp(*run_at) })
        }
        Event::JobBilled { job, fence, charges: charged, lost } => {
            json!({ "job": job, "fence": fence, "charges": charges(charged), "lost": lost })
        }
        Event::ScheduleDefined { schedule, next_at, spec } => {
            json!({ "schedule": schedule, "spec": ScheduleBody::from(&**spec), "next_at": stamp(*next_at) })
        }
        Event::ScheduleRemoved { schedule } => json!({ "schedule": schedule }),
        Event::ScheduleTicked { schedule, tick, job, next_at } => {
            json!({ "schedule": schedule, "tick": stamp(*tick), "job": job, "next_at": stamp(*next_at) })
        }
        Event::ScheduleSkipped { schedule, tick, next_at } => {
            json!({ "schedule": schedule, "tick": stamp(*tick), "next_at": stamp(*next_at) })
        }
        // The remaining events have no fields beside the job.
        other => json!({ "job": other.job() }),
    }
}

/// Adds the fields of a window to the data.
fn with_window(window: &bursar_core::window::Window, mut data: Value) -> Value {
    if let (Some(data), Ok(Value::Object(fields))) =
        (data.as_object_mut(), serde_json::to_value(WindowFields::from(window)))
    {
        data.extend(fields);
    }
    data
}
