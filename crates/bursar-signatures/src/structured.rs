//! Structured fields (RFC 8941), as far as signatures and digests need them: dictionaries of byte sequences and of inner lists of strings,
//! with parameters. Stricter than the RFC where a sender has no reason to differ: a key given twice is refused.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The most bytes of a header that is parsed.
const TEXT_BYTES_MAX: usize = 8_192;
/// The most members of a dictionary, items of an inner list, and parameters of either.
const ITEMS_MAX: usize = 32;
/// The most digits of an integer.
const DIGITS_MAX: usize = 15;

/// A bare item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Integer(i64),
    String(String),
    Token(String),
    Bytes(Vec<u8>),
    Boolean(bool),
}

pub(crate) type Parameters = Vec<(String, Item)>;

/// The value of a dictionary's member: an item or an inner list, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// The item; `None` if the value is an inner list.
    pub(crate) item: Option<Item>,
    /// The items of the inner list, each with its parameters.
    pub(crate) list: Vec<(Item, Parameters)>,
    pub(crate) parameters: Parameters,
}

/// Parses a dictionary. The error is a phrase that follows the name of the header.
pub(crate) fn parse_dictionary(text: &str) -> Result<Vec<(String, Member)>, &'static str> {
    if text.len() > TEXT_BYTES_MAX {
        return Err("is too long");
    }
    let mut parser = Parser { text: text.as_bytes(), at: 0 };
    let mut members: Vec<(String, Member)> = Vec::new();
    parser.skip(b" ");
    while !parser.is_at_end() {
        let name = parser.key()?;
        let member = if parser.take(b'=') {
            parser.member()?
        } else {
            Member { item: Some(Item::Boolean(true)), list: Vec::new(), parameters: parser.parameters()? }
        };
        if members.len() == ITEMS_MAX || members.iter().any(|(known, _)| *known == name) {
            return Err("has too many members, or one of them twice");
        }
        members.push((name, member));
        parser.skip(b" \t");
        if parser.is_at_end() {
            break;
        }
        if !parser.take(b',') {
            return Err(NOT_STRUCTURED);
        }
        parser.skip(b" \t");
        if parser.is_at_end() {
            return Err(NOT_STRUCTURED);
        }
    }
    Ok(members)
}

const NOT_STRUCTURED: &str = "is not a dictionary of structured fields (RFC 8941)";

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    fn take(&mut self, character: u8) -> bool {
        let found = self.peek() == Some(character);
        self.at += usize::from(found);
        found
    }

    fn skip(&mut self, characters: &[u8]) {
        while self.peek().is_some_and(|next| characters.contains(&next)) {
            self.at += 1;
        }
    }

    /// Takes the characters that a condition admits.
    fn take_while(&mut self, admits: impl Fn(u8) -> bool) -> String {
        let begin = self.at;
        while self.peek().is_some_and(&admits) {
            self.at += 1;
        }
        String::from_utf8_lossy(&self.text[begin..self.at]).into_owned()
    }

    fn key(&mut self) -> Result<String, &'static str> {
        if !self.peek().is_some_and(|first| first.is_ascii_lowercase() || first == b'*') {
            return Err(NOT_STRUCTURED);
        }
        Ok(self.take_while(|next| {
            next.is_ascii_lowercase() || next.is_ascii_digit() || matches!(next, b'_' | b'-' | b'.' | b'*')
        }))
    }

    fn member(&mut self) -> Result<Member, &'static str> {
        if !self.take(b'(') {
            let item = Some(self.item()?);
            return Ok(Member { item, list: Vec::new(), parameters: self.parameters()? });
        }
        let mut list = Vec::new();
        loop {
            self.skip(b" ");
            if self.take(b')') {
                return Ok(Member { item: None, list, parameters: self.parameters()? });
            }
            if list.len() == ITEMS_MAX {
                return Err("has too many items");
            }
            list.push((self.item()?, self.parameters()?));
            if !matches!(self.peek(), Some(b' ' | b')')) {
                return Err(NOT_STRUCTURED);
            }
        }
    }

    fn parameters(&mut self) -> Result<Parameters, &'static str> {
        let mut parameters: Parameters = Vec::new();
        while self.take(b';') {
            self.skip(b" ");
            let name = self.key()?;
            let value = if self.take(b'=') { self.item()? } else { Item::Boolean(true) };
            if parameters.len() == ITEMS_MAX || parameters.iter().any(|(known, _)| *known == name) {
                return Err("has too many parameters, or one of them twice");
            }
            parameters.push((name, value));
        }
        Ok(parameters)
    }

    fn item(&mut self) -> Result<Item, &'static str> {
        match self.peek().ok_or(NOT_STRUCTURED)? {
            b'"' => self.string(),
            b':' => self.bytes(),
            b'?' => {
                self.at += 1;
                match (self.take(b'1'), self.take(b'0')) {
                    (true, false) => Ok(Item::Boolean(true)),
                    (false, true) => Ok(Item::Boolean(false)),
                    _ => Err(NOT_STRUCTURED),
                }
            }
            b'-' | b'0'..=b'9' => self.integer(),
            first if first.is_ascii_alphabetic() || first == b'*' => Ok(Item::Token(
                self.take_while(|next| next.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&next)),
            )),
            _ => Err(NOT_STRUCTURED),
        }
    }

    fn integer(&mut self) -> Result<Item, &'static str> {
        let negative = self.take(b'-');
        let digits = self.take_while(|next| next.is_ascii_digit());
        // A decimal is not used by any parameter.
        if digits.len() > DIGITS_MAX || self.peek() == Some(b'.') {
            return Err("has a number that is not an integer of at most 15 digits");
        }
        let number: i64 = digits.parse().map_err(|_| NOT_STRUCTURED)?;
        Ok(Item::Integer(if negative { -number } else { number }))
    }

    fn string(&mut self) -> Result<Item, &'static str> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let next = self.peek().ok_or(NOT_STRUCTURED)?;
            self.at += 1;
            match next {
                b'"' => return Ok(Item::String(text)),
                b'\\' => match self.peek() {
                    Some(escaped @ (b'"' | b'\\')) => {
                        self.at += 1;
                        text.push(char::from(escaped));
                    }
                    _ => return Err(NOT_STRUCTURED),
                },
                b' '..=b'~' => text.push(char::from(next)),
                _ => return Err(NOT_STRUCTURED),
            }
        }
    }

    fn bytes(&mut self) -> Result<Item, &'static str> {
        self.at += 1;
        let text = self.take_while(|next| next.is_ascii_alphanumeric() || matches!(next, b'+' | b'/' | b'='));
        if !self.take(b':') {
            return Err(NOT_STRUCTURED);
        }
        STANDARD.decode(text).map(Item::Bytes).map_err(|_| "has bytes that are not base64")
    }
}

