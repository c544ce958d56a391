//! Path patterns of operations: `/v1/claims/{id}`, `/docs/{*rest}`.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// A pattern of paths. `{name}` matches one segment, `{*name}` at the end matches the rest of the path.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PathPattern {
    text: String,
    segments: Vec<Segment>,
    /// Whether it ends with `{*name}`.
    matches_rest: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Any,
}

/// The error of an invalid path pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the path {text:?} {problem}")]
pub struct BadPath {
    text: String,
    problem: &'static str,
}

impl PathPattern {
    /// Returns whether a path matches. As with the routes of axum, the path is compared as sent: percent-encoding is not
    /// decoded, and trailing or double slashes are significant.
    pub fn matches(&self, path: &str) -> bool {
        let Some(mut rest) = path.strip_prefix('/') else { return false };
        let mut segments = self.segments.iter().peekable();
        while let Some(segment) = segments.next() {
            let last = segments.peek().is_none() && !self.matches_rest;
            let (head, tail) = match rest.split_once('/') {
                Some((head, tail)) if !last => (head, tail),
                None if last => (rest, ""),
                _ => return false,
            };
            let matches = match segment {
                Segment::Literal(literal) => literal == head,
                Segment::Any => !head.is_empty(),
            };
            if !matches {
                return false;
            }
            rest = tail;
        }
        !self.matches_rest || !rest.is_empty()
    }
}

impl FromStr for PathPattern {
    type Err = BadPath;

    fn from_str(text: &str) -> Result<PathPattern, BadPath> {
        let bad = |problem| BadPath { text: text.chars().take(200).collect(), problem };
        let rest = text.strip_prefix('/').ok_or_else(|| bad("must begin with a slash"))?;
        let words: Vec<&str> = rest.split('/').collect();
        let mut segments = Vec::with_capacity(words.len());
        let mut matches_rest = false;
        for (index, word) in words.iter().enumerate() {
            let name = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
            match name {
                Some(name) if name.starts_with('*') => {
                    if index + 1 < words.len() || name.len() == 1 {
                        return Err(bad("may have {*name} at its end only"));
                    }
                    matches_rest = true;
                }
                Some("") => return Err(bad("has a {} without a name")),
                Some(name) if !name.contains(['{', '}']) => segments.push(Segment::Any),
                _ if word.contains(['{', '}']) => return Err(bad("may have {name} as a whole segment only")),
                _ => segments.push(Segment::Literal((*word).to_owned())),
            }
        }
        Ok(PathPattern { text: text.to_owned(), segments, matches_rest })
    }
}

impl TryFrom<String> for PathPattern {
    type Error = BadPath;
    fn try_from(text: String) -> Result<PathPattern, BadPath> {
        text.parse()
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_like_routes_with_the_same_text() {
        for (pattern, matching, others) in [
            ("/", &["/"][..], &["", "/a", "//"][..]),
            ("/a", &["/a"], &["/", "/a/", "/A", "/a/b", "/b", "//a"]),
            ("/a/", &["/a/"], &["/a", "/a//"]),
            ("/a/{id}", &["/a/1", "/a/%2F"], &["/a", "/a/", "/a/1/", "/a/1/b"]),
            ("/a/{id}/b", &["/a/1/b"], &["/a/1", "/a//b", "/a/1/c"]),
            ("/{*rest}", &["/a", "/a/b", "/a/"], &["/", ""]),
            ("/a/{*rest}", &["/a/b", "/a/b/c", "/a//"], &["/a", "/a/", "/b/c"]),
        ] {
            let pattern: PathPattern = pattern.parse().unwrap();
            for path in matching {
                assert!(pattern.matches(path), "{pattern} {path}");
            }
            for path in others {
                assert!(!pattern.matches(path), "{pattern} {path}");
            }
        }
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for (text, problem) in [
            ("", "must begin with a slash"),
            ("a", "must begin with a slash"),
            ("/{}", "has a {} without a name"),
            ("/{*}", "may have {*name} at its end only"),
            ("/{*a}/b", "may have {*name} at its end only"),
            ("/a{b}", "may have {name} as a whole segment only"),
            ("/{a", "may have {name} as a whole segment only"),
        ] {
            let error = text.parse::<PathPattern>().unwrap_err().to_string();
            assert_eq!(error, format!("the path {text:?} {problem}"));
        }
    }
}
