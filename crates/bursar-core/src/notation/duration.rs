//! Durations: `500ms`, `45s`, `10m`, `1h30m`, `7d`.

use std::fmt;
use std::str::FromStr;

use super::{digits, quoted};
use crate::refusal::Invalid;
use crate::time::Span;

/// The units, longest first, with their milliseconds. A duration names them in this order.
pub(super) const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Writes the duration as people write it, such as `1h30m`. Parts of a millisecond are rounded up.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.millis().unsigned_abs();
        if left == 0 {
            return f.pad("0s");
        }
        let mut text = String::new();
        for (unit, millis) in UNITS {
            if left >= millis {
                text.push_str(&format!("{}{unit}", left / millis));
                left %= millis;
            }
        }
        f.pad(&text)
    }
}

/// Parses a duration: whole numbers with the units `d`, `h`, `m`, `s` and `ms`, from long to short.
impl FromStr for Span {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Span, Invalid> {
        let bad = |problem: String| Invalid::new("duration", format!("{} {problem}", quoted(text)));
        if digits(text.trim()).is_some() {
            let number = text.trim();
            return Err(bad(format!(
                "has no unit: write {number}s for seconds, {number}m for minutes, {number}h for hours or {number}ms for milliseconds"
            )));
        }
        let mut rest = text.trim();
        let (mut millis, mut units) = (0_u64, UNITS.iter());
        let form = || bad("is not a duration: write 500ms, 45s, 10m, 1h30m or 7d".to_owned());
        while !rest.is_empty() {
            let (number, after) = rest.split_at(rest.find(|sign: char| !sign.is_ascii_digit()).ok_or_else(form)?);
            if after.starts_with('.') {
                return Err(bad("has a fraction: write 1h30m instead of 1.5h".to_owned()));
            }
            let (name, next) = after.split_at(after.find(|sign: char| sign.is_ascii_digit()).unwrap_or(after.len()));
            let unit = units.find(|unit| unit.0 == name).ok_or_else(form)?.1;
            let long = || bad("is too long".to_owned());
            if number.is_empty() {
                return Err(form());
            }
            let part = digits(number).and_then(|number| number.checked_mul(unit)).ok_or_else(long)?;
            millis = millis.checked_add(part).ok_or_else(long)?;
            rest = next;
        }
        if text.trim().is_empty() { Err(form()) } else { Ok(Span::from_millis(millis)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_in_their_largest_units() {
        for (millis, text) in [
            (0, "0s"),
            (500, "500ms"),
            (45_000, "45s"),
            (90_000, "1m30s"),
            (5_400_000, "1h30m"),
            (604_800_000, "7d"),
            (86_400_001, "1d1ms"),
        ] {
            assert_eq!(Span::from_millis(millis).to_string(), text);
            assert_eq!(text.parse(), Ok(Span::from_millis(millis)));
        }
        assert_eq!(Span::from_micros(1).to_string(), "1ms", "rounded up");
        assert_eq!("90m".parse::<Span>().unwrap().to_string(), "1h30m");
        assert_eq!(" 10m ".parse(), Ok(Span::from_secs(600)));
    }

    #[test]
    fn a_wrong_duration_says_what_to_write() {
        for (text, problem) in [
            ("10", "duration \"10\" has no unit: write 10s for seconds, 10m for minutes"),
            ("", "duration \"\" is not a duration"),
            ("m", "duration \"m\" is not a duration"),
            ("-5s", "duration \"-5s\" is not a duration"),
            ("1.5h", "duration \"1.5h\" has a fraction: write 1h30m"),
            ("30m1h", "duration \"30m1h\" is not a duration"),
            ("1h1h", "duration \"1h1h\" is not a duration"),
            ("1h30", "duration \"1h30\" is not a duration"),
            ("10 m", "duration \"10 m\" is not a duration"),
            ("10minutes", "duration \"10minutes\" is not a duration"),
            ("99999999999999999999s", "duration \"99999999999999999999s\" is too long"),
            ("18446744073709551615d", "duration \"18446744073709551615d\" is too long"),
        ] {
            let error = text.parse::<Span>().unwrap_err().to_string();
            assert!(error.starts_with(problem), "{text:?}: {error}");
        }
    }
}
