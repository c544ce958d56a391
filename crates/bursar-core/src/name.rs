//! Names. They are checked when a caller gives them, and not again.
//!
//! A name from a caller must not have control or invisible characters, and is stored in Unicode normalization form C,
//! so that names that look the same are the same. Names read from storage may be older than this rule and are
//! accepted as they are. [`given`] marks which of the two is being deserialized.
//!
//! Short names are stored inline and copied. The reference count of a shared name, such as a tenant's, would be contended
//! by all threads.

use std::cell::Cell;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};
use smol_str::SmolStr;
use unicode_normalization::{UnicodeNormalization, is_nfc};

use crate::bounds::NAME_BYTES_MAX;
use crate::id::base32;
use crate::refusal::Invalid;

/// The prefix of internal scopes, purposes and keys, which callers must not use.
const INTERNAL: &str = "bursar:";

/// Checks the length of a name, and that it has no control characters. Internal scopes consist of two names with a tab
/// between them, so they may be longer and may have a tab.
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

/// Characters that are invisible or change the direction of text, as ranges.
const INVISIBLE: [(char, char); 19] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Refuses text with invisible characters.
pub(crate) fn check_visible(field: &'static str, text: &str) -> Result<(), Invalid> {
    if text.is_ascii() {
        return Ok(());
    }
    let hidden = |sign: &char| INVISIBLE.iter().any(|(first, last)| (first..=last).contains(&sign));
    match text.chars().find(hidden) {
        Some(sign) => {
            let problem =
                format!("must not contain U+{:04X}, which is invisible or changes the direction of text", sign as u32);
            Err(Invalid::new(field, problem))
        }
        None => Ok(()),
    }
}

/// Returns the text in normalization form C.
fn normalized(text: &str) -> SmolStr {
    if text.is_ascii() || is_nfc(text) { text.into() } else { text.nfc().collect() }
}

/// Deserializes a name from borrowed text, without an intermediate copy.
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

std::thread_local! {
    /// Whether input of a caller is being deserialized on this thread.
    static GIVEN: Cell<bool> = const { Cell::new(false) };
}

/// Deserializes input of a caller: names in it are checked and normalized as by `new`. Outside of `given`, names are
/// read as stored.
pub fn given<T>(read: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            GIVEN.set(self.0);
        }
    }
    let _restore = Restore(GIVEN.replace(true));
    read()
}

/// A name that can be read from storage.
pub trait Name: Sized {
    /// Accepts a name as it was stored, without the rule for invisible characters and without normalizing.
    fn stored(name: &str) -> Result<Self, Invalid>;
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $field:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(SmolStr);

