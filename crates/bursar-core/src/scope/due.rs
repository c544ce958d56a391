//! What is read of a scope before it can be brought to an instant: what is due, and what history says of a window.

use crate::live::{ChargeMark, LiveCharge};
use crate::scope::{Posting, PostingMark};
use crate::time::Time;

/// What has become due on a scope, in order, as far as one step reads it.
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// Charges of expired holds after the mark `folded`.
    pub charges: Batchwise<LiveCharge>,
    /// For each rolling balance, by its place in `balances`, the postings that left it.
    pub postings: Vec<(usize, Batchwise<Posting>)>,
}

/// A bounded step through something ordered.
#[derive(Clone, Debug)]
pub struct Batchwise<T> {
    /// What is due, in order.
    pub items: Vec<T>,
    /// More is due than one step reads.
    pub more: bool,
    /// When the first one that is not yet due will be.
    pub next: Time,
}

impl<T> Default for Batchwise<T> {
    fn default() -> Self {
        Batchwise { items: Vec::new(), more: false, next: Time::NEVER }
    }
}

/// What to read in order to fold a scope up to `now`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueAsk {
    /// Charges after this mark that expire up to now, if any can be due.
    pub charges_after: Option<ChargeMark>,
    /// For the rolling balance at this place: postings after the mark, up to the instant.
    pub postings: Vec<(usize, PostingMark, Time)>,
}

impl DueAsk {
    /// Nothing can be due.
    pub fn is_empty(&self) -> bool {
        self.charges_after.is_none() && self.postings.is_empty()
    }
}

/// What belongs to a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Postings after this mark …
    pub after: PostingMark,
    /// … and before this instant; holds placed before it too …
    pub until: Time,
    /// … and not before this one.
    pub placed_from: Time,
}

/// What history says of a window that is opened on a scope with a past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Units posted in it.
    pub posted: i64,
    /// Units of live holds placed in it.
    pub held: i64,
    /// The oldest posting in it.
    pub oldest: Option<Time>,
}
