//! Objects with the fields of another among their own.
//!
//! `serde` reads such fields into a form of its own first, in which a payload is no longer the text it was. So they are picked out of
//! the text here.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// An object, split into its own fields and those of another; `None` if it lacks the field that the other always has.
pub(crate) fn split<'de, Own, Other, D>(de: D, own: &[&str], always: &str) -> Result<(Own, Option<Other>), D::Error>
where
    Own: DeserializeOwned,
    Other: DeserializeOwned,
    D: Deserializer<'de>,
{
    let mut fields = BTreeMap::<String, Box<RawValue>>::deserialize(de)?;
    let mine: BTreeMap<&str, Box<RawValue>> =
        own.iter().filter_map(|name| Some((*name, fields.remove(*name)?))).collect();
    let other = match fields.contains_key(always) {
        true => Some(again(&fields).map_err(D::Error::custom)?),
        false => None,
    };
    Ok((again(&mine).map_err(D::Error::custom)?, other))
}

fn again<T: DeserializeOwned>(fields: &impl Serialize) -> serde_json::Result<T> {
    serde_json::from_str(&serde_json::to_string(fields)?)
}
