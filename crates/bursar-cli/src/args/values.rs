//! Parsers for values that several commands take.

use std::ops::RangeInclusive;
use std::str::FromStr;

use bursar::{Amount, Invalid, Limit, Payload, Scope, Span, Unit};

/// Parses `SCOPE=AMOUNT`. A scope's name may contain `=`, an amount may not. The budget of the scope has the unit.
pub(crate) fn charge(text: &str) -> Result<(Scope, Amount), Invalid> {
    let (scope, amount) = text
        .rsplit_once('=')
        .ok_or_else(|| Invalid::new("charge", format!("{text:?} is not SCOPE=AMOUNT: write agent:scout=50000")))?;
    Ok((Scope::new(scope)?, amount.parse()?))
}

/// Parses an amount. The budget that it belongs to has the unit.
pub(crate) fn amount(text: &str) -> Result<Amount, Invalid> {
    text.parse()
}

/// `AMOUNT:WINDOW` as it was written, until the unit of the budget is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenLimit(String);

impl WrittenLimit {
    /// Returns the name of the unit that was written, if any.
    pub(crate) fn unit(&self) -> Option<String> {
        Limit::written_unit(&self.0).ok().flatten()
    }

    /// Returns the limit, with its amount in this unit.
    pub(crate) fn of(&self, unit: &Unit) -> Result<Limit, Invalid> {
        Limit::parse(&self.0, unit)
    }
}

/// Parses `AMOUNT:WINDOW`. What does not depend on the unit is checked at once.
pub(crate) fn limit(text: &str) -> Result<WrittenLimit, Invalid> {
    let written = WrittenLimit(text.to_owned());
    match Limit::written_unit(text)? {
        Some(name) => written.of(&Unit::named(&name))?,
        // Without a unit, an amount with decimals is right if the budget's unit has enough of them.
        None => written.of(&Unit::default()).or_else(|_| written.of(&Unit::of("", None, Some(6))))?,
    };
    Ok(written)
}

/// The windows that `--limit` takes, shown after the help of commands that have it.
pub(crate) const LIMIT_HELP: &str = "\
Amounts: 25, 1.5k, 2M; 25usd in a unit. Do not write a $, which the shell would replace.
Windows: lifetime; rolling:1h; bucket:10000/h (the amount is the capacity, refilled by 10000 per hour); hour, day, \
week, month or year, with @ZONE for a time zone other than UTC (month@Europe/Berlin), and week@ZONE:sunday for weeks \
that do not start on Monday.";

/// Parses a JSON payload.
pub(crate) fn payload(text: &str) -> Result<Payload, Invalid> {
    Payload::new(text)
}

/// Parses a duration, such as `10m`.
pub(crate) fn duration(text: &str) -> Result<Span, String> {
    text.parse::<Span>().map_err(|invalid| invalid.problem)
}

/// Parses a whole number within bounds.
pub(crate) fn whole<T: FromStr + PartialOrd + std::fmt::Display>(
    text: &str,
    allowed: RangeInclusive<T>,
) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| allowed.contains(number));
    number.ok_or_else(|| format!("must be a whole number from {} to {}", allowed.start(), allowed.end()))
}

/// Parses a percentage: `80` or `80%`.
pub(crate) fn percent(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    whole(number, 1..=1_000).map_err(|_| "must be a percentage from 1 to 1000, such as 80 or 80%".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_charges_are_parsed() {
        let (usd, none) = (Unit::named("usd"), Unit::default());
        for (text, unit, amount, window) in [
            ("5:lifetime", &none, 5, "lifetime"),
            ("1000000:month@Europe/Berlin", &none, 1_000_000, "month@Europe/Berlin"),
            ("25usd:month@Europe/Berlin", &usd, 25_000_000, "month@Europe/Berlin"),
            ("10.50:day", &usd, 10_500_000, "day@UTC"),
            ("50000:rolling:3600000", &none, 50_000, "rolling:1h"),
            ("100:bucket:10/s", &none, 100, "bucket:100:10/s"),
            ("100:bucket:10:1000", &none, 100, "bucket:100:10/s"),
        ] {
            let limit = limit(text).unwrap().of(unit).unwrap();
            assert_eq!((limit.amount, limit.window.to_string().as_str()), (amount, window));
        }
        for text in ["", "5", "x:day", "5:fortnight", "5:day@Mars/Olympus", "5:bucket:10"] {
            assert!(limit(text).is_err(), "{text}");
        }
        assert!(limit("1.5:day").unwrap().of(&none).is_err(), "the budget's unit has no decimals");
        let (scope, amount) = charge("a=b=-5").unwrap();
        assert_eq!((scope, amount.in_unit(&none).unwrap()), (Scope::new("a=b").unwrap(), -5));
        assert!(charge("a").is_err() && charge("a=").is_err() && charge("=1").is_err());
    }

    #[test]
    fn limits_and_charges_accept_any_text_without_a_panic() {
        let samples = [
            "1000000:month@Europe/Berlin",
            "25usd:rolling:1h",
            "100:bucket:10/s",
            "100:bucket:100:10:1000",
            "-5:week@UTC:sunday",
            "room=b=-5",
        ];
        bursar_fuzz::texts(&samples, |text| {
            if let Ok(read) = limit(text).and_then(|written| written.of(&Unit::default())) {
                let again = limit(&format!("{}:{}", read.amount, read.window)).unwrap();
                assert_eq!(again.of(&Unit::default()), Ok(read), "{text:?}");
            }
            if let Ok((scope, amount)) = charge(text)
                && let Ok(amount) = amount.in_unit(&Unit::default())
            {
                let (again, same) = charge(&format!("{scope}={amount}")).unwrap();
                assert_eq!((again, same.in_unit(&Unit::default())), (scope, Ok(amount)), "{text:?}");
            }
        });
    }

    #[test]
    fn numbers_out_of_bounds_say_what_is_allowed() {
        assert_eq!(whole("7", 1..=9_u16), Ok(7));
        for text in ["x", "0", "10", "-1", "1.5", ""] {
            assert_eq!(whole(text, 1..=9_u16).unwrap_err(), "must be a whole number from 1 to 9");
        }
        assert_eq!((percent("80"), percent("80%"), percent("80 %")), (Ok(80), Ok(80), Ok(80)));
        assert!(percent("0").is_err() && percent("%").is_err() && percent("1.5%").is_err());
    }
}
