//! Paths and queries of URLs.

use std::fmt::Display;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// A builder for a path with a query.
#[derive(Clone, Debug)]
pub(crate) struct Path(String);

impl Path {
    /// Starts with a literal path.
    pub(crate) fn new(path: &str) -> Path {
        Path(path.to_owned())
    }

    /// Appends a segment, which is escaped.
    pub(crate) fn part(mut self, part: impl Display) -> Path {
        self.0.push('/');
        escape(&mut self.0, &part.to_string());
        self
    }

    /// Appends a literal segment.
    pub(crate) fn then(mut self, literal: &str) -> Path {
        self.0.push('/');
        self.0.push_str(literal);
        self
    }

    /// Appends a parameter of the query, unless the value is `None`.
    pub(crate) fn query(mut self, name: &str, value: Option<impl Display>) -> Path {
        if let Some(value) = value {
            self.0.push(if self.0.contains('?') { '&' } else { '?' });
            self.0.push_str(name);
            self.0.push('=');
            escape(&mut self.0, &value.to_string());
        }
        self
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// All characters that are not unreserved in RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

fn escape(to: &mut String, text: &str) {
    to.extend(utf8_percent_encode(text, RESERVED));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_queries_are_escaped() {
        let path = Path::new("/v1/budgets").part("show:42/row A?").then("history");
        let path = path.query("limit", Some(5)).query("cursor", None::<u8>).query("prefix", Some("ä&b"));
        assert_eq!(path.as_str(), "/v1/budgets/show%3A42%2Frow%20A%3F/history?limit=5&prefix=%C3%A4%26b");
    }
}