/// Renders an inner list of strings with its parameters, as RFC 9421 writes `@signature-params`.
pub(crate) fn list_text<'a>(items: impl Iterator<Item = &'a str>, parameters: &Parameters) -> String {
    let items: Vec<String> = items.map(string_text).collect();
    let mut text = format!("({})", items.join(" "));
    for (name, value) in parameters {
        text.push(';');
        text.push_str(name);
        match value {
            Item::Boolean(true) => {}
            value => {
                text.push('=');
                text.push_str(&item_text(value));
            }
        }
    }
    text
}

fn item_text(item: &Item) -> String {
    match item {
        Item::Integer(number) => number.to_string(),
        Item::String(text) => string_text(text),
        Item::Token(text) => text.clone(),
        Item::Bytes(bytes) => bytes_text(bytes),
        Item::Boolean(yes) => format!("?{}", i32::from(*yes)),
    }
}

/// Renders a string between quotes.
pub(crate) fn string_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Renders bytes in base64 between colons.
pub(crate) fn bytes_text(bytes: &[u8]) -> String {
    format!(":{}:", STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"sig1=("@method" "x-a";req);created=1;nonce="a\"b\\";alg=token;flag, sig2=:AAEC:;x=-5, b"#;

    #[test]
    fn a_dictionary_is_parsed() {
        let members = parse_dictionary(SAMPLE).unwrap();
        let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["sig1", "sig2", "b"]);
        let list = &members[0].1;
        assert_eq!(list.list[0], (Item::String("@method".into()), vec![]));
        assert_eq!(list.list[1].1, [("req".to_owned(), Item::Boolean(true))]);
        assert_eq!(list.parameters[1], ("nonce".into(), Item::String("a\"b\\".into())));
        let text = list_text(["@method"].into_iter(), &list.parameters);
        assert_eq!(text, r#"("@method");created=1;nonce="a\"b\\";alg=token;flag"#);
        assert_eq!(members[1].1.item, Some(Item::Bytes(vec![0, 1, 2])));
        assert_eq!(members[1].1.parameters, [("x".into(), Item::Integer(-5))]);
        assert_eq!(members[2].1.item, Some(Item::Boolean(true)));
        assert_eq!(parse_dictionary(""), Ok(vec![]));
    }

    #[test]
    fn what_is_not_structured_is_refused() {
        for text in [
            "A=1",
            "a=",
            "a=1,",
            "a=1 b=2",
            "a=(\"x\"",
            "a=(\"x\"\"y\")",
            "a=\"x",
            "a=\"\\x\"",
            "a=\"é\"",
            "a=:AA",
            "a=:A:",
            "a=:AA-_:",
            "a=1.5",
            "a=1234567890123456",
            "a=--1",
            "a=?2",
            "a=1;",
            "a=1;B",
            "a=1, a=2",
            "a=1;b;b",
            ",a=1",
            "a=(",
            &format!("a=\"{}\"", "x".repeat(9_000)),
            &format!("a=({})", "\"x\" ".repeat(40)),
        ] {
            assert!(parse_dictionary(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn fuzz_any_text_is_parsed_or_refused() {
        bursar_fuzz::texts(&[SAMPLE, "sha-256=:AAEC:", "a=();b=?0;c=*t"], |text| {
            let Ok(members) = parse_dictionary(text) else { return };
            assert!(members.len() <= ITEMS_MAX);
            // What was parsed is written and parsed back.
            for (_, member) in members {
                let strings = member
                    .list
                    .iter()
                    .all(|(item, parameters)| matches!(item, Item::String(_)) && parameters.is_empty());
                if member.item.is_none() && strings {
                    let names = member.list.iter().map(|(item, _)| match item {
                        Item::String(text) => text.as_str(),
                        _ => unreachable!("checked above"),
                    });
                    let text = format!("s={}", list_text(names, &member.parameters));
                    assert_eq!(parse_dictionary(&text), Ok(vec![("s".to_owned(), member.clone())]), "{text:?}");
                }
            }
        });
    }
}
