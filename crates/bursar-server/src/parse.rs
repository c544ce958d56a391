//! Strict parsing of JSON bodies and query strings. Unknown and repeated fields are errors that name the field.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use axum::extract::Query;
use axum::http::Uri;
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use bursar::given;

use crate::wire::duration_field;
use crate::wire::problem::{Kind, Problem};

/// Maximum nesting depth of JSON.
pub(crate) const DEPTH_MAX: usize = 64;

/// Parses a JSON body, without its fields in `ignored`. An empty body counts as `{}`.
pub(crate) fn json<T: DeserializeOwned>(bytes: &[u8], ignored: &'static [&'static str]) -> Result<T, Problem> {
    if bytes.is_empty() {
        return crate::wire::read("{}");
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Problem::invalid("body".into(), "the body is not UTF-8"))?;
    // serde would accept a list as the fields of a struct in order.
    if !text.trim_start().starts_with('{') {
        return Err(Problem::invalid("body".into(), "the body must be a JSON object"));
    }
    // Payloads are stored as text without being parsed, so repeated names and depth are checked here, for the whole body.
    let mut reader = serde_json::Deserializer::from_str(text);
    Checker(DEPTH_MAX).deserialize(&mut reader).and_then(|()| reader.end()).map_err(|error| {
        let detail = error.to_string();
        let field = detail.strip_prefix("duplicate field `").and_then(|rest| rest.split('`').next());
        match field {
            Some(field) => Problem::invalid(field.to_owned(), detail.clone()),
            None => Problem::invalid("body".into(), format!("the body cannot be parsed: {detail}")),
        }
    })?;
    crate::wire::read_ignoring(text, ignored)
}

/// Names the field of a problem as the caller did: `ttl` instead of `ttl_ms` if the body has a duration as text.
pub(crate) fn with_given_names(problem: Problem, body: &[u8]) -> Problem {
    let Some(field) = problem.field.as_deref().filter(|_| problem.kind == Kind::Invalid) else { return problem };
    let (parent, name) = field.rsplit_once('.').map_or(("", field), |(parent, name)| (parent, name));
    let Some(short) = duration_field(name) else { return problem };
    let body = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let pointer: String =
        parent.split(['.', '[', ']']).filter(|part| !part.is_empty()).map(|part| format!("/{part}")).collect();
    let is_given = |name: &str| body.pointer(&pointer).is_some_and(|object| object.get(name).is_some());
    if is_given(name) || !is_given(&short) {
        return problem;
    }
    let given = if parent.is_empty() { short } else { format!("{parent}.{short}") };
    Problem { detail: problem.detail.replacen(field, &given, 1), field: Some(given), ..problem }
}

/// Parses a query string.
pub(crate) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    // PostgreSQL text cannot hold U+0000.
    if let Some(part) = uri.query().unwrap_or_default().split('&').find(|part| part.contains("%00")) {
        let name = part.split('=').next().unwrap_or_default();
        return Err(Problem::invalid(name.to_owned(), format!("{name} must not contain U+0000")));
    }
    match given(|| Query::try_from_uri(uri)) {
        Ok(Query(query)) => Ok(query),
        Err(rejection) => {
            let detail = rejection.body_text();
            let detail = detail.strip_prefix("Failed to deserialize query string: ").unwrap_or(&detail);
            let detail = detail.replace("invalid digit found in string", "is not a whole number");
            // The detail begins with the name of a parameter whose value is wrong.
            let is_given = |name: &&str| {
                uri.query().unwrap_or_default().split('&').any(|part| part.split('=').next() == Some(name))
            };
            let named = detail.split(": ").next().filter(is_given);
            let field = crate::wire::field_in(&detail).or(named).unwrap_or("query").to_owned();
            Err(Problem::invalid(field, detail))
        }
    }
}

/// Checks that JSON has no repeated names and is nested at most this deep. It keeps no values.
struct Checker(usize);

impl<'de> DeserializeSeed<'de> for Checker {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, de: D) -> Result<(), D::Error> {
        de.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Checker {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let depth = self.child_depth()?;
        while list.next_element_seed(Checker(depth))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let depth = self.child_depth()?;
        let mut seen = NameSet::default();
        while let Some(name) = map.next_key_seed(FieldName)? {
            if let Err(name) = seen.add(name) {
                return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
            }
            map.next_value_seed(Checker(depth))?;
        }
        Ok(())
    }
}

/// The field names seen so far in one object: the first few in a list, the rest in a set.
#[derive(Default)]
struct NameSet<'de> {
    few: Vec<Cow<'de, str>>,
    many: HashSet<Cow<'de, str>>,
}

/// Up to this many names, a linear scan is faster than hashing.
const FEW: usize = 8;

