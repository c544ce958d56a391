//! Identifiers: UUIDv7 numbers, written as a type prefix and 26 digits of Crockford base 32.
//!
//! Ids and their texts sort by creation time. JSON has the text; compact encodings have the bytes, without leading
//! zeros.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::refusal::Invalid;
use crate::time::Time;

/// A source of ids. `decide` has no randomness of its own.
pub trait IdSource {
    /// Returns the next id. The ids of one source increase.
    fn next_id(&mut self, now: Time) -> u128;
}

/// Builds a UUIDv7 from an instant and random bits.
pub fn uuid_v7(now: Time, random: u128) -> u128 {
    let millis = (now.micros() / 1_000).max(0) as u128 & 0xffff_ffff_ffff;
    let rand_a = (random >> 64) & 0xfff;
    let rand_b = random & 0x3fff_ffff_ffff_ffff;
    (millis << 80) | (0x7 << 76) | (rand_a << 64) | (0x2 << 62) | rand_b
}

const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The value of each ASCII digit; 255 for other characters.
const VALUES: [u8; 128] = {
    let mut values = [255; 128];
    let mut value = 0;
    while value < 32 {
        values[DIGITS[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// Encodes bytes in Crockford's base 32, most significant digit first, padded with zero bits in front.
pub(crate) fn base32(bytes: &[u8]) -> String {
    let digits = (bytes.len() * 8).div_ceil(5);
    let mut text = vec![0u8; digits];
    let mut bits = 0u32;
    let mut held = 0u32;
    let mut at = digits;
    for byte in bytes.iter().rev() {
        held |= u32::from(*byte) << bits;
        bits += 8;
        while bits >= 5 {
            at -= 1;
            text[at] = DIGITS[(held & 31) as usize];
            held >>= 5;
            bits -= 5;
        }
    }
    if bits > 0 {
        at -= 1;
        text[at] = DIGITS[(held & 31) as usize];
    }
    debug_assert_eq!(at, 0);
    String::from_utf8(text).expect("the digits are ASCII")
}

/// Decodes `text` into `bytes`, if it is exactly what [`base32`] writes.
pub(crate) fn from_base32(text: &str, bytes: &mut [u8]) -> Option<()> {
    if text.len() != (bytes.len() * 8).div_ceil(5) {
        return None;
    }
    let (mut bits, mut held, mut at) = (0u32, 0u32, bytes.len());
    for digit in text.bytes().rev() {
        let value = u32::from(*VALUES.get(usize::from(digit)).filter(|value| **value < 32)?);
        held |= value << bits;
        bits += 5;
        if bits >= 8 && at > 0 {
            at -= 1;
            bytes[at] = (held & 0xff) as u8;
            held >>= 8;
            bits -= 8;
        }
    }
    (at == 0 && held == 0).then_some(())
}

/// Strips leading zero bytes, which makes small numbers short in compact encodings.
fn significant(bytes: &[u8; 16]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}

fn from_significant(bytes: &[u8]) -> Option<u128> {
    let mut whole = [0u8; 16];
    let zeros = whole.len().checked_sub(bytes.len())?;
    whole[zeros..].copy_from_slice(bytes);
    Some(u128::from_be_bytes(whole))
}

/// The text of an id, built without allocating because journal rows have many of them.
#[derive(Clone, Copy)]
pub(crate) struct IdText {
    bytes: [u8; 40],
    len: usize,
}

impl IdText {
    fn new(prefix: &str, id: u128) -> IdText {
        let mut bytes = [b'_'; 40];
        bytes[..prefix.len()].copy_from_slice(prefix.as_bytes());
        let len = prefix.len() + 1 + 26;
        let mut rest = id;
        for place in bytes[prefix.len() + 1..len].iter_mut().rev() {
            *place = DIGITS[(rest & 31) as usize];
            rest >>= 5;
        }
        IdText { bytes, len }
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).expect("the digits are ASCII")
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl $name {
            /// The prefix of its text.
            pub const PREFIX: &'static str = $prefix;

            pub(crate) fn text(&self) -> IdText {
                IdText::new($prefix, self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.text().as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "pattern": concat!("^", $prefix, "_[0-7][0-9a-hjkmnp-tv-z]{25}$") })
            }
        }

        impl FromStr for $name {
            type Err = Invalid;
            fn from_str(text: &str) -> Result<$name, Invalid> {
                let mut bytes = [0u8; 16];
                text.strip_prefix(concat!($prefix, "_"))
                    .and_then(|digits| from_base32(digits, &mut bytes))
                    .ok_or_else(|| Invalid::new("id", concat!("must be ", $prefix, "_… with 26 letters and digits")))?;
                Ok($name(u128::from_be_bytes(bytes)))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, ser: S) -> Result<S::Ok, S::Error> {
                if ser.is_human_readable() {
                    ser.serialize_str(self.text().as_str())
                } else {
                    ser.serialize_bytes(significant(&self.0.to_be_bytes()))
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(de: D) -> Result<$name, D::Error> {
                if de.is_human_readable() {
                    let text = <std::borrow::Cow<'de, str>>::deserialize(de)?;
                    text.parse().map_err(D::Error::custom)
                } else {
                    let bytes = <&'de [u8]>::deserialize(de)?;
                    from_significant(bytes).map($name).ok_or_else(|| D::Error::custom("is longer than an id"))
                }
            }
        }
    )*};
}

ids! {
    /// The id of a command.
    CommandId = "cmd";
    /// The id of a hold.
    HoldId = "hold";
    /// The id of a grant.
    GrantId = "grant";
    /// The id of a job.
    JobId = "job";
    /// The id of a blob.
    BlobId = "blob";
    /// The id of a worker's credential: the id of its row among grants.
    WorkerId = "wkr";
    /// The id of an API key: the id of its row among grants.
    KeyId = "key";
    /// The id of a transaction and of its row in the journal.
    BatchId = "tx";
}

impl JobId {
    /// Returns the key of a result that is stored outside the row. Ids of jobs never have the highest bit set.
    pub fn result_key(self) -> u128 {
        self.0 | 1 << 127
    }

    /// Returns the job that a payload or a result belongs to, from the key under which it is stored.
    pub fn of_payload_key(key: u128) -> JobId {
        JobId(key & !(1 << 127))
    }
}

impl CommandId {
    /// Returns the instant of the command, to the millisecond.
    pub fn at(self) -> Time {
        Time::from_micros(i64::try_from(self.0 >> 80).unwrap_or(i64::MAX / 1_000).saturating_mul(1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_parse_back_and_sort_by_time() {
        let early = HoldId(uuid_v7(Time::from_micros(1_700_000_000_000_000), u128::MAX));
        let late = HoldId(uuid_v7(Time::from_micros(1_700_000_000_001_000), 0));
        assert!(early < late);
        assert!(early.to_string() < late.to_string());
        assert_eq!(early.to_string().parse(), Ok(early));
        assert_eq!(early.to_string().len(), "hold_".len() + 26);
        for id in [0, 1, 31, 32, u128::MAX / 3, u128::MAX] {
            assert_eq!(HoldId(id).to_string(), format!("hold_{}", base32(&id.to_be_bytes())));
        }
    }

    #[test]
    fn ids_with_another_prefix_or_form_are_refused() {
        let id = JobId(7).to_string();
        let zeros = "0".repeat(26);
        for text in ["", "hold_", &id, &format!("hold_{zeros}0"), &format!("hold_z{}", "0".repeat(25)), "hold_U"] {
            assert!(text.parse::<HoldId>().is_err(), "{text}");
        }
        assert_eq!(format!("hold_{zeros}").parse(), Ok(HoldId(0)));
    }
}
