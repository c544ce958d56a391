//! Decides which part of a blob answers a `GET` or `HEAD`: the rules of RFC 9110 for conditions and ranges, for every backend.
//!
//! The validator of a blob is the strong entity tag made of its SHA-256. Blobs never change, so dates add nothing: conditions by date are
//! ignored, as for any resource without a date of modification, and `If-Range` with a date selects the whole blob.

use bursar_core::blob::Sha256Digest;

/// The headers of a request that decide what it gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions<'a> {
    /// Whether the method is `HEAD`, which has no ranges.
    pub head: bool,
    /// `If-Match`.
    pub if_match: Option<&'a str>,
    /// `If-None-Match`.
    pub if_none_match: Option<&'a str>,
    /// `Range`.
    pub range: Option<&'a str>,
    /// `If-Range`.
    pub if_range: Option<&'a str>,
}

/// The answer to a request for a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// 200: all bytes.
    Whole,
    /// 206: the bytes from `first` to `last`, both included.
    Part {
        /// The position of the first byte.
        first: u64,
        /// The position of the last byte.
        last: u64,
    },
    /// 304: the caller has these bytes.
    NotModified,
    /// 412: the caller wants other bytes.
    PreconditionFailed,
    /// 416: the range begins after the last byte.
    Unsatisfiable,
}

impl Served {
    /// Returns the HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Served::Whole => 200,
            Served::Part { .. } => 206,
            Served::NotModified => 304,
            Served::PreconditionFailed => 412,
            Served::Unsatisfiable => 416,
        }
    }

    /// Returns the value of `Content-Range`, if the answer has one.
    pub fn content_range(self, size: u64) -> Option<String> {
        match self {
            Served::Part { first, last } => Some(format!("bytes {first}-{last}/{size}")),
            Served::Unsatisfiable => Some(format!("bytes */{size}")),
            Served::Whole | Served::NotModified | Served::PreconditionFailed => None,
        }
    }

    /// Returns the number of bytes in the body of a `GET`.
    pub fn length(self, size: u64) -> u64 {
        match self {
            Served::Whole => size,
            Served::Part { first, last } => last - first + 1,
            Served::NotModified | Served::PreconditionFailed | Served::Unsatisfiable => 0,
        }
    }
}

/// Returns the entity tag of a blob.
pub fn entity_tag(digest: Sha256Digest) -> String {
    format!("\"{digest}\"")
}

/// Decides what a request for a blob gets: preconditions first, then ranges.
pub fn serve(conditions: &Conditions<'_>, digest: Sha256Digest, size: u64) -> Served {
    let tag = entity_tag(digest);
    if conditions.if_match.is_some_and(|list| !matches(list, &tag, Comparison::Strong)) {
        return Served::PreconditionFailed;
    }
    if conditions.if_none_match.is_some_and(|list| matches(list, &tag, Comparison::Weak)) {
        return Served::NotModified;
    }
    let Some(range) = conditions.range.filter(|_| !conditions.head) else { return Served::Whole };
    if conditions.if_range.is_some_and(|validator| validator.trim() != tag) {
        return Served::Whole;
    }
    match parse_range(range) {
        Some(range) => range.within(size),
        None => Served::Whole,
    }
}

/// How entity tags are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// A weak tag equals nothing.
    Strong,
    /// A weak tag equals the strong one of the same text.
    Weak,
}

/// Returns whether a list of entity tags, or `*`, has the tag of the blob. What follows a malformed tag is ignored.
fn matches(list: &str, tag: &str, comparison: Comparison) -> bool {
    if list.trim() == "*" {
        return true;
    }
    let mut rest = list;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let weak = rest.starts_with("W/");
        let text = rest.strip_prefix("W/").unwrap_or(rest);
        let Some(end) = text.strip_prefix('"').and_then(|inner| inner.find('"')) else { return false };
        let (found, after) = text.split_at(end + 2);
        if found == tag && (!weak || comparison == Comparison::Weak) {
            return true;
        }
        rest = after;
    }
}

