//! Masks everything in Rust source that is not code, so that a brace in a string is not counted as one.

/// Replaces comments, strings and character literals with spaces. Lines and columns do not move.
pub(crate) fn code(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut masked = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = end_of_text(&chars, at);
        if end == at {
            masked.push(chars[at]);
            at += 1;
            continue;
        }
        masked.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    masked
}

/// Returns the end of the comment or literal that begins at `at`, or `at` if none begins there.
fn end_of_text(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => find(chars, at, |rest| rest[0] == '\n', 0),
        '/' if next == Some('*') => block_comment(chars, at),
        '"' => quoted(chars, at + 1),
        'r' if !follows_a_word(chars, at) => raw_string(chars, at).unwrap_or(at),
        'b' | 'c' if next == Some('r') && !follows_a_word(chars, at) => raw_string(chars, at + 1).unwrap_or(at),
        '\'' if next == Some('\\') => find(chars, at + 3, |rest| rest[0] == '\'', 1),
        '\'' if next.is_some() && chars.get(at + 2) == Some(&'\'') => at + 3,
        _ => at,
    }
}

fn find(chars: &[char], from: usize, ends: impl Fn(&[char]) -> bool, with: usize) -> usize {
    let place = (from..chars.len()).find(|place| ends(&chars[*place..]));
    place.map_or(chars.len(), |place| place + with)
}

fn follows_a_word(chars: &[char], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| chars[before]);
    before.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

fn block_comment(chars: &[char], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0);
    while at < chars.len() {
        match chars.get(at..at + 2) {
            Some(['/', '*']) => (at, depth) = (at + 2, depth + 1),
            Some(['*', '/']) => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn quoted(chars: &[char], from: usize) -> usize {
    let mut at = from;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// Returns the end of the raw string whose `r` is at `at`, if it is one.
fn raw_string(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    if chars.get(at + 1 + hashes) != Some(&'"') {
        return None;
    }
    let ends = |rest: &[char]| rest[0] == '"' && rest.len() > hashes && rest[1..=hashes].iter().all(|c| *c == '#');
    Some(find(chars, at + 2 + hashes, ends, 1 + hashes))
}

/// Returns whether `word` is at `place` of `text` and not part of a longer word.
pub(crate) fn is_word(text: &str, place: usize, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text[place..].starts_with(word)
        && !text[..place].chars().next_back().is_some_and(part)
        && !text[place + word.len()..].chars().next().is_some_and(part)
}

/// Returns whether `text` contains `word` as a whole word.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(place, _)| is_word(text, place, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_remains() {
        let cases = [
            ("a // {\nb", "a\nb"),
            ("a /* { /* } */ */ b", "ab"),
            (r#"f("{\"{", x)"#, "f(,x)"),
            (r##"f(r#"{"{"#, br"}", x)"##, "f(,,x)"),
            (r#"f(b"{", '{', '\'', '\u{7d}', 'a)"#, "f(b,,,,'a)"),
            ("fn for_each(r: R)", "fnfor_each(r:R)"),
            ("let year = \"}\";", "letyear=;"),
        ];
        for (source, left) in cases {
            let masked = code(source);
            assert_eq!(masked.replace(' ', ""), left, "{source}");
            assert_eq!(masked.len(), source.len(), "{source}: columns must not move");
        }
    }

    #[test]
    fn only_whole_words_match() {
        assert!(has_word("use serde::Serialize;", "serde"));
        assert!(!has_word("use serde_json::Value;", "serde"));
    }
}