impl<'de> NameSet<'de> {
    /// Adds a name; returns it as an error if it was already there.
    fn add(&mut self, name: Cow<'de, str>) -> Result<(), Cow<'de, str>> {
        if self.few.contains(&name) || (!self.many.is_empty() && self.many.contains(&name)) {
            return Err(name);
        }
        if self.few.len() < FEW {
            self.few.push(name);
        } else {
            self.many.insert(name);
        }
        Ok(())
    }
}

/// Reads a field name, borrowed from the input where it has no escapes.
struct FieldName;

impl<'de> DeserializeSeed<'de> for FieldName {
    type Value = Cow<'de, str>;

    fn deserialize<D: serde::Deserializer<'de>>(self, de: D) -> Result<Cow<'de, str>, D::Error> {
        de.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for FieldName {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

impl Checker {
    /// Returns the depth left for the values inside this one.
    fn child_depth<E: serde::de::Error>(&self) -> Result<usize, E> {
        self.0.checked_sub(1).ok_or_else(|| E::custom(format_args!("it is nested more than {DEPTH_MAX} levels deep")))
    }
}

#[cfg(test)]
mod tests {
    use bursar::Payload;
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    struct Body {
        #[serde(default)]
        amount: i64,
        #[serde(default)]
        payload: Payload,
    }

    #[test]
    fn an_error_names_the_wrong_field() {
        let deep = format!("{{\"payload\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        for (text, field) in [
            (r#"{"amount":1,"amount":2}"#, "amount"),
            (r#"{"payload":{"a":{"twice":1,"twice":2}}}"#, "twice"),
            (r#"{"payload":{"twice":1,"tw\u0069ce":2}}"#, "twice"),
            (r#"{"amont":1}"#, "amont"),
            (r#"{"amount":"1"}"#, "amount"),
            (r#"{"amount":1.5}"#, "amount"),
            (r#"{"amount":1} x"#, "body"),
            (deep.as_str(), "body"),
            ("\u{feff}{}", "body"),
            (r#"{"payload":{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"twice":1,"twice":2}}"#, "twice"),
            (r#"{"payload":{"twice":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"twice":2}}"#, "twice"),
        ] {
            let problem = json::<Body>(text.as_bytes(), &[]).unwrap_err();
            assert_eq!(problem.field.as_deref(), Some(field), "{:.60}: {}", text, problem.detail);
        }
        assert!(json::<Body>(b"\xff", &[]).unwrap_err().detail.contains("UTF-8"));
    }

    #[test]
    fn a_field_is_named_as_the_caller_wrote_it() {
        let named = |field: &str, body: &str| {
            let problem = Problem::invalid(field.to_owned(), format!("{field} is too long"));
            let Problem { field, detail, .. } = with_given_names(problem, body.as_bytes());
            (field.unwrap(), detail)
        };
        let both = |field: &str| (field.to_owned(), format!("{field} is too long"));
        assert_eq!(named("ttl_ms", r#"{"ttl":"900d"}"#), both("ttl"));
        assert_eq!(named("ttl_ms", r#"{"ttl_ms":9}"#), both("ttl_ms"));
        assert_eq!(named("jobs[1].delay_ms", r#"{"jobs":[{"delay":"1s"},{"delay":"900y"}]}"#), both("jobs[1].delay"));
        assert_eq!(named("jobs[1].delay_ms", r#"{"jobs":[{"delay":"1s"},{}]}"#), both("jobs[1].delay_ms"));
        assert_eq!(named("amount", "{}"), both("amount"));
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        #[derive(Deserialize, Debug)]
        #[serde(deny_unknown_fields)]
        struct Page {
            #[expect(dead_code, reason = "only parsed")]
            limit: Option<usize>,
        }
        for (text, field) in [("/a?limit=many", "limit"), ("/a?limt=1", "limt"), ("/a?limit=1&limit=2", "limit")] {
            let problem = query::<Page>(&text.parse().unwrap()).unwrap_err();
            assert_eq!(problem.field.as_deref(), Some(field), "{text}: {}", problem.detail);
        }
    }

    #[test]
    fn a_correct_body_is_parsed() {
        let body: Body = json(br#"{"amount":-3,"payload":{"a":[{"b":null}],"c":{"a":1}}}"#, &[]).unwrap();
        assert_eq!((body.amount, body.payload.as_str()), (-3, r#"{"a":[{"b":null}],"c":{"a":1}}"#));
        assert_eq!(json::<Body>(b"", &[]).unwrap().amount, 0);
        let edge = format!("{{\"payload\":{}1{}}}", "[".repeat(DEPTH_MAX - 1), "]".repeat(DEPTH_MAX - 1));
        assert!(json::<Body>(edge.as_bytes(), &[]).is_ok());
    }
}