/// A range of bytes, as a request writes it. Numbers that do not fit 64 bits are the greatest one, which is beyond any blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    /// `first-` or `first-last`.
    From { first: u64, last: Option<u64> },
    /// `-count`: the last bytes.
    Last { count: u64 },
}

impl Range {
    fn within(self, size: u64) -> Served {
        match self {
            Range::From { first, .. } if first >= size => Served::Unsatisfiable,
            Range::From { first, last } => Served::Part { first, last: last.unwrap_or(u64::MAX).min(size - 1) },
            Range::Last { count: 0 } => Served::Unsatisfiable,
            // No range can name the bytes of an empty blob.
            Range::Last { .. } if size == 0 => Served::Whole,
            Range::Last { count } => Served::Part { first: size.saturating_sub(count), last: size - 1 },
        }
    }
}

/// Parses the value of `Range`. Returns `None` for what must be ignored: other units, malformed or several ranges.
fn parse_range(text: &str) -> Option<Range> {
    let (unit, set) = text.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = set.trim().split_once('-')?;
    match (first.is_empty(), last.is_empty()) {
        (true, true) => None,
        (true, false) => Some(Range::Last { count: number(last)? }),
        (false, true) => Some(Range::From { first: number(first)?, last: None }),
        (false, false) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Range::From { first, last: Some(last) })
        }
    }
}

