//! The records of blobs: what is stored where, and what refers to it. The bytes are the business of a storage crate.

use std::time::Duration;

use bursar_core::answer::{Answer, BlobAnswer};
use bursar_core::blob::{Blob, BlobSpec, NamespaceConfig, NamespaceState, Sha256Digest};
use bursar_core::id::BlobId;
use bursar_core::name::{Backend, IdempotencyKey, Namespace, Referrer};
use bursar_core::refusal::Invalid;
use bursar_core::request::{BlobOp, Fingerprint, IfMatch, Op, Request};
use bursar_core::time::Span;
use bursar_store::BlobFilter;

use crate::api::held::unexpected;
use crate::api::instance::Bursar;
use crate::error::Error;

/// The records of blobs. From [`Bursar::blob_records`].
///
/// A record is made before the bytes are written, and removed after they are deleted:
///
/// 1. [`start`](BlobRecords::start) makes a pending record. Its id names the object in the backend.
/// 2. The bytes are written. [`grow`](BlobRecords::grow) tells that the upload goes on.
/// 3. [`store`](BlobRecords::store) makes the record live, unless a live one has the same bytes.
/// 4. When nothing needs it any more, [`doom`](BlobRecords::doom) dooms it, the bytes are deleted, and
///    [`collect`](BlobRecords::collect) removes the record.
#[derive(Clone, Copy)]
pub struct BlobRecords<'a>(pub(crate) &'a Bursar);

