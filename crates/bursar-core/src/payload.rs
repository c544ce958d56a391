//! Payloads: JSON that Bursar stores and returns unchanged.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use smol_str::SmolStr;

use crate::bounds::{PAYLOAD_BYTES_MAX, PAYLOAD_INLINE_BYTES};
use crate::refusal::Invalid;

const ELSEWHERE: &str = r#"{"$bursar":"payload kept beside the journal"}"#;
const ERASED: &str = r#"{"$bursar":"payload erased"}"#;

/// A valid JSON text; `null` by default.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Payload(SmolStr);

impl Payload {
    /// Creates a payload from a JSON text; refuses other text, and text that is too long.
    pub fn new(json: impl AsRef<str>) -> Result<Payload, Invalid> {
        let json = json.as_ref();
        if json.len() > PAYLOAD_BYTES_MAX {
            let problem = format!("has {} bytes; at most {PAYLOAD_BYTES_MAX} are allowed", json.len());
            return Err(Invalid::new("payload", problem));
        }
        let value: &RawValue =
            serde_json::from_str(json).map_err(|e| Invalid::new("payload", format!("is not JSON: {e}")))?;
        Ok(Payload(value.get().into()))
    }

    /// Serializes a value as JSON.
    pub fn of(value: &impl Serialize) -> Result<Payload, Invalid> {
        let json = serde_json::to_string(value).map_err(|e| Invalid::new("payload", format!("is not JSON: {e}")))?;
        Payload::new(json)
    }

    /// Returns whether it is too large for the journal and the row of its job or grant.
    pub fn is_large(&self) -> bool {
        self.0.len() > PAYLOAD_INLINE_BYTES
    }

    /// Returns the marker of a payload that is stored elsewhere.
    pub fn elsewhere() -> Payload {
        Payload(SmolStr::new_static(ELSEWHERE))
    }

    /// Returns whether it is the marker of a payload that is stored elsewhere.
    pub fn is_elsewhere(&self) -> bool {
        self.0 == ELSEWHERE
    }

    /// Returns what stands in the place of an erased payload.
    pub fn erased() -> Payload {
        Payload(SmolStr::new_static(ERASED))
    }

    /// Overwrites it, unless it is `null`. Returns whether that changes it.
    pub(crate) fn erase(&mut self) -> bool {
        let changes = *self != Payload::default() && !self.is_erased();
        if changes {
            *self = Payload::erased();
        }
        changes
    }

    /// Refuses the markers: callers would take such a payload for one that is stored elsewhere or was erased.
    pub(crate) fn check(&self, field: &'static str) -> Result<(), Invalid> {
        if self.is_elsewhere() || self.is_erased() {
            return Err(Invalid::new(field, format!("is {}, which marks a payload that is not here", self.as_str())));
        }
        Ok(())
    }

    /// Returns whether it was erased.
    pub fn is_erased(&self) -> bool {
        self.0 == ERASED
    }

    /// Creates a payload from a text that was checked when it was stored.
    pub fn trusted(json: &str) -> Payload {
        Payload(json.into())
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Payload {
    fn default() -> Payload {
        Payload(SmolStr::new_static("null"))
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

impl Serialize for Payload {
    fn serialize<S: serde::Serializer>(&self, ser: S) -> Result<S::Ok, S::Error> {
        if ser.is_human_readable() {
            let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
            raw.serialize(ser)
        } else {
            self.0.serialize(ser)
        }
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: serde::Deserializer<'de>>(de: D) -> Result<Payload, D::Error> {
        if de.is_human_readable() {
            let raw = <Box<RawValue>>::deserialize(de)?;
            Payload::new(raw.get()).map_err(serde::de::Error::custom)
        } else {
            Ok(Payload(SmolStr::deserialize(de)?))
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Payload {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Payload".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "description": "Any JSON." })
    }
}
