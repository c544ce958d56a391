//! The settings that decisions depend on.

use std::collections::BTreeMap;

use crate::bounds::LENGTH_MAX;
use crate::name::Tenant;
use crate::time::Span;

/// The settings of an installation that decisions depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The time to live of a hold if neither the request nor a budget sets one. The longest life that budgets allow still
    /// bounds it.
    pub hold_ttl: Span,
    /// The longest time to live of a hold on a budget that sets none ([`HoldPolicy::ttl_max`]). Longer requests are
    /// lowered to it, and the answer says so.
    ///
    /// [`HoldPolicy::ttl_max`]: crate::budget::HoldPolicy::ttl_max
    pub hold_ttl_max: Span,
    /// How long idempotency keys are remembered.
    pub key_kept: Span,
    /// How long single postings are kept. A request that names a window which reaches further back is refused.
    pub postings_kept: Span,
    /// How long holds are kept after they have ended. Until then they can be read, credited and committed late.
    pub holds_kept: Span,
    /// How long grants and credentials are kept after they have expired.
    pub grants_kept: Span,
    /// How long the costs of jobs are kept.
    pub costs_kept: Span,
    /// Tenants whose holds, grants or costs are kept for another time.
    pub tenants: BTreeMap<Tenant, TenantRetention>,
}

/// How long a tenant's rows are kept. `None` is the time of all tenants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantRetention {
    /// The time for ended holds.
    pub holds: Option<Span>,
    /// The time for expired grants and credentials.
    pub grants: Option<Span>,
    /// The time for costs of jobs.
    pub costs: Option<Span>,
}

impl Rules {
    /// Returns how long ended holds of a tenant are kept.
    pub fn holds_kept(&self, tenant: &Tenant) -> Span {
        self.tenants.get(tenant).and_then(|own| own.holds).unwrap_or(self.holds_kept)
    }

    /// Returns how long expired grants and credentials of a tenant are kept.
    pub fn grants_kept(&self, tenant: &Tenant) -> Span {
        self.tenants.get(tenant).and_then(|own| own.grants).unwrap_or(self.grants_kept)
    }

    /// Returns how long a tenant's costs of jobs are kept.
    pub fn costs_kept(&self, tenant: &Tenant) -> Span {
        self.tenants.get(tenant).and_then(|own| own.costs).unwrap_or(self.costs_kept)
    }
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            hold_ttl: Span::from_secs(60),
            hold_ttl_max: Span::from_secs(3_600),
            key_kept: Span::from_days(7),
            postings_kept: LENGTH_MAX,
            holds_kept: Span::from_days(90),
            grants_kept: Span::from_days(30),
            costs_kept: Span::from_days(400),
            tenants: BTreeMap::new(),
        }
    }
}
