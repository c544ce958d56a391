//! `/v1/tenants`.

use bursar_core::name::Tenant;
use bursar_wire::Page;
use bursar_wire::role::TenantAnswer;

use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// The calls for tenants, which only operators may make. From [`Client::tenants`].
#[derive(Clone, Copy, Debug)]
pub struct Tenants<'a>(&'a Client);

impl Client {
    /// The calls for tenants.
    pub fn tenants(&self) -> Tenants<'_> {
        Tenants(self)
    }
}

impl Tenants<'_> {
    /// Returns a page of the tenants that have budgets or other scopes, by name.
    pub async fn list(&self, cursor: Option<&str>, limit: usize) -> Result<Answered<Page<TenantAnswer>>, Error> {
        let path = Path::new("/v1/tenants").query("cursor", cursor).query("limit", Some(limit));
        self.0.get(path).answer().await
    }

    /// Returns a tenant; fails as not found if it has no scope, queue, schedule or token.
    pub async fn show(&self, name: &Tenant) -> Result<Answered<TenantAnswer>, Error> {
        self.0.get(Path::new("/v1/tenants").part(name)).answer().await
    }
}
