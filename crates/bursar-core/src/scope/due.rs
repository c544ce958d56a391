//! What a store reads for a scope before it can be brought to an instant: due items, and the history of a window.

use crate::live::{ChargeMark, LiveCharge};
use crate::scope::{Posting, PostingMark};
use crate::time::Time;

/// The items due on a scope, as many as one step folds.
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// Charges of expired holds after the mark [`ScopeState::folded`](super::ScopeState::folded).
    pub charges: DueStep<LiveCharge>,
    /// For each rolling balance, by its index in `balances`: the postings that left it.
    pub postings: Vec<(usize, DueStep<Posting>)>,
}

/// A bounded number of due items, in order.
#[derive(Clone, Debug)]
pub struct DueStep<T> {
    /// The due items.
    pub items: Vec<T>,
    /// Whether more items are due than one step folds.
    pub more: bool,
    /// When the first item that is not due yet becomes due.
    pub next: Time,
}

impl<T> Default for DueStep<T> {
    fn default() -> Self {
        DueStep { items: Vec::new(), more: false, next: Time::NEVER }
    }
}

/// What to read to bring a scope to `now`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueQuery {
    /// The mark after which to read charges that expire up to now; `None` if none can be due.
    pub charges_after: Option<ChargeMark>,
    /// For rolling balances, by index: read postings after the mark, up to the instant.
    pub postings: Vec<(usize, PostingMark, Time)>,
}

impl DueQuery {
    /// Returns whether nothing can be due.
    pub fn is_empty(&self) -> bool {
        self.charges_after.is_none() && self.postings.is_empty()
    }
}

/// The postings and live holds that belong to a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Postings after this mark belong to it.
    pub after: PostingMark,
    /// Postings and holds at or after this instant do not.
    pub until: Time,
    /// Holds placed at or after this instant belong to it.
    pub placed_from: Time,
}

/// The history of a window that is opened on a scope with postings or holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowHistory {
    /// Units posted in it.
    pub posted: i64,
    /// Units of live holds placed in it.
    pub held: i64,
    /// The instant of the oldest posting in it.
    pub oldest: Option<Time>,
}