impl BlobRecords<'_> {
    /// Defines or changes the rules of a namespace.
    pub async fn define_namespace<N>(&self, namespace: N, config: NamespaceConfig) -> Result<(), Error>
    where
        N: TryInto<Namespace, Error = Invalid>,
    {
        self.done(BlobOp::DefineNamespace { namespace: namespace.try_into()?, config }).await
    }

    /// Returns the rules of a namespace; the default ones if it was never configured.
    pub async fn namespace(&self, namespace: &Namespace) -> Result<NamespaceConfig, Error> {
        let key = (self.0.context.tenant.clone(), namespace.clone());
        Ok(self.0.inner.store.namespace(&key).await?.map(|row| row.config).unwrap_or_default())
    }

    /// Lists the namespaces of this tenant that were configured, after a name, at most `limit` (at most 1,000).
    pub async fn namespaces(
        &self,
        after: Option<&Namespace>,
        limit: usize,
    ) -> Result<Vec<(Namespace, NamespaceState)>, Error> {
        Ok(self.0.inner.store.list_namespaces(&self.0.context.tenant, after, limit.min(1_000)).await?)
    }

    /// Begins an upload, which is collected if it stands still for `ttl`. If the digest is announced and a live blob of the
    /// namespace has it, that blob is the answer. With a key, a retry returns the first answer.
    pub async fn start(&self, spec: BlobSpec, ttl: Duration, key: Option<IdempotencyKey>) -> Result<BlobAnswer, Error> {
        self.uploaded(BlobOp::Start { spec, ttl: Span::from(ttl) }, key).await
    }

    /// Continues an upload that will have at least `size` bytes.
    pub async fn grow(&self, blob: BlobId, size: u64, ttl: Duration) -> Result<(), Error> {
        self.done(BlobOp::Grow { blob, size, ttl: Span::from(ttl) }).await
    }

    /// Continues an upload like [`grow`](BlobRecords::grow), if no other request has continued it since its record had this version. The
    /// version is then one more. The error is [`Refusal::Changed`](crate::Refusal::Changed) otherwise.
    pub async fn grow_unchanged(&self, blob: BlobId, version: u64, size: u64, ttl: Duration) -> Result<(), Error> {
        let op = Op::Blob(BlobOp::Grow { blob, size, ttl: Span::from(ttl) });
        let request = Request { if_match: Some(IfMatch::Only(Fingerprint::of(&version))), ..Request::from(op) };
        self.0.request(request.in_context(self.0.context.clone())).await.map(drop)
    }

    /// Ends an upload whose bytes are stored. If a live blob of the namespace has the same bytes, that blob is the answer.
    pub async fn store(&self, blob: BlobId, size: u64, digest: Sha256Digest) -> Result<BlobAnswer, Error> {
        self.uploaded(BlobOp::Store { blob, size, digest }, None).await
    }

    /// Gives up an upload.
    pub async fn abandon(&self, blob: BlobId) -> Result<(), Error> {
        self.done(BlobOp::Abandon { blob }).await
    }

    /// Keeps a blob for something of the application, under a name.
    pub async fn reference<R>(&self, blob: BlobId, by: R) -> Result<(), Error>
    where
        R: TryInto<Referrer, Error = Invalid>,
    {
        self.done(BlobOp::Reference { blob, by: by.try_into()? }).await
    }

    /// Removes a reference of the application.
    pub async fn release<R>(&self, blob: BlobId, by: R) -> Result<(), Error>
    where
        R: TryInto<Referrer, Error = Invalid>,
    {
        self.done(BlobOp::Release { blob, by: by.try_into()? }).await
    }

    /// Deletes a blob. It can be restored for the grace period of its namespace.
    pub async fn delete(&self, blob: BlobId) -> Result<(), Error> {
        self.done(BlobOp::Delete { blob }).await
    }

    /// Restores a deleted blob.
    pub async fn restore(&self, blob: BlobId) -> Result<(), Error> {
        self.done(BlobOp::Restore { blob }).await
    }

    /// Records that another backend has the bytes.
    pub async fn moved(&self, blob: BlobId, backend: Backend) -> Result<(), Error> {
        self.done(BlobOp::Move { blob, backend }).await
    }

    /// Returns a blob of this tenant, in any state.
    pub async fn find(&self, id: BlobId) -> Result<Option<Blob>, Error> {
        Ok(self.0.inner.store.blob(&self.0.context.tenant, id).await?)
    }

    /// Returns a blob of any tenant, in any state.
    pub async fn find_any(&self, id: BlobId) -> Result<Option<Blob>, Error> {
        Ok(self.0.inner.store.blob_of_any_tenant(id).await?)
    }

    /// Lists the blobs of this tenant in any state, of one namespace or of all, after an id, at most `limit` (at most 1,000).
    pub async fn list(
        &self,
        namespace: Option<&Namespace>,
        after: Option<BlobId>,
        limit: usize,
    ) -> Result<Vec<Blob>, Error> {
        self.filtered(BlobFilter { namespace: namespace.cloned(), newest_first: false }, after, limit).await
    }

    /// Lists the blobs of this tenant in any state, the newest first, of one namespace or of all, before an id, at most `limit` (at
    /// most 1,000).
    pub async fn newest(
        &self,
        namespace: Option<&Namespace>,
        before: Option<BlobId>,
        limit: usize,
    ) -> Result<Vec<Blob>, Error> {
        self.filtered(BlobFilter { namespace: namespace.cloned(), newest_first: true }, before, limit).await
    }

    async fn filtered(&self, filter: BlobFilter, mark: Option<BlobId>, limit: usize) -> Result<Vec<Blob>, Error> {
        Ok(self.0.inner.store.list_blobs(&self.0.context.tenant, &filter, mark, limit.min(1_000)).await?)
    }

    /// Lists blobs of all tenants that are due: to be doomed, or to have their bytes deleted, at most `limit` (at most 1,000).
    pub async fn due(&self, limit: usize) -> Result<Vec<Blob>, Error> {
        Ok(self.0.inner.store.due_blobs(limit.min(1_000)).await?)
    }

    /// Lists the blobs of all tenants in any state after an id, at most `limit` (at most 1,000).
    pub async fn list_all(&self, after: Option<BlobId>, limit: usize) -> Result<Vec<Blob>, Error> {
        Ok(self.0.inner.store.list_all_blobs(after, limit.min(1_000)).await?)
    }

    /// Dooms those blobs of this tenant that are due and that nothing refers to. Returns how many. Their bytes may then be
    /// deleted.
    pub async fn doom(&self, blobs: Vec<BlobId>) -> Result<usize, Error> {
        self.swept(BlobOp::Doom { blobs }).await
    }

    /// Removes the records of doomed blobs of this tenant, after their bytes were deleted. Returns how many.
    pub async fn collect(&self, blobs: Vec<BlobId>) -> Result<usize, Error> {
        self.swept(BlobOp::Collect { blobs }).await
    }

    async fn done(&self, op: BlobOp) -> Result<(), Error> {
        self.0.execute(Op::Blob(op)).await.map(drop)
    }

    async fn uploaded(&self, op: BlobOp, key: Option<IdempotencyKey>) -> Result<BlobAnswer, Error> {
        let request = Request { idempotency_key: key, ..Request::from(Op::Blob(op)) };
        match self.0.request(request.in_context(self.0.context.clone())).await?.answer {
            Answer::Blob(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }

    async fn swept(&self, op: BlobOp) -> Result<usize, Error> {
        match self.0.execute(Op::Blob(op)).await? {
            Answer::Swept { count } => Ok(count),
            other => Err(unexpected(&other)),
        }
    }
}
