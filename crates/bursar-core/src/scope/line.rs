//! The number of jobs waiting under a flow key, kept in the row of the key's slot scope.

use serde::{Deserialize, Serialize};

use crate::name::JobKind;

/// The jobs waiting under a flow key. It follows from the jobs and is not in the journal; see [`crate::job::Place`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The number of waiting jobs of each kind, the head of the line included.
    pub waiting: Vec<(JobKind, u64)>,
    /// The number of heads that are barred because the key is at its concurrency limit.
    pub barred: u64,
}

impl Line {
    /// Returns the number of waiting jobs of a kind.
    pub fn len(&self, kind: &JobKind) -> u64 {
        self.waiting.iter().find(|(known, _)| known == kind).map_or(0, |(_, count)| *count)
    }

    /// Returns whether no job waits.
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
