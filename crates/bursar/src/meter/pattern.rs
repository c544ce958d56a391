//! Paths of operations: `/v1/claims/{id}`, `/docs/{*rest}`.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// Which paths are meant. `{name}` stands for one part of a path, `{*name}` at the end for all that follows.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PathPattern {
    text: String,
    parts: Vec<Part>,
    /// It ends with what stands for all that follows.
    open: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Word(String),
    Any,
}

/// Why a pattern makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the path {text:?} {problem}")]
pub struct BadPath {
    text: String,
    problem: &'static str,
}

impl PathPattern {
    /// Whether a path is meant. It is taken as it is in the request: nothing is decoded and no slash is forgiven, as with the routes
    /// of axum.
    pub fn matches(&self, path: &str) -> bool {
        let Some(mut rest) = path.strip_prefix('/') else { return false };
        let mut parts = self.parts.iter().peekable();
        while let Some(part) = parts.next() {
            let last = parts.peek().is_none() && !self.open;
            let (head, tail) = match rest.split_once('/') {
                Some((head, tail)) if !last => (head, tail),
                None if last => (rest, ""),
                _ => return false,
            };
            let fits = match part {
                Part::Word(word) => word == head,
                Part::Any => !head.is_empty(),
            };
            if !fits {
                return false;
            }
            rest = tail;
        }
        !self.open || !rest.is_empty()
    }
}

impl FromStr for PathPattern {
    type Err = BadPath;

    fn from_str(text: &str) -> Result<PathPattern, BadPath> {
        let bad = |problem| BadPath { text: text.chars().take(200).collect(), problem };
        let rest = text.strip_prefix('/').ok_or_else(|| bad("must begin with a slash"))?;
        let words: Vec<&str> = rest.split('/').collect();
        let mut parts = Vec::with_capacity(words.len());
        let mut open = false;
        for (place, word) in words.iter().enumerate() {
            let name = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
            match name {
                Some(name) if name.starts_with('*') => {
                    if place + 1 < words.len() || name.len() == 1 {
                        return Err(bad("may have {*name} at its end only"));
                    }
                    open = true;
                }
                Some("") => return Err(bad("has a {} without a name")),
                Some(name) if !name.contains(['{', '}']) => parts.push(Part::Any),
                _ if word.contains(['{', '}']) => return Err(bad("may have {name} as a whole part only")),
                _ => parts.push(Part::Word((*word).to_owned())),
            }
        }
        Ok(PathPattern { text: text.to_owned(), parts, open })
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
    fn patterns_mean_what_routes_of_the_same_words_mean() {
        for (pattern, means, others) in [
            ("/", &["/"][..], &["", "/a", "//"][..]),
            ("/a", &["/a"], &["/", "/a/", "/A", "/a/b", "/b", "//a"]),
            ("/a/", &["/a/"], &["/a", "/a//"]),
            ("/a/{id}", &["/a/1", "/a/%2F"], &["/a", "/a/", "/a/1/", "/a/1/b"]),
            ("/a/{id}/b", &["/a/1/b"], &["/a/1", "/a//b", "/a/1/c"]),
            ("/{*rest}", &["/a", "/a/b", "/a/"], &["/", ""]),
            ("/a/{*rest}", &["/a/b", "/a/b/c", "/a//"], &["/a", "/a/", "/b/c"]),
        ] {
            let pattern: PathPattern = pattern.parse().unwrap();
            for path in means {
                assert!(pattern.matches(path), "{pattern} {path}");
            }
            for path in others {
                assert!(!pattern.matches(path), "{pattern} {path}");
            }
        }
    }

    #[test]
    fn patterns_that_make_no_sense_are_refused() {
        for (text, problem) in [
            ("", "must begin with a slash"),
            ("a", "must begin with a slash"),
            ("/{}", "has a {} without a name"),
            ("/{*}", "may have {*name} at its end only"),
            ("/{*a}/b", "may have {*name} at its end only"),
            ("/a{b}", "may have {name} as a whole part only"),
            ("/{a", "may have {name} as a whole part only"),
        ] {
            let told = text.parse::<PathPattern>().unwrap_err().to_string();
            assert_eq!(told, format!("the path {text:?} {problem}"));
        }
    }
}
