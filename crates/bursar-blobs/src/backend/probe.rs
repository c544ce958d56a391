//! Finds out what a backend can do, by trying it.

use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::client::{HttpRequestBody, HttpService};
use object_store::path::Path;
use object_store::signer::{Method, Signer};
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
    /// It refuses a signed upload whose bytes have another SHA-256 than announced.
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

    /// Tries a signed upload of the announced bytes, and one of others. Returns whether the first works and the second does not.
    async fn probe_signed(&self, path: &Path) -> object_store::Result<(bool, bool)> {
        let Some(s3) = &self.s3 else { return Ok((false, false)) };
        let client = http::Service::new();
        let options = put_options(crate::object::digest(BYTES), BYTES.len() as u64);
        let mut accepted = [false; 2];
        for (accepted, bytes) in accepted.iter_mut().zip([BYTES, b"BURSAR"]) {
            let url =
                s3.service.signed_url_opts(Method::PUT, &s3.path(path), Duration::from_secs(60), &options).await?;
            let mut request = hyper::Request::builder().method(Method::PUT).uri(url.as_str());
            for (name, value) in &options.signed_headers {
                request = request.header(name, value);
            }
            let request = request.body(HttpRequestBody::from(bytes.to_vec()));
            let request = request.map_err(|error| object_store::Error::Generic { store: "probe", source: error.into() })?;
            let answer = client.call(request).await;
            let answer = answer.map_err(|error| object_store::Error::Generic { store: "probe", source: error.into() })?;
            *accepted = answer.status().is_success();
        }
        Ok((accepted[0], accepted[0] && !accepted[1]))
    }
}
