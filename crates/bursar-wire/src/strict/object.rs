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
use serde::de::{DeserializeSeed, Error, IgnoredAny, IntoDeserializer, MapAccess, Visitor};
use serde_json::Value;

use super::{Strict, nested};
use crate::similar;

/// A visitor for an object whose fields are known.
pub(super) struct Object<V> {
    pub(super) visitor: V,
    pub(super) fields: &'static [&'static str],
    /// Further fields, whose values are skipped.
    pub(super) ignored: &'static [&'static str],
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Object<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let Object { visitor, fields, ignored } = self;
        let access = Fields { map, fields, ignored, name: Cow::Borrowed(""), is_duration: false, seen: Vec::new() };
        visitor.visit_map(access).map_err(|error| {
            let error = error.to_string();
            // Only a missing field of this very object has no path before its name.
            let missing = error.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
            match missing.and_then(|field| Some((field, duration_field(field)?))) {
                Some((field, short)) => A::Error::custom(format_args!(
                    "missing field `{field}`, in milliseconds, or `{short}`, as text such as \"10m\""
                )),
                None => A::Error::custom(error),
            }
        })
    }
}

/// The fields of an object while they are read.
struct Fields<'de, A> {
    map: A,
    fields: &'static [&'static str],
    ignored: &'static [&'static str],
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
        let Some(name) = self.next_name()? else { return Ok(None) };
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
        let read: Result<S::Value, A::Error> = match &self.name {
            Cow::Borrowed(name) => seed.deserialize(BorrowedStrDeserializer::new(name)),
            Cow::Owned(name) => seed.deserialize(name.as_str().into_deserializer()),
        };
        match read {
            Ok(field) => Ok(Some(field)),
            Err(_) if own.is_none() => Err(self.unknown()),
            Err(error) => Err(error),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        if self.is_duration {
            let given: Value = self.map.next_value()?;
            let millis = in_millis(&given).map_err(|problem| self.bad(&problem))?;
            return seed.deserialize(millis).map_err(|problem| self.bad(&problem.to_string()));
        }
        self.map.next_value_seed(Strict(seed)).map_err(|problem| {
            let mut problem = problem.to_string();
            if AMOUNTS.contains(&self.name.as_ref()) && problem.contains("expected i64") {
                problem = format!("{AMOUNT_RULE} ({problem})");
            }
            nested(&self.name, &problem)
        })
    }

    fn size_hint(&self) -> Option<usize> {
        self.map.size_hint()
    }
}

/// The fields that have amounts.
const AMOUNTS: [&str; 3] = ["amount", "actual", "refill"];
const AMOUNT_RULE: &str = "amounts are whole numbers of the smallest part of the unit, without quotes: for a unit with 6 decimals, such as \
    usd, $0.50 is 500000";

impl<'de, A: MapAccess<'de>> Fields<'de, A> {
    /// Reads the next name that is not ignored.
    fn next_name(&mut self) -> Result<Option<Cow<'de, str>>, A::Error> {
        while let Some(name) = self.map.next_key_seed(FieldName)? {
            if !self.ignored.contains(&name.as_ref()) {
                return Ok(Some(name));
            }
            self.map.next_value::<IgnoredAny>()?;
        }
        Ok(None)
    }

    /// Returns the error about a field that the object does not have, with those it has, durations as text among them.
    fn unknown(&self) -> A::Error {
        let durations: Vec<String> = self.fields.iter().filter_map(|field| duration_field(field)).collect();
        let known = self.fields.iter().copied().chain(durations.iter().map(String::as_str));
        let similar = similar::question(similar::to(&self.name, known).map(|name| format!("`{name}`")).as_deref());
        let field = |field: &&str| match duration_field(field) {
            Some(short) => format!("`{field}` or `{short}`"),
            None => format!("`{field}`"),
        };
        let fields: Vec<String> = self.fields.iter().map(field).collect();
        let expected = match fields.as_slice() {
            [] => "there are no fields".to_owned(),
            [only] => format!("expected {only}"),
            several => format!("expected one of {}", several.join(", ")),
        };
        let name = &self.name;
        A::Error::custom(format_args!(
            "unknown field `{name}`{similar}{} {expected}",
            if similar.is_empty() { "," } else { "" }
        ))
    }

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

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Snooze {
        #[expect(dead_code, reason = "only its absence is tested")]
        delay_ms: i64,
    }

    #[test]
    fn a_missing_duration_is_named_in_both_forms() {
        let refused = crate::read::<Snooze>("{}").unwrap_err();
        assert_eq!(refused.field.as_deref(), Some("delay_ms"));
        assert!(refused.detail.contains("or `delay`, as text"), "{}", refused.detail);
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
            (r#"{"inner":[{"ttl":"soon"}]}"#, "inner[0].ttl", "is not a duration"),
            (r#"{"inner":[{"ttl_ms":"10m"}]}"#, "inner[0].ttl_ms", "expected a whole number"),
            (
                r#"{"minutes":1}"#,
                "minutes",
                "unknown field `minutes`, expected one of `ttl_ms` or `ttl`, `ttl_ms_max` or",
            ),
            (r#"{"dealys":[]}"#, "dealys", "did you mean `delays`?"),
        ] {
            let refused = crate::read::<Times>(text).unwrap_err();
            assert_eq!(refused.field.as_deref(), Some(field), "{text}: {}", refused.detail);
            assert!(refused.detail.contains(words), "{text}: {}", refused.detail);
        }
    }
}
