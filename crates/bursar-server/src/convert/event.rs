//! Events of the journal.

use bursar::JournalEvent;

use crate::wire::budget::ActorAnswer;
use crate::wire::event::{EventAnswer, StreamAnswer, data, stream_id};
use crate::wire::stamp;

/// Returns an event of the journal.
pub fn event_answer(event: &JournalEvent) -> EventAnswer {
    EventAnswer {
        position: event.position,
        stream: StreamAnswer { kind: event.stream.kind().into(), id: stream_id(&event.stream) },
        version: event.version,
        kind: event.event.kind().into(),
        at: stamp(event.at),
        command: event.command,
        actor: ActorAnswer::from(&event.context.actor),
        tenant: event.context.tenant.clone(),
        correlation_id: event.context.correlation_id.clone(),
        traceparent: event.traceparent.map(|parent| parent.to_string()),
        reason: event.context.reason.clone(),
        data: data(&event.event),
    }
}
