//! Tokens of workers, and API keys.

use std::fmt::Display;

use bursar_wire::Page;
use bursar_wire::credential::{CredentialAnswer, IssuedAnswer, KeyBody, RotateBody, WorkerBody};

use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// Tokens of workers, or API keys. A token is told once: where the first answer was lost, the repeated one has none, and it is to be
/// rotated or revoked.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'a> {
    client: &'a Client,
    folder: &'static str,
}

impl Client {
    /// Tokens of workers; their ids are `wkr_…`.
    pub fn workers(&self) -> Credentials<'_> {
        Credentials { client: self, folder: "/v1/workers" }
    }

    /// API keys; their ids are `key_…`.
    pub fn keys(&self) -> Credentials<'_> {
        Credentials { client: self, folder: "/v1/keys" }
    }

    /// Makes a worker's token.
    pub async fn make_worker(&self, worker: &WorkerBody) -> Result<Answered<IssuedAnswer>, Error> {
        self.post(Path::new("/v1/workers"), worker).answer().await
    }

    /// Makes an API key.
    pub async fn make_key(&self, key: &KeyBody) -> Result<Answered<IssuedAnswer>, Error> {
        self.post(Path::new("/v1/keys"), key).answer().await
    }
}

impl Credentials<'_> {
    /// Tokens without their secrets, a page of them.
    pub async fn list(&self, cursor: Option<&str>, limit: usize) -> Result<Answered<Page<CredentialAnswer>>, Error> {
        let path = Path::new(self.folder).query("cursor", cursor).query("limit", Some(limit));
        self.client.get(path).answer().await
    }

    /// A token without its secret.
    pub async fn show(&self, id: impl Display) -> Result<Answered<CredentialAnswer>, Error> {
        self.client.get(Path::new(self.folder).part(id)).answer().await
    }

    /// Replaces a token; the old one is good for a while.
    pub async fn rotate(&self, id: impl Display, how: &RotateBody) -> Result<Answered<IssuedAnswer>, Error> {
        self.client.post(Path::new(self.folder).part(id).then("rotate"), how).answer().await
    }

    /// Revokes a token, at once.
    pub async fn revoke(&self, id: impl Display) -> Result<Answered<()>, Error> {
        self.client.delete(Path::new(self.folder).part(id)).done().await
    }
}
