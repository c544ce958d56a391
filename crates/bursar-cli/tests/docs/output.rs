//! Compares the output of a command with a document.

/// Whether the output matches; `…` matches anything within a line, and a line of `…` matches any lines.
pub(crate) fn matches(expected: &[String], printed: &str) -> bool {
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    let expected: Vec<&str> = expected.iter().map(|line| line.trim_end()).collect();
    all(&expected, &printed)
}

fn all(expected: &[&str], printed: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((&"…", rest)) => (0..=printed.len()).any(|skipped| all(rest, &printed[skipped..])),
        Some((line, rest)) => printed.split_first().is_some_and(|(first, more)| one(line, first) && all(rest, more)),
    }
}

fn one(expected: &str, printed: &str) -> bool {
    let mut parts = expected.split('…');
    let Some(mut rest) = parts.next().and_then(|start| printed.strip_prefix(start)) else { return false };
    let mut parts = parts.peekable();
    let mut open = false;
    while let Some(part) = parts.next() {
        open = true;
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    open || rest.is_empty()
}

#[test]
fn a_differing_line_does_not_match() {
    let matches =
        |expected: &str, printed: &str| matches(&expected.lines().map(str::to_owned).collect::<Vec<_>>(), printed);
    for (expected, printed) in [
        ("", ""),
        ("a b", "a b\n"),
        ("a…", "a b"),
        ("a…c", "a b c"),
        ("…\nb", "x\ny\nb"),
        ("a\n…", "a"),
        ("…b…", "abc"),
    ] {
        assert!(matches(expected, printed), "{expected:?} {printed:?}");
    }
    for (expected, printed) in
        [("", "a"), ("a", ""), ("a", "a b"), ("a…c", "a b"), ("…\nb", "b\nx"), ("a…b…", "a c"), ("aa…aa", "aaa")]
    {
        assert!(!matches(expected, printed), "{expected:?} {printed:?}");
    }
}