fn number(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DIGEST: Sha256Digest = Sha256Digest([0xab; 32]);

    fn ranged(range: &str, size: u64) -> Served {
        serve(&Conditions { range: Some(range), ..Conditions::default() }, DIGEST, size)
    }

    #[test]
    fn ranges_select_bytes_or_are_ignored() {
        let part = |first, last| Served::Part { first, last };
        let cases = [
            ("bytes=0-0", 10, part(0, 0)),
            ("bytes=2-5", 10, part(2, 5)),
            ("bytes=2-", 10, part(2, 9)),
            ("bytes=2-99", 10, part(2, 9)),
            ("bytes=-3", 10, part(7, 9)),
            ("bytes=-99", 10, part(0, 9)),
            ("BYTES = 1-2", 10, part(1, 2)),
            ("bytes=0-99999999999999999999", 10, part(0, 9)),
            ("bytes=10-", 10, Served::Unsatisfiable),
            ("bytes=99999999999999999999-", 10, Served::Unsatisfiable),
            ("bytes=-0", 10, Served::Unsatisfiable),
            ("bytes=0-", 0, Served::Unsatisfiable),
            ("bytes=-1", 0, Served::Whole),
            ("bytes=5-2", 10, Served::Whole),
            ("bytes=1-2,4-5", 10, Served::Whole),
            ("bytes=", 10, Served::Whole),
            ("bytes=-", 10, Served::Whole),
            ("bytes=a-b", 10, Served::Whole),
            ("bytes=+1-2", 10, Served::Whole),
            ("bytes=1 -2", 10, Served::Whole),
            ("lines=1-2", 10, Served::Whole),
            ("1-2", 10, Served::Whole),
        ];
        for (range, size, expected) in cases {
            assert_eq!(ranged(range, size), expected, "{range} of {size}");
        }
    }

    #[test]
    fn preconditions_come_before_ranges() {
        let tag = entity_tag(DIGEST);
        let (other, weak) = ("\"other\"", format!("W/{tag}"));
        let both = format!("{other}, {tag}");
        let part = Served::Part { first: 0, last: 0 };
        let asked = Conditions { range: Some("bytes=0-0"), ..Conditions::default() };
        let cases = [
            (Conditions { if_match: Some(&tag), ..asked }, part),
            (Conditions { if_match: Some("*"), ..asked }, part),
            (Conditions { if_match: Some(&both), ..asked }, part),
            (Conditions { if_match: Some(other), ..asked }, Served::PreconditionFailed),
            (Conditions { if_match: Some(&weak), ..asked }, Served::PreconditionFailed),
            (Conditions { if_match: Some(""), ..asked }, Served::PreconditionFailed),
            (Conditions { if_none_match: Some(&tag), ..asked }, Served::NotModified),
            (Conditions { if_none_match: Some(&weak), ..asked }, Served::NotModified),
            (Conditions { if_none_match: Some("*"), ..asked }, Served::NotModified),
            (Conditions { if_none_match: Some(other), ..asked }, part),
            (Conditions { if_match: Some(other), if_none_match: Some(&tag), ..asked }, Served::PreconditionFailed),
            (Conditions { if_range: Some(&tag), ..asked }, part),
            (Conditions { if_range: Some(&weak), ..asked }, Served::Whole),
            (Conditions { if_range: Some(other), ..asked }, Served::Whole),
            (Conditions { if_range: Some("Sat, 29 Oct 1994 19:43:31 GMT"), ..asked }, Served::Whole),
            (Conditions { if_range: Some(&tag), range: None, ..asked }, Served::Whole),
            (Conditions { head: true, ..asked }, Served::Whole),
            (Conditions { head: true, if_none_match: Some(&tag), ..asked }, Served::NotModified),
        ];
        for (conditions, expected) in cases {
            assert_eq!(serve(&conditions, DIGEST, 10), expected, "{conditions:?}");
        }
    }

    #[test]
    fn answers_have_a_status_a_length_and_a_content_range() {
        let cases = [
            (Served::Whole, 200, 10, None),
            (Served::Part { first: 2, last: 4 }, 206, 3, Some("bytes 2-4/10")),
            (Served::NotModified, 304, 0, None),
            (Served::PreconditionFailed, 412, 0, None),
            (Served::Unsatisfiable, 416, 0, Some("bytes */10")),
        ];
        for (served, status, length, range) in cases {
            assert_eq!((served.status(), served.length(10)), (status, length));
            assert_eq!(served.content_range(10).as_deref(), range);
        }
    }

    /// The bytes that a single range selects, position by position.
    fn model(first: Option<u64>, last: Option<u64>, size: u64) -> Option<Vec<u64>> {
        let selected = |at: &u64| match (first, last) {
            (Some(first), last) => first <= *at && last.is_none_or(|last| *at <= last),
            (None, Some(count)) => at + count >= size,
            (None, None) => true,
        };
        let valid = first.zip(last).is_none_or(|(first, last)| first <= last) && (first.is_some() || last.is_some());
        valid.then(|| (0..size).filter(selected).collect())
    }

    proptest! {
        #[test]
        fn single_ranges_equal_the_model(first: Option<u8>, last: Option<u8>, size in 0u64..40) {
            let (first, last) = (first.map(u64::from), last.map(u64::from));
            let text = |number: Option<u64>| number.map(|n| n.to_string()).unwrap_or_default();
            let served = ranged(&format!("bytes={}-{}", text(first), text(last)), size);
            let bytes: Option<Vec<u64>> = match served {
                Served::Whole if size == 0 => Some(Vec::new()),
                Served::Whole => None,
                Served::Part { first, last } => Some((first..=last).collect()),
                Served::Unsatisfiable => Some(Vec::new()),
                other => panic!("{other:?}"),
            };
            let expected = model(first, last, size);
            prop_assert!(bytes == expected || size == 0 && bytes.is_some_and(|bytes| bytes.is_empty()));
        }

        #[test]
        fn any_headers_get_an_answer_within_the_blob(
            head: bool,
            if_match in "\\PC{0,12}",
            if_none_match in "(W/)?\"?[a-z*, \"]{0,9}",
            range in "(bytes=)?[0-9, -]{0,9}",
            if_range in "\\PC{0,9}",
            size in 0u64..20,
        ) {
            let conditions = Conditions {
                head,
                if_match: Some(if_match.as_str()).filter(|text| !text.is_empty()),
                if_none_match: Some(if_none_match.as_str()).filter(|text| !text.is_empty()),
                range: Some(&range),
                if_range: Some(if_range.as_str()).filter(|text| !text.is_empty()),
            };
            if let Served::Part { first, last } = serve(&conditions, DIGEST, size) {
                prop_assert!(!head && first <= last && last < size);
            }
        }
    }
}
