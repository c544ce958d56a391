//! A cursor over the events of a request, without the consequences of spend.

use std::collections::{BTreeSet, VecDeque};

use bursar_core::event::Event;
use bursar_core::name::Scope;

use super::expect::{Case, Check};
use super::follow::is_consequence;
use super::model::Model;

/// The events of a request that were not judged yet, and the scopes of those that were.
pub(super) struct EventCursor<'a> {
    events: VecDeque<&'a Event>,
    touched: BTreeSet<Scope>,
}

impl<'a> EventCursor<'a> {
    pub(super) fn of(case: &'a Case<'_>) -> EventCursor<'a> {
        let events = case.events().filter(|event| !is_consequence(event)).collect();
        EventCursor { events, touched: BTreeSet::new() }
    }

    pub(super) fn next(&mut self, expected: &str) -> Check<&'a Event> {
        let event =
            self.events.pop_front().ok_or_else(|| format!("expected {expected}, but there is no further event"))?;
        self.touched.extend(event.scopes().into_iter().cloned());
        Ok(event)
    }

    pub(super) fn peek(&self) -> Option<&'a Event> {
        self.events.front().copied()
    }

    /// Returns the events that were not judged yet.
    pub(super) fn rest(&self) -> impl Iterator<Item = &'a Event> {
        self.events.iter().copied()
    }
}

impl Model {
    /// Checks that every event was judged, and then the consequences for the scopes they touched.
    pub(super) fn follow_all(&mut self, case: &Case<'_>, events: EventCursor<'_>) -> Check {
        match events.peek() {
            Some(event @ (Event::BlobReferenced { .. } | Event::BlobReleased { .. })) => {
                Err(format!("references: {event:?} is not expected"))
            }
            Some(event) => Err(format!("{event:?} is not expected")),
            None => self.follow(case, events.touched.into_iter().collect()),
        }
    }
}
