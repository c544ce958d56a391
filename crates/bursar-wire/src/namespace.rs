//! Namespaces of blobs: `/v1/namespaces`.

use bursar_core::blob::NamespaceConfig;
use bursar_core::bounds::{BLOB_BYTES_MAX, BLOB_KEPT_MAX};
use bursar_core::name::{Namespace, Scope};
use bursar_core::refusal::Invalid;
use bursar_core::time::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::millis;

/// The rules of a namespace: the body of `PUT /v1/namespaces/{name}`. A field that is left out is set to its default.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NamespaceBody {
    /// The most bytes of one blob; default: 5 TiB.
    #[schemars(range(min = 1, max = BLOB_BYTES_MAX))]
    pub bytes_max: u64,
    /// The scope that stored bytes are charged to; `null`: none. It has a budget with lifetime limits only.
    pub charge: Option<Scope>,
    /// How long a deleted blob can be restored, in milliseconds; default: 7 days.
    #[schemars(range(min = 0, max = BLOB_KEPT_MAX.millis()))]
    pub grace_ms: i64,
    /// How long a blob without references is kept, in milliseconds; `null`: until it is deleted.
    #[schemars(range(min = 0, max = BLOB_KEPT_MAX.millis()))]
    pub unreferenced_ms: Option<i64>,
    /// Why the namespace is changed; recorded in the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Default for NamespaceBody {
    fn default() -> NamespaceBody {
        NamespaceBody::from(&NamespaceConfig::default())
    }
}

impl From<&NamespaceConfig> for NamespaceBody {
    fn from(config: &NamespaceConfig) -> NamespaceBody {
        NamespaceBody {
            bytes_max: config.bytes_max,
            charge: config.charge.clone(),
            grace_ms: config.grace.millis(),
            unreferenced_ms: config.unreferenced.map(Span::millis),
            reason: None,
        }
    }
}

impl TryFrom<NamespaceBody> for NamespaceConfig {
    type Error = Invalid;

    fn try_from(body: NamespaceBody) -> Result<NamespaceConfig, Invalid> {
        Ok(NamespaceConfig {
            bytes_max: body.bytes_max,
            charge: body.charge,
            grace: millis("grace_ms", body.grace_ms)?,
            unreferenced: body.unreferenced_ms.map(|kept| millis("unreferenced_ms", kept)).transpose()?,
        })
    }
}

/// A namespace and its rules.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct NamespaceAnswer {
    pub name: Namespace,
    #[serde(flatten)]
    pub config: NamespaceBody,
}

impl NamespaceAnswer {
    /// The fields that are not rules. A `PUT` accepts them and ignores them, so that an answer can be changed and sent back.
    pub const READ_ONLY: &[&str] = &["name"];

    /// Returns a namespace with its rules.
    pub fn of(name: Namespace, config: &NamespaceConfig) -> NamespaceAnswer {
        NamespaceAnswer { name, config: config.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_the_same_after_a_round_trip() {
        let charged = NamespaceConfig {
            bytes_max: 7,
            charge: Some(Scope::new("disk").unwrap()),
            grace: Span::ZERO,
            unreferenced: Some(Span::from_days(1)),
        };
        for config in [NamespaceConfig::default(), charged] {
            let json = serde_json::to_string(&NamespaceBody::from(&config)).unwrap();
            let read: NamespaceBody = serde_json::from_str(&json).unwrap();
            assert_eq!(NamespaceConfig::try_from(read).unwrap(), config);
        }
        let body: NamespaceBody = serde_json::from_str(r#"{ "grace_ms": -1 }"#).unwrap();
        assert_eq!(NamespaceConfig::try_from(body).unwrap_err().field, "grace_ms");
    }
}
