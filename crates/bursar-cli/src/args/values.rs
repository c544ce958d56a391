//! Parsers for values that several commands take.

use bursar::{Invalid, Limit, Payload, Scope, Window};

/// Parses `SCOPE=AMOUNT`. A scope's name may contain `=`, an amount may not.
pub(crate) fn charge(text: &str) -> Result<(Scope, i64), Invalid> {
    let parts = text.rsplit_once('=').and_then(|(scope, amount)| Some((scope, amount.parse().ok()?)));
    let (scope, amount) =
        parts.ok_or_else(|| Invalid::new("charge", "must be SCOPE=AMOUNT, where AMOUNT is a whole number"))?;
    Ok((Scope::new(scope)?, amount))
}

/// Parses `AMOUNT:WINDOW`, the window in its text form. The capacity of a bucket is the amount and may be left out:
/// `100:bucket:10:1000` holds 100 and refills 10 every 1000 ms.
pub(crate) fn limit(text: &str) -> Result<Limit, Invalid> {
    let parts = text.split_once(':').and_then(|(amount, window)| Some((amount.parse::<i64>().ok()?, window)));
    let (amount, window) = parts.ok_or_else(|| {
        let example = "1000000:month@Europe/Berlin, 50000:rolling:3600000 or 100:bucket:10:1000";
        Invalid::new("limit", format!("must be AMOUNT:WINDOW, such as {example}"))
    })?;
    let window: Window = match window.strip_prefix("bucket:") {
        Some(rest) if rest.matches(':').count() == 1 => format!("bucket:{amount}:{rest}").parse()?,
        _ => window.parse()?,
    };
    Ok(Limit::new(amount, window))
}

/// The windows that `--limit` takes, shown after the help of commands that have it.
pub(crate) const LIMIT_HELP: &str = "\
Windows: lifetime; rolling:MS; bucket:REFILL:MS (the amount is the capacity); hour, day, week, month or year, with \
@ZONE for a time zone other than UTC, and week@ZONE:sunday for weeks that do not start on Monday.
Examples: --limit 1000000:month@Europe/Berlin  --limit 50000:rolling:3600000  --limit 100:bucket:10:1000";

/// Parses a JSON payload.
pub(crate) fn payload(text: &str) -> Result<Payload, Invalid> {
    Payload::new(text)
}

/// Converts a duration to its wire form. A duration too long for the wire becomes the longest one, which validation
/// rejects.
pub(crate) fn millis(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_charges_are_parsed() {
        for (text, amount, window) in [
            ("5:lifetime", 5, "lifetime"),
            ("1000000:month@Europe/Berlin", 1_000_000, "month@Europe/Berlin"),
            ("50000:rolling:3600000", 50_000, "rolling:3600000"),
            ("100:bucket:10:1000", 100, "bucket:100:10:1000"),
            ("100:bucket:100:10:1000", 100, "bucket:100:10:1000"),
        ] {
            let limit = limit(text).unwrap();
            assert_eq!((limit.amount, limit.window.to_string().as_str()), (amount, window));
        }
        for text in ["", "5", "x:day", "5:fortnight", "5:day@Mars/Olympus", "5:bucket:10", "1.5:day"] {
            assert!(limit(text).is_err(), "{text}");
        }
        assert_eq!(charge("a=b=-5").unwrap(), (Scope::new("a=b").unwrap(), -5));
        assert!(charge("a").is_err() && charge("a=").is_err() && charge("=1").is_err());
    }

    #[test]
    fn parsed_limits_and_charges_round_trip_through_text() {
        let samples = [
            "1000000:month@Europe/Berlin",
            "50000:rolling:3600000",
            "100:bucket:10:1000",
            "100:bucket:100:10:1000",
            "-5:week@UTC:sunday",
            "room=b=-5",
        ];
        bursar_fuzz::texts(&samples, |text| {
            if let Ok(read) = limit(text) {
                let again = limit(&format!("{}:{}", read.amount, read.window)).unwrap();
                assert_eq!(again, read, "{text:?}");
            }
            if let Ok((scope, amount)) = charge(text) {
                assert_eq!(charge(&format!("{scope}={amount}")), Ok((scope, amount)), "{text:?}");
            }
        });
    }
}
