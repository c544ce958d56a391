//! Quotas on calls to this server.

use std::sync::Arc;

use axum::http::request::Parts;
use bursar::meter::{
    Caller, ChargeOutcome, Meter, MeterError, MeterSettings, QuotaExceeded, SignatureError, SignedRequest, Standing,
};
use bursar::{Bursar, Clock, Context, Tenant};
use sha2::{Digest, Sha256};

use crate::principal::Principal;
use crate::principal::permissions::Role;
use crate::wire::problem::{Kind, Problem, ViolationAnswer};

/// The meter, and whether it applies to callers of this server.
pub(crate) struct Metering {
    pub(crate) meter: Meter,
    on: bool,
}

/// A request refused by the meter: the problem, and the caller's standing with its quota, if known.
pub(crate) struct QuotaRefusal {
    pub(crate) problem: Problem,
    pub(crate) standing: Option<Standing>,
}

impl Metering {
    pub(crate) fn new(
        bursar: Bursar,
        settings: Option<MeterSettings>,
        clock: Arc<dyn Clock>,
    ) -> Result<Metering, MeterError> {
        let on = settings.as_ref().is_some_and(|settings| settings.enabled);
        let settings = settings.unwrap_or_default();
        if settings.costs.operations.iter().any(|operation| operation.two_phase) {
            let problem = "two_phase is for handlers that report their own cost; routes of this server do not";
            return Err(MeterError::Setting { key: "costs.operations", problem: problem.into() });
        }
        Ok(Metering { meter: Meter::builder(bursar).settings(settings).clock(clock).build()?, on })
    }

    /// Verifies the signature of a request, if its caller is metered and signs. Fails if the caller must sign and does not.
    pub(crate) async fn signature(
        &self,
        principal: &Principal,
        context: &Context,
        parts: &Parts,
    ) -> Result<Option<SignedRequest>, Problem> {
        let Some(caller) = self.metered_caller(principal) else { return Ok(None) };
        // Two tenants may have principals of the same name, and each has keys of its own.
        let registered = match context.tenant == Tenant::default() {
            true => caller.name().to_owned(),
            false => format!("{}/{}", context.tenant, caller.name()),
        };
        self.meter.signature_by(parts, &caller, &registered).await.map_err(|error| signature_refused(&error))
    }

    /// Charges a request to its caller's quota. Returns `None` if the caller or the request is not metered.
    pub(crate) async fn charge(
        &self,
        principal: &Principal,
        context: &Context,
        parts: &Parts,
        body_bytes: usize,
        signed: Option<&SignedRequest>,
    ) -> Result<Option<Standing>, QuotaRefusal> {
        let Some(caller) = self.metered_caller(principal) else { return Ok(None) };
        let meter = self.meter.in_context(context.clone());
        match meter.charge_signed_request(&caller, parts, body_bytes as u64, signed).await {
            ChargeOutcome::Replayed => {
                Err(QuotaRefusal { problem: signature_refused(&SignatureError::Replayed), standing: None })
            }
            ChargeOutcome::Paid(standing) => Ok(Some(standing)),
            ChargeOutcome::Bypassed | ChargeOutcome::FailedOpen => Ok(None),
            ChargeOutcome::Exceeded(exceeded) => Err(QuotaRefusal::from(exceeded)),
            ChargeOutcome::FailedClosed => {
                let detail = "the caller's quota could not be checked; nothing was changed; retry";
                let problem = Problem::new(Kind::Unavailable, detail);
                let problem = problem.retry_after(std::time::Duration::from_secs(1));
                Err(QuotaRefusal { problem, standing: None })
            }
        }
    }

    /// Returns the metered caller of a principal. Users, agents and viewers are metered; operators, admins, workers and monitors
    /// are not, because an operator at its quota could not even raise it.
    fn metered_caller(&self, principal: &Principal) -> Option<Caller> {
        match principal.role? {
            Role::User | Role::Agent | Role::Viewer if self.on => Some(caller(principal)),
            Role::User | Role::Agent | Role::Viewer => None,
            Role::Operator | Role::Admin | Role::Worker | Role::Monitor => None,
        }
    }
}

/// Returns the problem of a refused signature.
pub(crate) fn signature_refused(error: &SignatureError) -> Problem {
    Problem::signature_refused(error.reason(), format!("{error}; nothing was charged"))
}

/// Returns the meter's caller for a principal. Its id includes the role, because a user and an API key may have the same name.
pub(crate) fn caller(principal: &Principal) -> Caller {
    let role = principal.role.map_or("nobody", Role::name);
    Caller::new(&format!("{role}:{}", principal.name)).unwrap_or_else(|_| {
        let digest = Sha256::digest(&principal.name);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Caller::new(&format!("{role}:{digest}")).expect("a hexadecimal digest is a valid name")
    })
}

impl From<QuotaExceeded> for QuotaRefusal {
    fn from(exceeded: QuotaExceeded) -> QuotaRefusal {
        let mut problem = Problem::new(Kind::QuotaExceeded, exceeded.to_string());
        problem.violations = exceeded.violations.iter().map(ViolationAnswer::from).collect();
        if let Some(wait) = exceeded.retry_after {
            problem = problem.retry_after(std::time::Duration::from_millis(wait.millis().unsigned_abs()));
        }
        QuotaRefusal { problem, standing: Some(exceeded.standing) }
    }
}
