//! What requests cost.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderName, Method};
use serde::Deserialize;
use serde::de::Error as _;

use crate::meter::pattern::{BadPath, PathPattern};

/// What each operation costs. The first that a request matches counts.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CostModel {
    /// What a request costs that is none of the operations.
    pub base: u32,
    /// What each started KiB of its payload costs.
    pub per_kib: u32,
    /// The operations.
    pub operations: Vec<Operation>,
}

impl Default for CostModel {
    /// Every request costs 1.
    fn default() -> CostModel {
        CostModel { base: 1, per_kib: 0, operations: Vec::new() }
    }
}

/// An operation: which requests are meant, and what they cost.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// What people call it.
    pub name: String,
    /// The method; any, if none is said.
    #[serde(default, deserialize_with = "method")]
    pub method: Option<Method>,
    /// The paths.
    pub path: PathPattern,
    /// What it costs at least.
    pub base: u32,
    /// What each started KiB of the payload costs.
    #[serde(default)]
    pub per_kib: u32,
    /// What else is counted in the request.
    #[serde(default)]
    pub extras: Vec<Extra>,
    /// The handler knows what it really cost: see [`ActualCost`](crate::meter::ActualCost).
    #[serde(default)]
    pub two_phase: bool,
}

/// Something in a request that costs so much each.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "ExtraText")]
pub struct Extra {
    /// What people call it.
    pub name: String,
    /// What each of them costs.
    pub each: u32,
    /// How many there are.
    pub count: Count,
}

/// How many of something a request has.
#[derive(Clone)]
pub enum Count {
    /// The values of a parameter of the query, separated by commas or given again.
    Query(String),
    /// The values of a header, separated by commas or given again.
    Header(HeaderName),
    /// What a function finds in the head of the request.
    By(Arc<dyn Fn(&Parts) -> u64 + Send + Sync>),
}

impl CostModel {
    /// A model without operations: every request costs `base`.
    pub fn flat(base: u32) -> CostModel {
        CostModel { base, ..CostModel::default() }
    }

    /// The same model with one more operation.
    pub fn operation(mut self, operation: Operation) -> CostModel {
        self.operations.push(operation);
        self
    }

    /// What a request costs, its payload apart.
    pub fn price(&self, head: &Parts) -> Price {
        let path = head.uri.path();
        let matches = |operation: &&Operation| {
            operation.method.as_ref().is_none_or(|method| *method == head.method) && operation.path.matches(path)
        };
        let Some(operation) = self.operations.iter().find(matches) else {
            return Price { fixed: self.base.into(), per_kib: self.per_kib.into(), two_phase: false };
        };
        let extras = operation.extras.iter().map(|extra| times(extra.each.into(), extra.count.of(head)));
        Price {
            fixed: extras.fold(i64::from(operation.base), i64::saturating_add),
            per_kib: operation.per_kib.into(),
            two_phase: operation.two_phase,
        }
    }
}

/// What one request costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// Whatever its payload is.
    pub fixed: i64,
    /// Each started KiB of its payload.
    pub per_kib: i64,
    /// The handler knows what it really cost.
    pub two_phase: bool,
}

impl Price {
    /// With a payload of so many bytes.
    pub fn with_payload(&self, bytes: u64) -> i64 {
        self.fixed.saturating_add(times(self.per_kib, bytes.div_ceil(1_024)))
    }
}

fn times(each: i64, count: u64) -> i64 {
    each.saturating_mul(i64::try_from(count).unwrap_or(i64::MAX))
}

impl Operation {
    /// An operation of a method and a path, such as `/v1/claims/{id}`.
    pub fn new(name: impl Into<String>, method: Method, path: &str, base: u32) -> Result<Operation, BadPath> {
        Ok(Operation {
            name: name.into(),
            method: Some(method),
            path: path.parse()?,
            base,
            per_kib: 0,
            extras: Vec::new(),
            two_phase: false,
        })
    }

    /// The same, at so much for each started KiB of the payload.
    pub fn per_kib(self, units: u32) -> Operation {
        Operation { per_kib: units, ..self }
    }

    /// The same, at so much more for each of something in the request.
    pub fn extra(mut self, name: impl Into<String>, each: u32, count: Count) -> Operation {
        self.extras.push(Extra { name: name.into(), each, count });
        self
    }

    /// The same, whose handler says what it really cost.
    pub fn two_phase(self) -> Operation {
        Operation { two_phase: true, ..self }
    }
}

