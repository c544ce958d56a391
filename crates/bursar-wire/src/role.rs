//! Roles: what a principal is to its tenant.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a principal is to its tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Runs the installation, and acts for any tenant.
    Operator,
    /// Sets up a tenant.
    Admin,
    /// Spends and enqueues.
    User,
    /// A program that spends and enqueues on its own.
    Agent,
    /// Looks.
    Viewer,
    /// Works on jobs, as far as its capabilities go.
    Worker,
    /// Reads metrics.
    Monitor,
}

impl Role {
    /// All of them, in the order of the table's columns.
    pub const ALL: [Role; 7] =
        [Role::Operator, Role::Admin, Role::User, Role::Agent, Role::Viewer, Role::Worker, Role::Monitor];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Role::Operator => "operator",
            Role::Admin => "admin",
            Role::User => "user",
            Role::Agent => "agent",
            Role::Viewer => "viewer",
            Role::Worker => "worker",
            Role::Monitor => "monitor",
        }
    }
    /// Whether an API key can have it. Operators and workers have tokens of a class of their own.
    pub fn is_of_keys(self) -> bool {
        !matches!(self, Role::Operator | Role::Worker)
    }

    /// The roles that an API key can have.
    pub fn of_keys() -> impl Iterator<Item = Role> {
        Role::ALL.into_iter().filter(|role| role.is_of_keys())
    }
}
