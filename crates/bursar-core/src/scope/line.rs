//! Lines of flow keys, as the scopes of their slots keep them.

use serde::{Deserialize, Serialize};

use crate::name::JobKind;

/// The line of a flow key: how many wait in it. Follows from the jobs, and is not in the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Of each kind, the first included.
    pub waiting: Vec<(JobKind, u64)>,
    /// Firsts that are barred as the key is at its limit.
    pub barred: u64,
}

impl Line {
    /// How many of a kind wait.
    pub fn len(&self, kind: &JobKind) -> u64 {
        self.waiting.iter().find(|(known, _)| known == kind).map_or(0, |(_, count)| *count)
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn add(&mut self, kind: &JobKind) {
        match self.waiting.iter_mut().find(|(known, _)| known == kind) {
            Some((_, count)) => *count += 1,
            None => self.waiting.push((kind.clone(), 1)),
        }
    }

    pub(crate) fn take(&mut self, kind: &JobKind) {
        if let Some((_, count)) = self.waiting.iter_mut().find(|(known, _)| known == kind) {
            *count = count.saturating_sub(1);
        }
        self.waiting.retain(|(_, count)| *count > 0);
    }
}
