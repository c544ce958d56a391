//! Principals: the callers of the API, how they authenticate, and what they may do.

pub(crate) mod authenticate;
pub(crate) mod failed_attempts;
pub(crate) mod jwks;
pub(crate) mod jwt;
pub(crate) mod permissions;
pub(crate) mod proxies;
pub(crate) mod revocation;
pub(crate) mod shared_reads;
pub(crate) mod token_uses;

use std::sync::Arc;

use bursar::{
    Actor, Capabilities, CredentialToken, EventName, JobKind, LeaseOwner, Namespace, Pattern, Queue, Reporter, Tenant,
    covered,
};
use sha2::{Digest, Sha256};

use crate::in_flight::Account;
use crate::principal::permissions::{Action, Allowed, Role};
use crate::wire::problem::{Kind, Problem};

/// The caller of a request.
#[derive(Clone, Debug)]
pub(crate) struct Principal {
    /// The role; `None` for an anonymous caller of a public route.
    pub(crate) role: Option<Role>,
    /// The tenant whose data it may access. An operator may choose another one per request.
    pub(crate) tenant: Tenant,
    /// The name that the journal records.
    pub(crate) name: String,
    /// The owner of its leases, and the account of its bytes in flight.
    pub(crate) owner: LeaseOwner,
    /// The capabilities of a worker.
    pub(crate) capabilities: Capabilities,
    /// Its token, if that is a credential in the database.
    pub(crate) credential: Option<CredentialToken>,
    /// The expiry of its JWT, in seconds since 1970.
    pub(crate) valid_until: Option<i64>,
}

impl Principal {
    /// Returns the principal of a request without a token.
    pub(crate) fn anonymous() -> Principal {
        Principal {
            role: None,
            tenant: Tenant::built_in(),
            name: String::new(),
            owner: owner_named("nobody", ""),
            capabilities: Capabilities::default(),
            credential: None,
            valid_until: None,
        }
    }

    pub(crate) fn operator() -> Principal {
        let owner = owner_named("operator", "");
        Principal { role: Some(Role::Operator), name: "operator".into(), owner, ..Principal::anonymous() }
    }

    pub(crate) fn is_operator(&self) -> bool {
        self.role == Some(Role::Operator)
    }

    /// Returns the account that its bytes in flight are counted under.
    pub(crate) fn account(&self) -> Account {
        format!("{}/{}", self.tenant, self.owner).into()
    }

    /// Returns the identity under which it reports on jobs. Only workers are restricted by capabilities.
    pub(crate) fn reporter(&self) -> Arc<Reporter> {
        let every = || vec![Pattern::new("*").expect("`*` is a valid pattern")];
        let (charges, namespaces) = match self.role {
            Some(Role::Worker) => (self.capabilities.charges.clone(), self.capabilities.blobs.write.clone()),
            _ => (every(), every()),
        };
        Arc::new(Reporter { owner: self.owner.clone(), charges, namespaces })
    }

    /// Returns the actor that the journal records.
    pub(crate) fn actor(&self) -> Actor {
        let name = self.name.clone();
        match self.role {
            None => Actor::Anonymous,
            Some(Role::Worker) => Actor::Worker(name),
            Some(Role::Agent) => Actor::Agent(name),
            Some(Role::Operator | Role::Admin | Role::User | Role::Viewer | Role::Monitor) => Actor::User(name),
        }
    }

    /// Fails if a worker's capabilities do not include a job's queue and kind. Other roles are not restricted.
    pub(crate) fn may_work_on(&self, queue: &Queue, kind: &JobKind) -> Result<(), Problem> {
        if self.role != Some(Role::Worker) {
            return Ok(());
        }
        self.may_lease_from(queue)?;
        match covered(&self.capabilities.kinds, kind.as_str()) {
            true => Ok(()),
            false => Err(forbidden(format!("this worker's capabilities do not include the job kind {kind}"))),
        }
    }

    /// Fails if a worker's capabilities do not include an event that it emits. Other roles are not restricted.
    pub(crate) fn may_emit(&self, event: &EventName) -> Result<(), Problem> {
        match self.role != Some(Role::Worker) || covered(&self.capabilities.events, event.as_str()) {
            true => Ok(()),
            false => Err(forbidden(format!("this worker's capabilities do not include the event {event}"))),
        }
    }

    /// Returns whether it may read blobs of a namespace. Only workers are restricted.
    pub(crate) fn reads_blobs_of(&self, namespace: &Namespace) -> bool {
        self.role != Some(Role::Worker) || covered(&self.capabilities.blobs.read, namespace.as_str())
    }

    /// Returns whether it may read blobs of every namespace.
    pub(crate) fn reads_all_blobs(&self) -> bool {
        let every = |pattern: &Pattern| pattern.to_string() == "*";
        self.role != Some(Role::Worker) || self.capabilities.blobs.read.iter().any(every)
    }

    /// Returns whether it may write blobs of a namespace. Only workers are restricted.
    pub(crate) fn writes_blobs_of(&self, namespace: &Namespace) -> bool {
        self.role != Some(Role::Worker) || covered(&self.capabilities.blobs.write, namespace.as_str())
    }

    /// Fails if a worker's capabilities do not include a queue.
    pub(crate) fn may_lease_from(&self, queue: &Queue) -> Result<(), Problem> {
        match self.role == Some(Role::Worker) && !covered(&self.capabilities.queues, queue.as_str()) {
            true => Err(forbidden(format!("this worker's capabilities do not include the queue {queue}"))),
            false => Ok(()),
        }
    }
}

/// Returns the lease owner `kind:name`. A name that is too long or has invalid characters is replaced by its digest.
pub(crate) fn owner_named(kind: &str, name: &str) -> LeaseOwner {
    let separator = if name.is_empty() { "" } else { ":" };
    LeaseOwner::new(format!("{kind}{separator}{name}")).unwrap_or_else(|_| {
        let digest: String = Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect();
        LeaseOwner::new(format!("{kind}:{digest}")).expect("a hexadecimal digest is a valid name")
    })
}

/// Fails if the permission table does not allow a principal an action.
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
            let (action, role) = (action.name(), role.name());
            Err(forbidden(format!(
                "the role {role} does not allow the action {action}; use a token with another role (docs/server.md lists them)"
            )))
        }
        (false, None) => Err(unauthorized()),
    }
}

/// Returns the problem for a missing or invalid token. It is the same for every fault, so that it reveals nothing about a token.
pub(crate) fn unauthorized() -> Problem {
    let detail =
        "the request has no valid token; send `Authorization: Bearer TOKEN`, or `X-Worker-Token: TOKEN` for a worker";
    Problem::new(Kind::Unauthorized, detail)
}

pub(crate) fn forbidden(detail: impl Into<String>) -> Problem {
    Problem::new(Kind::Forbidden, detail)
}
