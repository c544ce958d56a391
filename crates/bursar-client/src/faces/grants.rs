//! Grants.

use bursar_core::id::GrantId;
use bursar_wire::Page;
use bursar_wire::grant::{GrantAnswer, MintBody, MintedAnswer};

use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// Grants: one-time permissions, presented as tokens, and redeemed by commands.
#[derive(Clone, Copy, Debug)]
pub struct Grants<'a>(&'a Client);

impl Client {
    /// Grants.
    pub fn grants(&self) -> Grants<'_> {
        Grants(self)
    }
}

impl Grants<'_> {
    /// Makes a grant. Its token is told once: where the first answer was lost, the repeated one has none, and the grant is to be
    /// revoked.
    pub async fn mint(&self, grant: &MintBody) -> Result<Answered<MintedAnswer>, Error> {
        self.0.post(Path::new("/v1/grants"), grant).answer().await
    }

    /// Grants without their secrets, a page of them.
    pub async fn list(&self, cursor: Option<&str>, limit: usize) -> Result<Answered<Page<GrantAnswer>>, Error> {
        let path = Path::new("/v1/grants").query("cursor", cursor).query("limit", Some(limit));
        self.0.get(path).answer().await
    }

    /// A grant without its secret.
    pub async fn show(&self, id: GrantId) -> Result<Answered<GrantAnswer>, Error> {
        self.0.get(Path::new("/v1/grants").part(id)).answer().await
    }

    /// Takes a grant back.
    pub async fn revoke(&self, id: GrantId, reason: Option<&str>) -> Result<Answered<()>, Error> {
        self.0.delete(Path::new("/v1/grants").part(id).query("reason", reason)).done().await
    }
}
