//! Objects that contain the fields of another object.
//!
//! `#[serde(flatten)]` buffers such fields in a representation that loses the original text of a payload. This module splits the object
//! on raw JSON text instead.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Splits an object into its own fields and those of the flattened object. The latter is `None` if the field `required` is missing.
pub(crate) fn split<'de, Own, Other, D>(de: D, own: &[&str], required: &str) -> Result<(Own, Option<Other>), D::Error>
where
    Own: DeserializeOwned,
    Other: DeserializeOwned,
    D: Deserializer<'de>,
{
    let mut fields = BTreeMap::<String, Box<RawValue>>::deserialize(de)?;
    let mine: BTreeMap<&str, Box<RawValue>> =
        own.iter().filter_map(|name| Some((*name, fields.remove(*name)?))).collect();
    let other = match fields.contains_key(required) {
        true => Some(parse(&fields).map_err(D::Error::custom)?),
        false => None,
    };
    Ok((parse(&mine).map_err(D::Error::custom)?, other))
}

fn parse<T: DeserializeOwned>(fields: &impl Serialize) -> serde_json::Result<T> {
    serde_json::from_str(&serde_json::to_string(fields)?)
}
