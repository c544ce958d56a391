//! `/v1/meter`.

use bursar_wire::meter::{QuotaAnswer, QuotaCheckAnswer, QuotaCheckBody, QuotaLimitBody};

use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// The calls for quotas. From [`Client::meter`].
#[derive(Clone, Copy, Debug)]
pub struct Meter<'a>(&'a Client);

impl Client {
    /// The calls for quotas.
    pub fn meter(&self) -> Meter<'_> {
        Meter(self)
    }
}

impl Meter<'_> {
    /// Returns the quota of a caller; default: the caller of this request.
    pub async fn quota(&self, agent_id: Option<&str>) -> Result<Answered<QuotaAnswer>, Error> {
        self.0.get(Path::new("/v1/meter/quota").query("agent_id", agent_id)).answer().await
    }

    /// Charges the quota of a caller if it admits the cost. If it does not, nothing is charged, and the error is the problem
    /// [`Kind::QuotaExceeded`](bursar_wire::problem::Kind::QuotaExceeded) with the time to wait.
    pub async fn check(&self, check: &QuotaCheckBody) -> Result<Answered<QuotaCheckAnswer>, Error> {
        self.0.post(Path::new("/v1/meter/check"), check).answer().await
    }

    /// Sets the limits of one caller.
    pub async fn set_limit(&self, limit: &QuotaLimitBody) -> Result<Answered<QuotaAnswer>, Error> {
        self.0.post(Path::new("/v1/meter/quota/limit"), limit).answer().await
    }
}
