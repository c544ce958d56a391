//! The context of a request: its tenant, actor, reason and trace. The journal records it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bounds::TEXT_BYTES_MAX;
use crate::credential::{Pattern, covered};
use crate::name::{LeaseOwner, Namespace, Scope, Tenant};
use crate::refusal::Invalid;
use crate::trace::TraceParent;

/// The party that makes a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    /// Bursar itself, or the program that embeds it.
    #[default]
    System,
    /// A person.
    User(String),
    /// A job.
    Job(String),
    /// A worker.
    Worker(String),
    /// An agent.
    Agent(String),
    /// An unidentified caller.
    Anonymous,
}

/// A principal that leases jobs and reports on them through a server.
///
/// A lease is bound to the principal that took it: no other principal may report on it. A program that embeds Bursar
/// has no reporter and is not restricted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// The owner recorded with its leases.
    pub owner: LeaseOwner,
    /// The scopes it may charge for jobs without a hold.
    pub charges: Vec<Pattern>,
    /// The namespaces whose blobs it may name as made by a job.
    pub namespaces: Vec<Pattern>,
}

impl Reporter {
    /// Returns whether it may charge a scope for a job without a hold.
    pub fn may_charge(&self, scope: &Scope) -> bool {
        covered(&self.charges, scope.as_str())
    }

    /// Returns whether it may name blobs of a namespace as made by a job.
    pub fn may_make_in(&self, namespace: &Namespace) -> bool {
        covered(&self.namespaces, namespace.as_str())
    }
}

/// The tenant of a request, its actor, and what ties it to others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Context {
    /// The tenant whose data it touches.
    pub tenant: Tenant,
    /// The party that makes the request.
    pub actor: Actor,
    /// An id that relates requests to each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The reason for the request, for the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The trace it belongs to, if the caller names one. Jobs that it enqueues keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
    /// The principal that leases jobs or reports on them, if a server makes the request. The journal records only the
    /// owner of a lease.
    #[serde(skip)]
    pub reporter: Option<Arc<Reporter>>,
}

impl Context {
    /// Creates the context of a tenant.
    pub fn of(tenant: Tenant) -> Context {
        Context { tenant, ..Context::default() }
    }

    /// Returns the context with a reason.
    pub fn because(self, reason: impl Into<String>) -> Context {
        Context { reason: Some(reason.into()), ..self }
    }

    /// Returns the context as the journal records it.
    pub(crate) fn recorded(&self) -> Context {
        Context { reporter: None, ..self.clone() }
    }

    /// Returns the context with an actor.
    pub fn by(self, actor: Actor) -> Context {
        Context { actor, ..self }
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let actor = match &self.actor {
            Actor::System | Actor::Anonymous => None,
            Actor::User(id) | Actor::Job(id) | Actor::Worker(id) | Actor::Agent(id) => Some(id),
        };
        let fields = [
            ("context.actor", actor),
            ("context.correlation_id", self.correlation_id.as_ref()),
            ("context.reason", self.reason.as_ref()),
        ];
        for (field, text) in fields {
            if text.is_some_and(|text| text.len() > TEXT_BYTES_MAX) {
                return Err(Invalid::new(field, format!("is longer than {TEXT_BYTES_MAX} bytes")));
            }
        }
        Ok(())
    }
}