        impl $name {
            /// Creates a name; refuses one that is empty, too long or has control or invisible characters.
            pub fn new(name: impl AsRef<str>) -> Result<$name, Invalid> {
                // Checked before normalizing, which is expensive for long text, and after, because normalizing may
                // lengthen it.
                check($field, name.as_ref())?;
                check_visible($field, name.as_ref())?;
                let name = normalized(name.as_ref());
                check($field, &name)?;
                Ok($name(name))
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Name for $name {
            fn stored(name: &str) -> Result<$name, Invalid> {
                check($field, name)?;
                Ok($name(name.into()))
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
                de.deserialize_str(Parse(if GIVEN.get() { |name: &str| $name::new(name) } else { $name::stored }))
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
    /// The name of a scope: `room:sales`, `agent:9f`, `show:42/row:A`. Bursar does not interpret it.
    Scope = "scope";
    /// The name of a tenant, which isolates its data from others.
    Tenant = "tenant";
    /// The name of a queue.
    Queue = "queue";
    /// The kind of a job, which selects its handler: `video.generate`.
    JobKind = "kind";
    /// The purpose of a grant: `upload`.
    Purpose = "purpose";
    /// The subject of a grant: the party it is issued to.
    Subject = "subject";
    /// A key that makes a repeated request have one effect.
    IdempotencyKey = "idempotency_key";
    /// A key that groups jobs of a queue for concurrency and rate limits: a customer, a provider account.
    FlowKey = "key";
    /// A tag of a job, for searching.
    Tag = "tag";
    /// The name of a worker.
    WorkerName = "worker";
    /// The principal that a lease is bound to: the first of a series of rotated tokens, a user, or the operator.
    LeaseOwner = "owner";
    /// The name of an event that workers emit: `preview.ready`.
    EventName = "event";
    /// The name of a schedule.
    ScheduleName = "schedule";
    /// The name of a group of blobs with the same rules: `media`.
    Namespace = "namespace";
    /// The name of a storage backend: `local`, `s3`.
    Backend = "backend";
    /// The name of something of the application that refers to a blob: `post:42`.
    Referrer = "by";
}

impl Scope {
    /// Creates an internal scope from names that were checked.
    pub(crate) fn internal(name: String) -> Scope {
        debug_assert!(name.starts_with(INTERNAL));
        Scope(name.into())
    }

    /// Returns whether it is internal, which means that callers may not charge or define it.
    pub fn is_internal(&self) -> bool {
        self.0.starts_with(INTERNAL)
    }

    /// Refuses an internal name.
    pub(crate) fn check_own(&self) -> Result<(), Invalid> {
        if self.is_internal() {
            return Err(Invalid::new(
                "scope",
                format!("must not begin with {INTERNAL:?}, which is reserved for Bursar"),
            ));
        }
        Ok(())
    }
}

impl Purpose {
    /// Returns whether it is internal: its grants are credentials, which callers may not mint or redeem.
    pub fn is_internal(&self) -> bool {
        self.0.starts_with(INTERNAL)
    }

    /// Refuses an internal name.
    pub(crate) fn check_own(&self) -> Result<(), Invalid> {
        if self.is_internal() {
            return Err(Invalid::new(
                "purpose",
                format!("must not begin with {INTERNAL:?}, which is reserved for Bursar"),
            ));
        }
        Ok(())
    }
}

impl IdempotencyKey {
    /// Returns the key of one part of a request that has this key. It is internal, so no caller can send it, and
    /// hashed, so that it is never too long.
    pub(crate) fn of_part(&self, number: u32) -> IdempotencyKey {
        let mut digest = Sha256::new();
        digest.update(number.to_be_bytes());
        digest.update(self.0.as_bytes());
        IdempotencyKey(format!("{INTERNAL}part:{}", base32(&digest.finalize()[..20])).into())
    }

    /// Refuses an internal name.
    pub(crate) fn check_own(&self) -> Result<(), Invalid> {
        if self.0.starts_with(INTERNAL) {
            let problem = format!("must not begin with {INTERNAL:?}, which is reserved for Bursar");
            return Err(Invalid::new("idempotency_key", problem));
        }
        Ok(())
    }
}

impl Tenant {
    /// Returns the tenant of requests that name none.
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
    fn keys_of_parts_are_distinct_and_internal() {
        let longest = IdempotencyKey::new("k".repeat(NAME_BYTES_MAX)).unwrap();
        let parts = [longest.of_part(1), longest.of_part(2), IdempotencyKey::new("k").unwrap().of_part(1)];
        for (place, part) in parts.iter().enumerate() {
            assert!(IdempotencyKey::new(part.as_str()).is_ok(), "a valid key: {part}");
            assert!(part.check_own().is_err(), "refused from callers: {part}");
            assert!(!parts[..place].contains(part), "{parts:?}");
        }
        assert_eq!(longest.of_part(1), parts[0]);
        assert!(longest.check_own().is_ok());
    }

    #[test]
    fn names_are_normalized_and_have_no_invisible_characters() {
        let (composed, decomposed) = ("caf\u{e9}", "cafe\u{301}");
        assert_eq!(Scope::new(decomposed).unwrap().as_str(), composed);
        let json = |name: &str| serde_json::to_string(name).unwrap();
        let read = |name: &str| serde_json::from_str::<Scope>(&json(name)).map(|scope| scope.to_string());
        assert_eq!(given(|| read(decomposed)).unwrap(), composed);
        assert_eq!(read(decomposed).unwrap(), decomposed, "stored names are not normalized");
        assert_eq!(Scope::stored(decomposed).unwrap().as_str(), decomposed);
        for (name, sign) in
            [("a\u{200b}", "U+200B"), ("\u{202e}a", "U+202E"), ("\u{feff}a", "U+FEFF"), ("a\u{e0041}", "U+E0041")]
        {
            assert!(Scope::new(name).unwrap_err().to_string().contains(sign), "{name:?}");
            assert!(given(|| read(name)).unwrap_err().to_string().contains(sign), "{name:?}");
            assert_eq!(read(name).unwrap(), name, "stored names are accepted");
        }
        let grows = "\u{958}".repeat(85);
        assert_eq!(grows.len(), NAME_BYTES_MAX, "short enough before normalizing");
        assert!(Scope::new(&grows).unwrap_err().to_string().contains("510 bytes"), "too long after normalizing");
        for name in ["комната", "部屋/1", "👍", "שלום"] {
            assert_eq!(Scope::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn empty_long_and_control_character_names_are_refused() {
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
