//! The roles of principals.

use bursar_core::name::Tenant;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// The role of a principal in its tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Runs the installation and may act for every tenant.
    Operator,
    /// Configures a tenant.
    Admin,
    /// Spends units and enqueues jobs.
    User,
    /// A program that spends units and enqueues jobs on its own.
    Agent,
    /// Reads, and changes nothing.
    Viewer,
    /// Works on the jobs that its capabilities allow.
    Worker,
    /// Reads metrics.
    Monitor,
}

impl Role {
    /// All roles, in the order of the columns of the permission table.
    pub const ALL: [Role; 7] =
        [Role::Operator, Role::Admin, Role::User, Role::Agent, Role::Viewer, Role::Worker, Role::Monitor];

    /// Returns the name of the role in requests and answers.
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

    /// Returns whether an API key can have the role. Operators and workers have tokens of a class of their own.
    pub fn is_of_keys(self) -> bool {
        !matches!(self, Role::Operator | Role::Worker)
    }

    /// Lists the roles that an API key can have: `admin, user, …`.
    pub fn names_of_keys() -> String {
        Role::of_keys().map(Role::name).collect::<Vec<_>>().join(", ")
    }

    /// Returns the roles that an API key can have.
    pub fn of_keys() -> impl Iterator<Item = Role> {
        Role::ALL.into_iter().filter(|role| role.is_of_keys())
    }
}

/// Parses the role of an API key.
pub(crate) fn of_key<'de, D: Deserializer<'de>>(de: D) -> Result<Role, D::Error> {
    let name = String::deserialize(de)?;
    let known = Role::of_keys().find(|role| role.name() == name);
    known.ok_or_else(|| D::Error::custom(format_args!("{name:?} is not one of {}", Role::names_of_keys())))
}

pub(crate) fn key_schema(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<&str> = Role::of_keys().map(Role::name).collect();
    json_schema!({ "type": "string", "enum": names })
}

/// A tenant: an item of `GET /v1/tenants`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct TenantAnswer {
    pub name: Tenant,
}

/// Who the caller is: the answer of `GET /v1/whoami`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct WhoAmIAnswer {
    /// The name that the journal records.
    pub name: String,
    pub role: Role,
    /// The tenant whose data the caller may access. An operator may choose another one per request.
    pub tenant: Tenant,
    /// The actions that the caller may perform.
    pub actions: Vec<String>,
}
