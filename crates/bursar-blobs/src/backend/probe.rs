//! Finds out what a backend can do, by trying it.

use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bursar_core::blob::Sha256Digest;
use futures_util::TryStreamExt;
use object_store::client::{HttpRequestBody, HttpResponse, HttpService};
use object_store::path::Path;
use object_store::signer::{HeaderName, HeaderValue, Method, SignedUrlOptions, Signer};
use object_store::{ObjectStoreExt, PutMode};

use super::{Backend, http};
use crate::error::BackendError;
use crate::signed::put_options;

/// What a backend can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// It refuses to overwrite an object if it is asked to.
    pub conditional_put: bool,
    /// It signs requests, so that callers can upload and download without passing their bytes through the server.
    pub signed_requests: bool,
    /// It tells the SHA-256 of an object, so that the bytes of a signed upload need not be read to check them.
    pub checksums: bool,
}

impl Abilities {
    /// Returns what it can do, as a text.
    pub fn names(self) -> Vec<&'static str> {
        let named = [
            (self.conditional_put, "conditional put"),
            (self.signed_requests, "signed requests"),
            (self.checksums, "checksums"),
        ];
        named.into_iter().filter_map(|(able, name)| able.then_some(name)).collect()
    }
}

/// The bytes that a probe writes.
const BYTES: &[u8] = b"bursar";

impl Backend {
    /// Writes, reads and deletes a small object, and returns what the backend can do.
    pub async fn probe(&self) -> Result<Abilities, BackendError> {
        let failed = |error| self.failed(error);
        let path = Path::from("probe/object");
        self.store.put(&path, BYTES.into()).await.map_err(failed)?;
        let again = self.store.put_opts(&path, BYTES.into(), PutMode::Create.into()).await;
        let conditional_put = matches!(again, Err(object_store::Error::AlreadyExists { .. }));
        let part = self.store.get_range(&path, 1..3).await.map_err(failed)?;
        if part != BYTES[1..3] {
            let source = "a range of an object has other bytes than were stored".into();
            return Err(failed(object_store::Error::Generic { store: "probe", source }));
        }
        let (signed_requests, checksums) = match &self.s3 {
            None => (false, false),
            Some(_) => self.probe_signed(&Path::from("probe/signed")).await.map_err(failed)?,
        };
        for object in self.store.list(Some(&Path::from("probe"))).try_collect::<Vec<_>>().await.map_err(failed)? {
            self.store.delete(&object.location).await.map_err(failed)?;
        }
        Ok(Abilities { conditional_put, signed_requests, checksums })
    }

    /// Tries a signed upload. Returns whether it works, and whether the backend tells the digest of what it got.
    async fn probe_signed(&self, path: &Path) -> object_store::Result<(bool, bool)> {
        let Some(s3) = &self.s3 else { return Ok((false, false)) };
        let options = put_options(crate::object::digest(BYTES));
        let url = s3.service.signed_url_opts(Method::PUT, &s3.path(path), TTL, &options).await?;
        let answer = send(Method::PUT, url.as_str(), &options, BYTES.to_vec()).await?;
        let signs = answer.status().is_success();
        Ok((signs, signs && self.checksum(path).await? == Some(crate::object::digest(BYTES))))
    }

    /// Returns the SHA-256 that the backend has computed for an object, if it has.
    pub(crate) async fn checksum(&self, path: &Path) -> object_store::Result<Option<Sha256Digest>> {
        let Some(s3) = &self.s3 else { return Ok(None) };
        let mode = HeaderName::from_static("x-amz-checksum-mode");
        let options = SignedUrlOptions::default().with_signed_header(mode, HeaderValue::from_static("ENABLED"));
        let url = s3.service.signed_url_opts(Method::HEAD, &s3.path(path), TTL, &options).await?;
        let answer = send(Method::HEAD, url.as_str(), &options, Vec::new()).await?;
        let text = answer.headers().get("x-amz-checksum-sha256").filter(|_| answer.status().is_success());
        let bytes = text.and_then(|text| BASE64_STANDARD.decode(text).ok());
        Ok(bytes.and_then(|bytes| bytes.try_into().ok()).map(Sha256Digest))
    }
}

/// How long the signatures of these requests are valid.
const TTL: Duration = Duration::from_secs(60);

/// Sends a signed request.
async fn send(
    method: Method,
    url: &str,
    options: &SignedUrlOptions,
    bytes: Vec<u8>,
) -> object_store::Result<HttpResponse> {
    let failed = |source| object_store::Error::Generic { store: "signed request", source };
    let mut request = hyper::Request::builder().method(method).uri(url);
    for (name, value) in &options.signed_headers {
        request = request.header(name, value);
    }
    let request = request.body(HttpRequestBody::from(bytes)).map_err(|error| failed(error.into()))?;
    http::Service::new().call(request).await.map_err(|error| failed(error.into()))
}
