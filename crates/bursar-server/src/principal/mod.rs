//! Principals: who asks, and what they may do.

pub(crate) mod attempts;
pub(crate) mod authenticate;
pub(crate) mod jwt;
pub(crate) mod proxies;
pub(crate) mod readings;
pub(crate) mod table;
pub(crate) mod uses;

use std::sync::Arc;

use bursar::{Actor, Capabilities, CredentialToken, JobKind, LeaseOwner, Pattern, Queue, Reporter, Tenant, covered};
use sha2::{Digest, Sha256};

use crate::in_flight::Account;

use crate::principal::table::{Action, Allowed, Role};
use crate::wire::problem::{Kind, Problem};

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Principal {
    /// `None` for whoever has shown nothing.
    pub(crate) role: Option<Role>,
    /// Whose data it may touch; the operator's unless it says another.
    pub(crate) tenant: Tenant,
    /// By which it is known in the journal.
    pub(crate) name: String,
    /// What its leases are bound to, and its bytes in flight are counted for.
    pub(crate) owner: LeaseOwner,
    /// What a worker may do.
    pub(crate) capabilities: Capabilities,
    /// What it has shown, if that is in the database.
    pub(crate) credential: Option<CredentialToken>,
    /// Until when what it has shown is good, in seconds since 1970, if that is not in the database.
    pub(crate) good_until: Option<i64>,
}

impl Principal {
    pub(crate) fn nobody() -> Principal {
        Principal {
            role: None,
            tenant: Tenant::built_in(),
            name: String::new(),
            owner: owner_named("nobody", ""),
            capabilities: Capabilities::default(),
            credential: None,
            good_until: None,
        }
    }

    pub(crate) fn operator() -> Principal {
        let owner = owner_named("operator", "");
        Principal { role: Some(Role::Operator), name: "operator".into(), owner, ..Principal::nobody() }
    }

    pub(crate) fn is_operator(&self) -> bool {
        self.role == Some(Role::Operator)
    }

    /// Whose bytes in flight its requests are.
    pub(crate) fn account(&self) -> Account {
        format!("{}/{}", self.tenant, self.owner).into()
    }

    /// As which it reports on jobs. Only workers are bound by capabilities.
    pub(crate) fn reporter(&self) -> Arc<Reporter> {
        let charges = match self.role {
            Some(Role::Worker) => self.capabilities.charges.clone(),
            _ => vec![Pattern::new("*").expect("it is a pattern")],
        };
        Arc::new(Reporter { owner: self.owner.clone(), charges })
    }

    /// Who that is in the journal.
    pub(crate) fn actor(&self) -> Actor {
        let name = self.name.clone();
        match self.role {
            None => Actor::Anonymous,
            Some(Role::Worker) => Actor::Worker(name),
            Some(Role::Agent) => Actor::Agent(name),
            Some(Role::Operator | Role::Admin | Role::User | Role::Viewer | Role::Monitor) => Actor::User(name),
        }
    }

    /// Refuses a worker jobs of a queue or a kind that it may not work on. Others are not bound by capabilities.
    pub(crate) fn may_work_on(&self, queue: &Queue, kind: &JobKind) -> Result<(), Problem> {
        if self.role != Some(Role::Worker) {
            return Ok(());
        }
        self.may_lease_from(queue)?;
        match covered(&self.capabilities.kinds, kind.as_str()) {
            true => Ok(()),
            false => Err(forbidden(format!("this worker may not work on jobs of the kind {kind}"))),
        }
    }

    /// Refuses a worker a queue that it may not lease from.
    pub(crate) fn may_lease_from(&self, queue: &Queue) -> Result<(), Problem> {
        match self.role == Some(Role::Worker) && !covered(&self.capabilities.queues, queue.as_str()) {
            true => Err(forbidden(format!("this worker may not work on the queue {queue}"))),
            false => Ok(()),
        }
    }
}

/// The owner of leases that is called so. A name that cannot be one is told apart by its digest.
pub(crate) fn owner_named(kind: &str, name: &str) -> LeaseOwner {
    let separator = if name.is_empty() { "" } else { ":" };
    LeaseOwner::new(format!("{kind}{separator}{name}")).unwrap_or_else(|_| {
        let digest: String = Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect();
        LeaseOwner::new(format!("{kind}:{digest}")).expect("a digest is a good name")
    })
}

/// Refuses what the table does not allow.
pub(crate) fn authorize(principal: &Principal, action: Action) -> Result<(), Problem> {
    let allowed = match principal.role {
        None => action == Action::Public,
        Some(role) => match action.allows(role) {
            Allowed::Yes => true,
            Allowed::No => false,
            Allowed::Granted => covered(&principal.capabilities.mutations, action.name()),
        },
    };
    match (allowed, principal.role) {
        (true, _) => Ok(()),
        (false, Some(role)) => {
            Err(forbidden(format!("{} is not allowed to {}; see docs/server.md", action.name(), role.name())))
        }
        (false, None) => Err(unauthorized()),
    }
}

/// The one answer to whoever is not known, whatever is wrong with what was shown.
pub(crate) fn unauthorized() -> Problem {
    let detail = "send a good token: `Authorization: Bearer TOKEN`, or `X-Worker-Token: TOKEN` for a worker";
    Problem::new(Kind::Unauthorized, detail)
}

pub(crate) fn forbidden(detail: impl Into<String>) -> Problem {
    Problem::new(Kind::Forbidden, detail)
}
