//! The fields of an object, with durations in the place of milliseconds.
//!
//! A field whose name has the part `_ms` takes a number of milliseconds. Without that part, the same field takes a duration as text:
//! `"ttl": "10m"` is `"ttl_ms": 600000`, `"ttl_max": "1h"` is `"ttl_ms_max": 3600000`, `"delays": ["1s", "1m"]` is
//! `"delays_ms": [1000, 60000]`. Giving both is an error. The rule holds for every request body, so no body states it.

use std::borrow::Cow;
use std::fmt;

use bursar_core::time::Span;
use serde::Deserializer;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor};
use serde_json::Value;

use super::Strict;

/// A visitor for an object whose fields are known.
pub(super) struct Object<V> {
    pub(super) visitor: V,
    pub(super) fields: &'static [&'static str],
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Object<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let access = Fields { map, fields: self.fields, name: Cow::Borrowed(""), is_duration: false, seen: Vec::new() };
        self.visitor.visit_map(access)
    }
}

/// The fields of an object while they are read.
struct Fields<'de, A> {
    map: A,
    fields: &'static [&'static str],
    /// The name of the current field, as it was given.
    name: Cow<'de, str>,
    /// Whether the current field is a duration in the place of milliseconds.
    is_duration: bool,
    /// The fields in milliseconds that were given, in either form.
    seen: Vec<&'static str>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<'de, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let Some(name) = self.map.next_key_seed(FieldName)? else { return Ok(None) };
        let own = self.fields.iter().find(|field| **field == name);
        let in_millis = match own {
            Some(own) => around_ms(own).map(|_| *own),
            None => self.fields.iter().find(|field| is_duration_field(field, &name)).copied(),
        };
        self.is_duration = own.is_none() && in_millis.is_some();
        self.name = name;
        if let Some(field) = in_millis {
            if self.seen.contains(&field) {
                let short = duration_field(field).unwrap_or_default();
                return Err(A::Error::custom(format_args!(
                    "duplicate field `{short}`: `{field}` says the same in milliseconds, so only one of them may be given"
                )));
            }
            self.seen.push(field);
            return seed.deserialize(BorrowedStrDeserializer::new(field)).map(Some);
        }
        match &self.name {
            Cow::Borrowed(name) => seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some),
            Cow::Owned(name) => seed.deserialize(name.as_str().into_deserializer()).map(Some),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        if self.is_duration {
            let given: Value = self.map.next_value()?;
            let millis = in_millis(&given).map_err(|problem| self.bad(&problem))?;
            return seed.deserialize(millis).map_err(|problem| self.bad(&problem.to_string()));
        }
        self.map.next_value_seed(Strict(seed)).map_err(|problem| {
            let problem = problem.to_string();
            // The error of an inner object names the inner field.
            if problem.contains("field `") { A::Error::custom(problem) } else { self.bad(&problem) }
        })
    }

    fn size_hint(&self) -> Option<usize> {
        self.map.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> Fields<'de, A> {
    fn bad(&self, problem: &str) -> A::Error {
        A::Error::custom(format_args!("wrong value in field `{}`: {problem}", self.name))
    }
}

/// Returns the field that takes a duration in the place of `field` in milliseconds, such as `ttl` for `ttl_ms`; `None` if the field is
/// not in milliseconds.
pub fn duration_field(field: &str) -> Option<String> {
    around_ms(field).map(|(before, after)| format!("{before}{after}"))
}

fn is_duration_field(field: &str, name: &str) -> bool {
    around_ms(field).is_some_and(|(before, after)| name.strip_prefix(before) == Some(after))
}

fn around_ms(field: &str) -> Option<(&str, &str)> {
    field.split_once("_ms").filter(|(_, after)| after.is_empty() || after.starts_with('_'))
}

/// Converts durations to milliseconds: one, a list of them, or `null`.
fn in_millis(given: &Value) -> Result<Value, String> {
    match given {
        Value::Null => Ok(Value::Null),
        Value::String(text) => match text.parse::<Span>() {
            Ok(span) => Ok(span.millis().into()),
            Err(error) => Err(error.problem),
        },
        Value::Array(list) => list.iter().map(in_millis).collect(),
        Value::Number(number) => Err(format!(
            "{number} has no unit: write a text such as \"{number}s\", or give milliseconds in the field with `_ms`"
        )),
        _ => Err("expected a duration as text, such as \"10m\"".to_owned()),
    }
}

/// Reads the name of a field, without copying it if it has no escapes.
struct FieldName;

impl<'de> DeserializeSeed<'de> for FieldName {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, de: D) -> Result<Cow<'de, str>, D::Error> {
        de.deserialize_identifier(self)
    }
}

impl<'de> Visitor<'de> for FieldName {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default, deny_unknown_fields)]
    struct Times {
        ttl_ms: Option<i64>,
        ttl_ms_max: i64,
        delays_ms: Option<Vec<i64>>,
        inner: Vec<Times>,
    }

    #[test]
    fn a_duration_may_stand_for_milliseconds() {
        let text = r#"{"ttl":"10m","ttl_max":"1h30m","delays":["1s","500ms"],"inner":[{"ttl":null,"ttl_ms_max":5}]}"#;
        let inner = vec![Times { ttl_ms_max: 5, ..Times::default() }];
        let expected = Times { ttl_ms: Some(600_000), ttl_ms_max: 5_400_000, delays_ms: Some(vec![1_000, 500]), inner };
        assert_eq!(crate::read::<Times>(text).unwrap(), expected);
    }

    #[test]
    fn a_wrong_duration_names_its_field() {
        for (text, field, words) in [
            (r#"{"ttl":"10"}"#, "ttl", "has no unit: write 10s for seconds"),
            (r#"{"ttl":600}"#, "ttl", "600 has no unit: write a text such as \"600s\""),
            (r#"{"ttl":{}}"#, "ttl", "expected a duration"),
            (r#"{"ttl_max":null}"#, "ttl_max", "expected a whole number"),
            (r#"{"ttl_max":["1s"]}"#, "ttl_max", "expected a whole number"),
            (r#"{"ttl":"1s","ttl_ms":1000}"#, "ttl", "only one of them may be given"),
            (r#"{"ttl_ms":1000,"ttl":"1s"}"#, "ttl", "only one of them may be given"),
            (r#"{"inner":[{"ttl":"soon"}]}"#, "ttl", "is not a duration"),
            (r#"{"inner":[{"ttl_ms":"10m"}]}"#, "ttl_ms", "expected a whole number"),
            (r#"{"minutes":1}"#, "minutes", "unknown field"),
        ] {
            let refused = crate::read::<Times>(text).unwrap_err();
            assert_eq!(refused.field.as_deref(), Some(field), "{text}: {}", refused.detail);
            assert!(refused.detail.contains(words), "{text}: {}", refused.detail);
        }
    }
}