impl Count {
    fn of(&self, head: &Parts) -> u64 {
        let values = |text: &str| text.split(',').filter(|value| !value.trim().is_empty()).count() as u64;
        match self {
            Count::Query(name) => {
                let pairs = head.uri.query().unwrap_or_default().split('&');
                let named = pairs.filter_map(|pair| pair.split_once('=')).filter(|(key, _)| key == name);
                // A comma that is percent-encoded is one too.
                named.map(|(_, value)| values(&value.replace("%2C", ",").replace("%2c", ","))).sum()
            }
            Count::Header(name) => {
                head.headers.get_all(name).iter().map(|value| value.to_str().map_or(1, values)).sum()
            }
            Count::By(count) => count(head),
        }
    }
}

impl fmt::Debug for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Count::Query(name) => f.debug_tuple("Query").field(name).finish(),
            Count::Header(name) => f.debug_tuple("Header").field(name).finish(),
            Count::By(_) => f.write_str("By(..)"),
        }
    }
}

/// An extra in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExtraText {
    name: String,
    each: u32,
    query: Option<String>,
    header: Option<String>,
}

impl TryFrom<ExtraText> for Extra {
    type Error = String;

    fn try_from(text: ExtraText) -> Result<Extra, String> {
        let ExtraText { name, each, query, header } = text;
        let count = match (query, header) {
            (Some(query), None) => Count::Query(query),
            (None, Some(header)) => {
                let known =
                    header.parse().map_err(|_| format!("header {header:?} of the extra {name:?} is no name"))?;
                Count::Header(known)
            }
            _ => return Err(format!("the extra {name:?} must say what is counted: query or header, one of them")),
        };
        Ok(Extra { name, each, count })
    }
}

fn method<'de, D: serde::Deserializer<'de>>(de: D) -> Result<Option<Method>, D::Error> {
    let text = String::deserialize(de)?;
    // Methods of HTTP are told apart by case; one in small letters would never be matched.
    match Method::from_bytes(text.as_bytes()) {
        Ok(method) if !text.bytes().any(|byte| byte.is_ascii_lowercase()) => Ok(Some(method)),
        _ => Err(D::Error::custom(format!("method {text:?} is not one such as GET or POST"))),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn model() -> CostModel {
        let lenses = Count::Query("lens".into());
        CostModel::flat(3)
            .operation(Operation::new("assert", Method::POST, "/claims", 10).unwrap().per_kib(1))
            .operation(Operation::new("vote", Method::POST, "/claims/{id}/vote", 1).unwrap())
            .operation(Operation::new("query", Method::GET, "/claims", 5).unwrap().extra("lens", 1, lenses))
    }

    #[test]
    fn operations_are_told_apart_by_method_and_path() {
        for (method, uri, bytes, cost) in [
            ("POST", "/claims", 0, 10),
            ("POST", "/claims", 1, 11),
            ("POST", "/claims", 1_024, 11),
            ("POST", "/claims", 1_025, 12),
            ("POST", "/claims/7/vote", 5_000, 1),
            ("GET", "/claims", 0, 5),
            ("GET", "/claims?lens=a", 0, 6),
            ("GET", "/claims?lens=a,b&x=1&lens=c", 0, 8),
            ("GET", "/claims?lens=a%2Cb&lens=&lenses=d", 0, 7),
            ("PUT", "/claims", 9_000, 3),
            ("GET", "/other", 0, 3),
        ] {
            let (head, ()) = Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
            assert_eq!(model().price(&head).with_payload(bytes), cost, "{method} {uri}");
        }
    }

    #[test]
    fn headers_and_functions_count_too() {
        let header = Count::Header(HeaderName::from_static("x-lens"));
        let (head, ()) =
            Request::builder().header("x-lens", "a, b").header("x-lens", "c").body(()).unwrap().into_parts();
        assert_eq!(header.of(&head), 3);
        assert_eq!(Count::By(Arc::new(|_| 7)).of(&head), 7);
    }

    #[test]
    fn what_is_too_much_for_a_number_is_the_most_there_is() {
        let price = Price { fixed: 1, per_kib: u32::MAX.into(), two_phase: false };
        assert_eq!(price.with_payload(u64::MAX), i64::MAX);
        let endless = Operation::new("endless", Method::GET, "/", 1).unwrap();
        let model = CostModel::default().operation(endless.extra("all", u32::MAX, Count::By(Arc::new(|_| u64::MAX))));
        let (head, ()) = Request::builder().uri("/").body(()).unwrap().into_parts();
        assert_eq!(model.price(&head).fixed, i64::MAX);
    }
}
