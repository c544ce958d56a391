//! Times as people write them: `2026-11-15`, `2026-11-15T10:00:00Z`, `now`, `-7d`.

use super::quoted;
use crate::refusal::Invalid;
use crate::time::{Span, Time};

/// Parses a time: a date (its first instant in UTC), an instant in RFC 3339, `now`, or a duration before now, such as `-7d`.
/// `field` names the field or parameter that has it.
pub fn moment(field: &str, text: &str, now: Time) -> Result<Time, Invalid> {
    if text == "now" {
        return Ok(now);
    }
    if let Some(ago) = text.strip_prefix('-') {
        let span: Span = ago.parse().map_err(|_| unknown(field, text))?;
        return Ok(now.before(span));
    }
    let is_date = text.len() == "2026-11-15".len() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let parsed = if is_date { format!("{text}T00:00:00Z").parse() } else { text.parse() };
    parsed.map_err(|_: Invalid| unknown(field, text))
}

fn unknown(field: &str, text: &str) -> Invalid {
    let problem = format!(
        "{} is not a time: write a date such as 2026-11-15, an instant such as 2026-11-15T10:00:00Z, now, or how long ago, \
         such as -7d",
        quoted(text)
    );
    Invalid::new(field.to_owned(), problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_an_instant_now_or_so_long_ago() {
        let now: Time = "2026-11-15T10:00:00Z".parse().unwrap();
        for (text, instant) in [
            ("2026-11-01", "2026-11-01T00:00:00Z"),
            ("2026-11-01T02:00:00+02:00", "2026-11-01T00:00:00Z"),
            ("now", "2026-11-15T10:00:00Z"),
            ("-7d", "2026-11-08T10:00:00Z"),
            ("-1h30m", "2026-11-15T08:30:00Z"),
        ] {
            assert_eq!(moment("from", text, now), instant.parse(), "{text}");
        }
        for text in ["", "yesterday", "7d", "-", "-7", "2026-13-01", "2026-11-1", "1763200000"] {
            let refused = moment("from", text, now).unwrap_err();
            assert_eq!(refused.field, "from", "{text}");
            assert!(refused.problem.contains("such as 2026-11-15"), "{text}: {refused}");
        }
    }
}
