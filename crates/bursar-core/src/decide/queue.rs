//! Decides the settings of queues.

use crate::context::Context;
use crate::event::Event;
use crate::job::QueueConfig;
use crate::name::Queue;
use crate::state::Workspace;

/// Returns the settings of a queue, or the default settings if it has none.
pub(super) fn config(ws: &Workspace, context: &Context, queue: &Queue) -> QueueConfig {
    let row = ws.queues.get(&(context.tenant.clone(), queue.clone()));
    row.map(|row| row.config.clone()).unwrap_or_default()
}

pub(super) fn define(queue: &Queue, config: &QueueConfig) -> Vec<Event> {
    vec![Event::QueueDefined { queue: queue.clone(), config: Box::new(config.clone()) }]
}

pub(super) fn pause(ws: &Workspace, context: &Context, queue: &Queue, paused: bool) -> Vec<Event> {
    let config = config(ws, context, queue);
    if config.paused == paused { Vec::new() } else { define(queue, &QueueConfig { paused, ..config }) }
}
