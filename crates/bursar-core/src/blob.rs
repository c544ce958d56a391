//! Blobs: the metadata of bytes that a storage backend keeps.
//!
//! # States
//!
//! ```text
//! pending ──▶ live ──▶ doomed ──▶ (no row)
//!    └───────────────────▲
//! ```
//!
//! A blob is *pending* while its bytes are uploaded, *live* once they are stored and verified, and *doomed* when nothing
//! needs it any more. Only the bytes of doomed blobs are deleted, and a doomed blob never becomes live again. After its
//! bytes are gone, its row is removed. So a row is always there before its bytes and after them, and a crash between any
//! two steps leaves a row that says what is left to do.
//!
//! Every blob has its own object in the backend, named after its id. Two uploads never write the same object, and the
//! collection of one blob cannot delete the bytes of another.
//!
//! # References
//!
//! Jobs and the application refer to blobs. A blob with a reference is not collected. A live blob becomes due for
//! collection when a caller deletes it, or, if its namespace says so, when it has no reference for a while.

mod digest;
mod namespace;
mod spec;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use self::digest::Sha256Digest;
pub use self::namespace::{NamespaceConfig, NamespaceState};
pub use self::spec::BlobSpec;
use crate::context::Actor;
use crate::id::{BatchId, BlobId, HoldId, JobId};
use crate::mutant::Mutant;
use crate::name::{Backend, Namespace, Referrer, Scope, Tenant};
use crate::payload::Payload;
use crate::state::BlobDigestKey;
use crate::time::Time;

/// The row of a blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    /// Its id.
    pub id: BlobId,
    /// The tenant it belongs to.
    pub tenant: Tenant,
    /// Its namespace.
    pub namespace: Namespace,
    /// Its state.
    pub state: BlobState,
    /// The file name it is offered under.
    pub filename: Option<String>,
    /// Its content type.
    pub content_type: String,
    /// Data of the caller that Bursar stores and does not read.
    pub metadata: Payload,
    /// Its length in bytes; of a pending blob the announced one.
    pub size: Option<u64>,
    /// The SHA-256 of its bytes; of a pending blob the announced one.
    pub digest: Option<Sha256Digest>,
    /// The backend that has its bytes.
    pub backend: Backend,
    /// Whether its bytes were uploaded by a signed link, to a staging object.
    pub staged: bool,
    /// The scope that its bytes are charged to.
    pub charge: Option<Scope>,
    /// The holds for its bytes, committed when it is stored.
    pub holds: Vec<HoldId>,
    /// When the upload began.
    pub created_at: Time,
    /// The party that uploaded it.
    pub created_by: Actor,
    /// When it was deleted, if it was.
    pub deleted_at: Option<Time>,
    /// When it may be collected: the end of an upload's time, of the grace period after a deletion, or of the time that
    /// it may be without a reference.
    pub due_at: Time,
    /// The number of jobs that refer to it.
    pub jobs: u64,
    /// The references of the application.
    pub references: BTreeSet<Referrer>,
    /// The number of its events so far.
    pub version: u64,
    /// The last transaction with an event of the blob.
    pub last: Option<BatchId>,
}

/// The state of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BlobState {
    /// Its bytes are being uploaded.
    Pending,
    /// Its bytes are stored and verified.
    Live,
    /// Its bytes are being deleted.
    Doomed,
}

impl BlobState {
    /// Returns its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            BlobState::Pending => "pending",
            BlobState::Live => "live",
            BlobState::Doomed => "doomed",
        }
    }
}

impl std::fmt::Display for BlobState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What refers to a blob.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reference {
    /// A job that uses it or made it.
    Job(JobId),
    /// Something of the application, under a name that the application chose.
    Name(Referrer),
}

impl Blob {
    /// Returns whether it can be read and referred to.
    pub fn is_available(&self) -> bool {
        self.state == BlobState::Live && self.deleted_at.is_none()
    }

    /// Returns whether its bytes are there because jobs use it, although it was deleted.
    pub fn is_kept_by_jobs(&self) -> bool {
        self.state == BlobState::Live && self.jobs > 0
    }

    /// Returns whether anything refers to it.
    pub fn is_referenced(&self) -> bool {
        self.jobs > 0 || !self.references.is_empty()
    }

    /// Returns whether a name of the application refers to it.
    pub fn is_referenced_by(&self, name: &Referrer) -> bool {
        self.references.contains(name)
    }

    /// Returns whether it may be doomed at `now`.
    pub fn is_due(&self, now: Time) -> bool {
        self.state != BlobState::Doomed && self.due_at <= now && !self.is_referenced()
    }

    /// Returns the instant that maintenance looks for: when it may be doomed, or its bytes deleted. `NEVER` while
    /// something refers to it.
    pub fn maintained_at(&self) -> Time {
        match self.state {
            BlobState::Doomed => self.due_at,
            _ if self.is_referenced() => Time::NEVER,
            _ => self.due_at,
        }
    }

    /// Returns the key under which uploads of the same bytes find it; `None` if they must not.
    pub fn digest_key(&self) -> Option<BlobDigestKey> {
        Some(digest_key(&self.tenant, &self.namespace, self.digest?))
    }
}

/// Returns the key under which uploads of the same bytes find a blob: only within its tenant and namespace.
pub(crate) fn digest_key(tenant: &Tenant, namespace: &Namespace, digest: Sha256Digest) -> BlobDigestKey {
    if Mutant::FindAnyTenant.on() {
        return (Tenant::built_in(), namespace.clone(), digest);
    }
    if Mutant::FindAnyNamespace.on() {
        return (tenant.clone(), Namespace::new("any").expect("a valid name"), digest);
    }
    (tenant.clone(), namespace.clone(), digest)
}
