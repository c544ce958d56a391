//! The meter in front of the server's own API.

use std::sync::Arc;

use axum::http::request::Parts;
use bursar::meter::{Caller, Meter, MeterError, MeterSettings, QuotaExceeded, Standing, Verdict};
use bursar::{Bursar, Clock, Context};
use sha2::{Digest, Sha256};

use crate::principal::Principal;
use crate::principal::table::Role;
use crate::wire::problem::{Kind, Problem, ViolationAnswer};

/// Quotas, and whether callers of this server have some.
pub(crate) struct Metering {
    pub(crate) meter: Meter,
    on: bool,
}

/// Why a request is not served.
pub(crate) struct Unpaid {
    pub(crate) problem: Problem,
    pub(crate) standing: Option<Standing>,
}

impl Metering {
    pub(crate) fn new(
        bursar: Bursar,
        settings: Option<MeterSettings>,
        clock: Arc<dyn Clock>,
    ) -> Result<Metering, MeterError> {
        let on = settings.is_some();
        let settings = settings.unwrap_or_default();
        if settings.costs.operations.iter().any(|operation| operation.two_phase) {
            let problem = "two_phase is for handlers that say what they cost, and those of this server do not";
            return Err(MeterError::Setting { key: "costs.operations", problem: problem.into() });
        }
        Ok(Metering { meter: Meter::builder(bursar).settings(settings).clock(clock).build()?, on })
    }

    /// Charges a request to who asks; `None` where it costs nothing.
    pub(crate) async fn charge(
        &self,
        principal: &Principal,
        context: &Context,
        parts: &Parts,
        body_bytes: usize,
    ) -> Result<Option<Standing>, Unpaid> {
        let Some(caller) = self.payer(principal) else { return Ok(None) };
        match self.meter.in_context(context.clone()).charge_request(&caller, parts, body_bytes as u64).await {
            Verdict::Paid(standing) => Ok(Some(standing)),
            Verdict::Bypassed | Verdict::FailedOpen => Ok(None),
            Verdict::Exceeded(exceeded) => Err(Unpaid::from(exceeded)),
            Verdict::FailedClosed => {
                let problem = Problem::new(Kind::Unavailable, "the quota of the caller could not be asked");
                let problem = problem.retry_after(std::time::Duration::from_secs(1));
                Err(Unpaid { problem, standing: None })
            }
        }
    }

    /// Who pays, if somebody does. Those who run the server, set it up or work for it do not: an operator that is turned away could
    /// not even raise the limit that turns it away.
    fn payer(&self, principal: &Principal) -> Option<Caller> {
        match principal.role? {
            Role::User | Role::Agent | Role::Viewer if self.on => Some(caller(principal)),
            Role::User | Role::Agent | Role::Viewer => None,
            Role::Operator | Role::Admin | Role::Worker | Role::Monitor => None,
        }
    }
}

/// The caller that a principal is: told apart by its role too, as a user and an API key may have one name.
pub(crate) fn caller(principal: &Principal) -> Caller {
    let role = principal.role.map_or("nobody", Role::name);
    Caller::new(&format!("{role}:{}", principal.name)).unwrap_or_else(|_| {
        let digest = Sha256::digest(&principal.name);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Caller::new(&format!("{role}:{digest}")).expect("a digest is a good name")
    })
}

impl From<QuotaExceeded> for Unpaid {
    fn from(exceeded: QuotaExceeded) -> Unpaid {
        let mut problem = Problem::new(Kind::QuotaExceeded, exceeded.to_string());
        problem.violations = exceeded.violations.iter().map(ViolationAnswer::from).collect();
        if let Some(wait) = exceeded.retry_after {
            problem = problem.retry_after(std::time::Duration::from_millis(wait.millis().unsigned_abs()));
        }
        Unpaid { problem, standing: Some(exceeded.standing) }
    }
}
