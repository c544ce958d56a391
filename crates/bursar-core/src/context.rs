//! Who asks, for whom, and why: it reaches the journal.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bounds::TEXT_BYTES_MAX;
use crate::credential::{Pattern, covered};
use crate::name::{LeaseOwner, Scope, Tenant};
use crate::refusal::Invalid;
use crate::trace::TraceParent;

/// Who makes a request.
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
    /// Nobody known.
    Anonymous,
}

/// A principal that leases jobs and reports on them through a server. The program that embeds Bursar has the database itself, and is
/// bound by none of this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// What its leases are bound to.
    pub owner: LeaseOwner,
    /// The scopes it may charge for jobs without a hold.
    pub charges: Vec<Pattern>,
}

impl Reporter {
    /// Whether it may charge a scope for a job without a hold.
    pub fn may_charge(&self, scope: &Scope) -> bool {
        covered(&self.charges, scope.as_str())
    }
}

/// The circumstances of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Context {
    /// Whose data it touches.
    pub tenant: Tenant,
    /// Who asks.
    pub actor: Actor,
    /// Ties together what belongs together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The trace it belongs to, where the caller says one. Jobs keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
    /// The principal that reports on jobs, where a server asks for one. Leases keep its name; the journal does not keep the rest.
    #[serde(skip)]
    pub reporter: Option<Arc<Reporter>>,
}

impl Context {
    /// The context of a tenant.
    pub fn of(tenant: Tenant) -> Context {
        Context { tenant, ..Context::default() }
    }

    /// The same context, with a reason.
    pub fn because(self, reason: impl Into<String>) -> Context {
        Context { reason: Some(reason.into()), ..self }
    }

    /// The context as the journal keeps it.
    pub(crate) fn recorded(&self) -> Context {
        Context { reporter: None, ..self.clone() }
    }

    /// The same context, asked by `actor`.
    pub fn by(self, actor: Actor) -> Context {
        Context { actor, ..self }
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let who = match &self.actor {
            Actor::System | Actor::Anonymous => None,
            Actor::User(id) | Actor::Job(id) | Actor::Worker(id) | Actor::Agent(id) => Some(id),
        };
        let fields = [
            ("context.actor", who),
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
