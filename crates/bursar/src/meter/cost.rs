//! The cost of requests.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderName, Method};
use serde::Deserialize;
use serde::de::Error as _;

use crate::meter::pattern::{BadPath, PathPattern};

/// The costs of operations. The first operation that matches a request applies.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CostModel {
    /// The units that a request costs if no operation matches it.
    pub base: u32,
    /// The units that each started KiB of the payload of such a request costs.
    pub per_kib: u32,
    /// The operations, in the order in which they are tried.
    pub operations: Vec<Operation>,
}

impl Default for CostModel {
    /// Every request costs 1.
    fn default() -> CostModel {
        CostModel { base: 1, per_kib: 0, operations: Vec::new() }
    }
}

/// An operation: the requests that match it, and their cost.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// Its name, unique in the model.
    pub name: String,
    /// The method that matches; `None` for any.
    #[serde(default, deserialize_with = "method")]
    pub method: Option<Method>,
    /// The paths that match.
    pub path: PathPattern,
    /// The units that each request costs.
    pub base: u32,
    /// The additional units for each started KiB of the payload.
    #[serde(default)]
    pub per_kib: u32,
    /// Further parts of the request that cost units.
    #[serde(default)]
    pub extras: Vec<Extra>,
    /// Whether the handler reports the actual cost: see [`ActualCost`](crate::meter::ActualCost).
    #[serde(default)]
    pub two_phase: bool,
}

/// A part of a request that costs units for each occurrence.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "ExtraText")]
pub struct Extra {
    /// Its name.
    pub name: String,
    /// The units that each occurrence costs.
    pub each: u32,
    /// How to count the occurrences.
    pub count: Count,
}

/// A way to count something in a request.
#[derive(Clone)]
pub enum Count {
    /// Counts the values of a query parameter, separated by commas or in repeated parameters. Empty values do not count.
    Query(String),
    /// Counts the values of a header, separated by commas or in repeated headers. Empty values do not count.
    Header(HeaderName),
    /// Uses the number that a function of the request's head returns.
    By(Arc<dyn Fn(&Parts) -> u64 + Send + Sync>),
}

impl CostModel {
    /// Creates a model without operations: every request costs `base`.
    pub fn flat(base: u32) -> CostModel {
        CostModel { base, ..CostModel::default() }
    }

    /// Adds an operation, which is tried after the earlier ones.
    pub fn operation(mut self, operation: Operation) -> CostModel {
        self.operations.push(operation);
        self
    }

    /// Returns the price of a request.
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

/// The price of one request, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// The cost without the payload.
    pub fixed: i64,
    /// The additional cost of each started KiB of the payload.
    pub per_kib: i64,
    /// Whether the handler reports the actual cost.
    pub two_phase: bool,
}

impl Price {
    /// Returns the cost with a payload of `bytes`. Saturates at `i64::MAX`.
    pub fn with_payload(&self, bytes: u64) -> i64 {
        self.fixed.saturating_add(times(self.per_kib, bytes.div_ceil(1_024)))
    }
}

fn times(each: i64, count: u64) -> i64 {
    each.saturating_mul(i64::try_from(count).unwrap_or(i64::MAX))
}

impl Operation {
    /// Creates an operation for a method and a path pattern such as `/v1/claims/{id}`, with a cost of `base` units.
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

    /// Adds a cost for each started KiB of the payload.
    pub fn per_kib(self, units: u32) -> Operation {
        Operation { per_kib: units, ..self }
    }

    /// Adds a cost of `each` units for each of the things counted in the request.
    pub fn extra(mut self, name: impl Into<String>, each: u32, count: Count) -> Operation {
        self.extras.push(Extra { name: name.into(), each, count });
        self
    }

    /// Makes the operation two-phase: its cost is held, and the handler reports the actual cost.
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
                // A percent-encoded comma separates values too.
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

/// An extra in a TOML file.
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
                let invalid = |_| format!("header {header:?} of the extra {name:?} is not a valid header name");
                Count::Header(header.parse().map_err(invalid)?)
            }
            _ => return Err(format!("the extra {name:?} must have either query or header")),
        };
        Ok(Extra { name, each, count })
    }
}

fn method<'de, D: serde::Deserializer<'de>>(de: D) -> Result<Option<Method>, D::Error> {
    let text = String::deserialize(de)?;
    // HTTP methods are case-sensitive; one in lower case would never match.
    match Method::from_bytes(text.as_bytes()) {
        Ok(method) if !text.bytes().any(|byte| byte.is_ascii_lowercase()) => Ok(Some(method)),
        _ => Err(D::Error::custom(format!("method {text:?} is not an HTTP method such as GET or POST"))),
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
    fn operations_are_matched_by_method_and_path() {
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
    fn extras_are_counted_by_headers_and_functions() {
        let header = Count::Header(HeaderName::from_static("x-lens"));
        let (head, ()) =
            Request::builder().header("x-lens", "a, b").header("x-lens", "c").body(()).unwrap().into_parts();
        assert_eq!(header.of(&head), 3);
        assert_eq!(Count::By(Arc::new(|_| 7)).of(&head), 7);
    }

    #[test]
    fn costs_saturate() {
        let price = Price { fixed: 1, per_kib: u32::MAX.into(), two_phase: false };
        assert_eq!(price.with_payload(u64::MAX), i64::MAX);
        let endless = Operation::new("endless", Method::GET, "/", 1).unwrap();
        let model = CostModel::default().operation(endless.extra("all", u32::MAX, Count::By(Arc::new(|_| u64::MAX))));
        let (head, ()) = Request::builder().uri("/").body(()).unwrap().into_parts();
        assert_eq!(model.price(&head).fixed, i64::MAX);
    }
}
