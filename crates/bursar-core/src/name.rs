//! Names: parsed at the edge, trusted inside.
//!
//! A short one stands in the value itself. Shared by a counter, the one name of a tenant would be where all threads meet.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};
use smol_str::SmolStr;

use crate::bounds::NAME_BYTES_MAX;
use crate::id::base32;
use crate::refusal::Invalid;

/// What names of Bursar's own scopes and purposes begin with; nobody else's do.
const INTERNAL: &str = "bursar:";

/// Checks a name of the kind `field`: 1 to 255 bytes, no control characters. Scopes of Bursar's own are put together from two names,
/// with a tab between them.
fn check(field: &'static str, name: &str) -> Result<(), Invalid> {
    let internal = field == "scope" && name.starts_with(INTERNAL);
    let bytes_max = if internal { 3 * NAME_BYTES_MAX } else { NAME_BYTES_MAX };
    if name.is_empty() {
        return Err(Invalid::new(field, "must not be empty"));
    }
    if name.len() > bytes_max {
        let problem = format!("has {} bytes; at most {bytes_max} are allowed", name.len());
        return Err(Invalid::new(field, problem));
    }
    let plain = name.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if !plain && name.chars().any(|sign| sign.is_control() && !(internal && sign == '\t')) {
        return Err(Invalid::new(field, "must not contain control characters"));
    }
    Ok(())
}

/// Makes a name of the text as it is read, without a copy in between.
struct Parse<T>(fn(&str) -> Result<T, Invalid>);

impl<T> Visitor<'_> for Parse<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<T, E> {
        self.0(name).map_err(E::custom)
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $field:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(SmolStr);

        impl $name {
            /// Checks and takes a name.
            pub fn new(name: impl AsRef<str>) -> Result<$name, Invalid> {
                check($field, name.as_ref())?;
                Ok($name(name.as_ref().into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<&str> for $name {
            type Error = Invalid;
            fn try_from(name: &str) -> Result<$name, Invalid> {
                $name::new(name)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;
            fn try_from(name: String) -> Result<$name, Invalid> {
                $name::new(name)
            }
        }

        impl TryFrom<&String> for $name {
            type Error = Invalid;
            fn try_from(name: &String) -> Result<$name, Invalid> {
                $name::new(name)
            }
        }

        impl TryFrom<&$name> for $name {
            type Error = Invalid;
            fn try_from(name: &$name) -> Result<$name, Invalid> {
                Ok(name.clone())
            }
        }

        impl std::str::FromStr for $name {
            type Err = Invalid;
            fn from_str(name: &str) -> Result<$name, Invalid> {
                $name::new(name)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(de: D) -> Result<$name, D::Error> {
                de.deserialize_str(Parse(|name: &str| $name::new(name)))
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                $field.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$";
                schemars::json_schema!({ "type": "string", "pattern": pattern, "minLength": 1, "maxLength": NAME_BYTES_MAX })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.as_str())
            }
        }
    )*};
}

names! {
    /// What is limited: `room:sales`, `agent:9f`, `show:42/row:A`. Opaque to Bursar.
    Scope = "scope";
    /// Whose data it is.
    Tenant = "tenant";
    /// Where jobs wait.
    Queue = "queue";
    /// What a job does: `video.generate`.
    JobKind = "kind";
    /// What a grant permits: `upload`.
    Purpose = "purpose";
    /// Whom a grant permits it.
    Subject = "subject";
    /// Makes a repeated request have one effect.
    IdempotencyKey = "idempotency_key";
    /// Groups jobs of a queue for flow control: a customer, a provider account.
    FlowKey = "key";
    /// A word on a job to find it by.
    Tag = "tag";
    /// Who leases jobs.
    WorkerName = "worker";
    /// What enqueues a job again and again.
    ScheduleName = "schedule";
}

impl Scope {
    /// A scope of Bursar's own, put together from names that were checked.
    pub(crate) fn internal(name: String) -> Scope {
        debug_assert!(name.starts_with(INTERNAL));
        Scope(name.into())
    }

    /// Whether it is one of Bursar's own, which nobody else may charge or define.
    pub fn is_internal(&self) -> bool {
        self.0.starts_with(INTERNAL)
    }

    /// Refuses one of Bursar's own.
    pub(crate) fn check_own(&self) -> Result<(), Invalid> {
        if self.is_internal() {
            return Err(Invalid::new("scope", format!("must not begin with {INTERNAL:?}: these are Bursar's own")));
        }
        Ok(())
    }
}

impl Purpose {
    /// Whether it is one of Bursar's own: what grants it is a credential, which nobody else may mint or redeem.
    pub fn is_internal(&self) -> bool {
        self.0.starts_with(INTERNAL)
    }

    /// Refuses one of Bursar's own.
    pub(crate) fn check_own(&self) -> Result<(), Invalid> {
        if self.is_internal() {
            return Err(Invalid::new("purpose", format!("must not begin with {INTERNAL:?}: these are Bursar's own")));
        }
        Ok(())
    }
}

impl IdempotencyKey {
    /// The key of a part of what was asked under this one. It is one of Bursar's own, so that it is no caller's, however long
    /// this one is and whatever it says.
    pub(crate) fn of_part(&self, number: u32) -> IdempotencyKey {
        let mut digest = Sha256::new();
        digest.update(number.to_be_bytes());
        digest.update(self.0.as_bytes());
        IdempotencyKey(format!("{INTERNAL}part:{}", base32(&digest.finalize()[..20])).into())
    }

    /// Refuses one of Bursar's own.
    pub(crate) fn check_own(&self) -> Result<(), Invalid> {
        if self.0.starts_with(INTERNAL) {
            let problem = format!("must not begin with {INTERNAL:?}: these are Bursar's own");
            return Err(Invalid::new("idempotency_key", problem));
        }
        Ok(())
    }
}

impl Tenant {
    /// The tenant of whoever names none.
    pub fn built_in() -> Tenant {
        Tenant(SmolStr::new_static("default"))
    }
}

impl Default for Tenant {
    fn default() -> Tenant {
        Tenant::built_in()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_parts_are_nobodys_own() {
        let longest = IdempotencyKey::new("k".repeat(NAME_BYTES_MAX)).unwrap();
        let parts = [longest.of_part(1), longest.of_part(2), IdempotencyKey::new("k").unwrap().of_part(1)];
        for (place, part) in parts.iter().enumerate() {
            assert!(IdempotencyKey::new(part.as_str()).is_ok(), "it can be stored: {part}");
            assert!(part.check_own().is_err(), "nobody can send it: {part}");
            assert!(!parts[..place].contains(part), "{parts:?}");
        }
        assert_eq!(longest.of_part(1), parts[0]);
        assert!(longest.check_own().is_ok());
    }

    #[test]
    fn names_are_checked() {
        let cases = [
            ("room:sales", None),
            ("комната/1", None),
            ("", Some("scope must not be empty")),
            ("a\nb", Some("scope must not contain control characters")),
            ("bursar:slots:q\tkey", None),
            ("bursar:\0", Some("scope must not contain control characters")),
        ];
        for (name, problem) in cases {
            let seen = Scope::new(name).err().map(|e| e.to_string());
            assert_eq!(seen.as_deref(), problem, "{name:?}");
        }
        let huge = "x".repeat(10 << 20);
        assert_eq!(Scope::new(huge).unwrap_err().to_string(), "scope has 10485760 bytes; at most 255 are allowed");
    }
}
