//! `/v1/blobs` and `/v1/namespaces`.

use bursar_core::id::BlobId;
use bursar_core::name::{Namespace, Referrer};
use bursar_wire::Page;
use bursar_wire::blob::BlobAnswer;
use bursar_wire::namespace::{NamespaceAnswer, NamespaceBody};

use crate::answered::Answered;
use crate::api::reason_body;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// The calls for blobs. From [`Client::blobs`].
#[derive(Clone, Copy, Debug)]
pub struct Blobs<'a>(&'a Client);

/// The calls for the rules of namespaces. From [`Client::namespaces`].
#[derive(Clone, Copy, Debug)]
pub struct Namespaces<'a>(&'a Client);

impl Client {
    /// The calls for blobs.
    pub fn blobs(&self) -> Blobs<'_> {
        Blobs(self)
    }

    /// The calls for the rules of namespaces.
    pub fn namespaces(&self) -> Namespaces<'_> {
        Namespaces(self)
    }
}

/// A filter for a page of blobs.
#[derive(Clone, Debug, Default)]
pub struct BlobQuery {
    /// The namespace; `None` matches all.
    pub namespace: Option<Namespace>,
    /// Whether the newest blobs come first; default: the oldest.
    pub newest_first: bool,
    /// The `next` of the previous page.
    pub cursor: Option<String>,
    /// The maximum number of blobs; default: 100.
    pub limit: Option<usize>,
}

fn at(id: BlobId) -> Path {
    Path::new("/v1/blobs").part(id)
}

impl Blobs<'_> {
    /// Returns a page of blobs in any state, in the order in which they were created.
    pub async fn list(&self, query: &BlobQuery) -> Result<Answered<Page<BlobAnswer>>, Error> {
        let path = Path::new("/v1/blobs")
            .query("namespace", query.namespace.as_ref())
            .query("order", query.newest_first.then_some("newest"))
            .query("cursor", query.cursor.as_ref())
            .query("limit", query.limit);
        self.0.get(path).answer().await
    }

    /// Returns what is known about a blob, without its bytes.
    pub async fn meta(&self, id: BlobId) -> Result<Answered<BlobAnswer>, Error> {
        self.0.get(at(id).then("meta")).answer().await
    }

    /// Deletes a blob. It can be restored for the grace period of its namespace.
    pub async fn delete(&self, id: BlobId, reason: Option<&str>) -> Result<Answered<()>, Error> {
        self.0.delete(at(id).query("reason", reason)).done().await
    }

    /// Restores a deleted blob.
    pub async fn restore(&self, id: BlobId, reason: Option<&str>) -> Result<Answered<BlobAnswer>, Error> {
        self.0.post(at(id).then("restore"), &reason_body(reason)).answer().await
    }

    /// Keeps a blob for something of the application, under a name.
    pub async fn reference(&self, id: BlobId, by: &Referrer, reason: Option<&str>) -> Result<Answered<()>, Error> {
        self.0.put(at(id).then("references").part(by), &reason_body(reason)).done().await
    }

    /// Ends a reference of the application.
    pub async fn release(&self, id: BlobId, by: &Referrer, reason: Option<&str>) -> Result<Answered<()>, Error> {
        self.0.delete(at(id).then("references").part(by).query("reason", reason)).done().await
    }
}

impl Namespaces<'_> {
    /// Returns a page of the namespaces that were configured, by name.
    pub async fn list(&self, cursor: Option<&str>, limit: usize) -> Result<Answered<Page<NamespaceAnswer>>, Error> {
        let path = Path::new("/v1/namespaces").query("cursor", cursor).query("limit", Some(limit));
        self.0.get(path).answer().await
    }

    /// Returns the rules of a namespace; the default ones if it was never configured.
    pub async fn show(&self, name: &Namespace) -> Result<Answered<NamespaceAnswer>, Error> {
        self.0.get(Path::new("/v1/namespaces").part(name)).answer().await
    }

    /// Replaces the rules of a namespace.
    pub async fn define(&self, name: &Namespace, rules: &NamespaceBody) -> Result<Answered<NamespaceAnswer>, Error> {
        self.0.put(Path::new("/v1/namespaces").part(name), rules).answer().await
    }
}
