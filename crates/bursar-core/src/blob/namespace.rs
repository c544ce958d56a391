//! Namespaces: groups of blobs with the same rules.

use serde::{Deserialize, Serialize};

use crate::bounds::{BLOB_BYTES_MAX, BLOB_KEPT_MAX};
use crate::id::BatchId;
use crate::name::Scope;
use crate::refusal::Invalid;
use crate::time::Span;

/// The rules of a namespace. A namespace that was never configured has the defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NamespaceConfig {
    /// The most bytes of one blob.
    pub bytes_max: u64,
    /// The scope that stored bytes are charged to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charge: Option<Scope>,
    /// How long a deleted blob can be restored.
    pub grace: Span,
    /// How long a blob without references is kept; `None` keeps it until it is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreferenced: Option<Span>,
}

impl Default for NamespaceConfig {
    fn default() -> NamespaceConfig {
        NamespaceConfig { bytes_max: BLOB_BYTES_MAX, charge: None, grace: Span::from_days(7), unreferenced: None }
    }
}

impl NamespaceConfig {
    /// Refuses values out of range.
    pub fn check(&self) -> Result<(), Invalid> {
        if !(1..=BLOB_BYTES_MAX).contains(&self.bytes_max) {
            return Err(Invalid::new("bytes_max", format!("must be from 1 to {BLOB_BYTES_MAX}")));
        }
        self.charge.as_ref().map_or(Ok(()), Scope::check_own)?;
        for (field, span) in [("grace_ms", Some(self.grace)), ("unreferenced_ms", self.unreferenced)] {
            if span.is_some_and(|span| span > BLOB_KEPT_MAX) {
                return Err(Invalid::new(field, format!("is above {}", BLOB_KEPT_MAX.millis())));
            }
        }
        Ok(())
    }
}

/// The row of a configured namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceState {
    /// Its rules.
    pub config: NamespaceConfig,
    /// The number of its events so far.
    pub version: u64,
    /// The last transaction with an event of the namespace.
    pub last: Option<BatchId>,
}
