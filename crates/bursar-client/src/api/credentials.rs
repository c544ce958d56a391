//! `/v1/workers` and `/v1/keys`.

use std::fmt::Display;

use bursar_wire::Page;
use bursar_wire::credential::{CredentialAnswer, IssuedAnswer, KeyBody, RotateBody, WorkerBody};
use bursar_wire::role::WhoAmIAnswer;

use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// The calls for worker tokens, from [`Client::workers`], or for API keys, from [`Client::keys`].
///
/// The server returns a token only once. If that answer is lost, the replayed answer has no token: rotate or revoke the credential.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'a> {
    client: &'a Client,
    folder: &'static str,
}

impl Client {
    /// Returns who the caller is and what its token may do.
    pub async fn whoami(&self) -> Result<Answered<WhoAmIAnswer>, Error> {
        self.get(Path::new("/v1/whoami")).answer().await
    }

    /// The calls for worker tokens, whose ids begin with `wkr_`.
    pub fn workers(&self) -> Credentials<'_> {
        Credentials { client: self, folder: "/v1/workers" }
    }

    /// The calls for API keys, whose ids begin with `key_`.
    pub fn keys(&self) -> Credentials<'_> {
        Credentials { client: self, folder: "/v1/keys" }
    }

    /// Registers a worker and creates its token.
    pub async fn make_worker(&self, worker: &WorkerBody) -> Result<Answered<IssuedAnswer>, Error> {
        self.post(Path::new("/v1/workers"), worker).answer().await
    }

    /// Creates an API key.
    pub async fn make_key(&self, key: &KeyBody) -> Result<Answered<IssuedAnswer>, Error> {
        self.post(Path::new("/v1/keys"), key).answer().await
    }
}

impl Credentials<'_> {
    /// Returns a page of credentials, without their tokens.
    pub async fn list(&self, cursor: Option<&str>, limit: usize) -> Result<Answered<Page<CredentialAnswer>>, Error> {
        let path = Path::new(self.folder).query("cursor", cursor).query("limit", Some(limit));
        self.client.get(path).answer().await
    }

    /// Returns a credential, without its token.
    pub async fn show(&self, id: impl Display) -> Result<Answered<CredentialAnswer>, Error> {
        self.client.get(Path::new(self.folder).part(id)).answer().await
    }

    /// Replaces a token; the old one stays valid for a while.
    pub async fn rotate(&self, id: impl Display, body: &RotateBody) -> Result<Answered<IssuedAnswer>, Error> {
        self.client.post(Path::new(self.folder).part(id).then("rotate"), body).answer().await
    }

    /// Revokes a token immediately.
    pub async fn revoke(&self, id: impl Display) -> Result<Answered<()>, Error> {
        self.client.delete(Path::new(self.folder).part(id)).done().await
    }
}
