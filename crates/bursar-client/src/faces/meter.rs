//! Quotas of callers.

use bursar_wire::meter::{QuotaAnswer, QuotaLimitBody};

use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// Quotas: what callers may spend.
#[derive(Clone, Copy, Debug)]
pub struct Meter<'a>(&'a Client);

impl Client {
    /// Quotas.
    pub fn meter(&self) -> Meter<'_> {
        Meter(self)
    }
}

impl Meter<'_> {
    /// How a caller stands with its quota; who asks, unless one is named.
    pub async fn quota(&self, agent_id: Option<&str>) -> Result<Answered<QuotaAnswer>, Error> {
        self.0.get(Path::new("/v1/meter/quota").query("agent_id", agent_id)).answer().await
    }

    /// Gives a caller limits of its own.
    pub async fn set_limit(&self, limit: &QuotaLimitBody) -> Result<Answered<QuotaAnswer>, Error> {
        self.0.post(Path::new("/v1/meter/quota/limit"), limit).answer().await
    }
}
