//! `/v1/grants`.

use bursar_core::id::GrantId;
use bursar_wire::Page;
use bursar_wire::grant::{GrantAnswer, MintBody, MintedAnswer};

use super::reason_body;
use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// The calls for grants. From [`Client::grants`]; commands redeem them.
#[derive(Clone, Copy, Debug)]
pub struct Grants<'a>(&'a Client);

impl Client {
    /// The calls for grants.
    pub fn grants(&self) -> Grants<'_> {
        Grants(self)
    }
}

impl Grants<'_> {
    /// Creates a grant. The server returns its token only once. If that answer is lost, the replayed answer has no token: revoke the grant.
    pub async fn mint(&self, grant: &MintBody) -> Result<Answered<MintedAnswer>, Error> {
        self.0.post(Path::new("/v1/grants"), grant).answer().await
    }

    /// Returns a page of grants, without their tokens.
    pub async fn list(&self, cursor: Option<&str>, limit: usize) -> Result<Answered<Page<GrantAnswer>>, Error> {
        let path = Path::new("/v1/grants").query("cursor", cursor).query("limit", Some(limit));
        self.0.get(path).answer().await
    }

    /// Returns a page of grants, the newest first, without their tokens.
    pub async fn newest(&self, cursor: Option<&str>, limit: usize) -> Result<Answered<Page<GrantAnswer>>, Error> {
        let path = Path::new("/v1/grants").query("order", Some("newest"));
        self.0.get(path.query("cursor", cursor).query("limit", Some(limit))).answer().await
    }

    /// Returns a grant, without its token.
    pub async fn show(&self, id: GrantId) -> Result<Answered<GrantAnswer>, Error> {
        self.0.get(Path::new("/v1/grants").part(id)).answer().await
    }

    /// Returns a grant as it was at a moment: a time in RFC 3339, or a position of the journal. `None` is now.
    pub async fn show_at(&self, id: GrantId, moment: Option<&str>) -> Result<Answered<GrantAnswer>, Error> {
        self.0.get(Path::new("/v1/grants").part(id).query("at", moment)).answer().await
    }

    /// Revokes a grant.
    pub async fn revoke(&self, id: GrantId, reason: Option<&str>) -> Result<Answered<()>, Error> {
        self.0.delete(Path::new("/v1/grants").part(id).query("reason", reason)).done().await
    }

    /// Erases the payload of a grant that can no longer be redeemed.
    pub async fn erase(&self, id: GrantId, reason: Option<&str>) -> Result<Answered<()>, Error> {
        self.0.post(Path::new("/v1/grants").part(id).then("erase"), &reason_body(reason)).done().await
    }
}
