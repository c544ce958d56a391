//! Parsers for values that several commands take.

use std::ops::RangeInclusive;
use std::str::FromStr;

use bursar::{Amount, Invalid, Limit, Payload, Scope, Span, Unit, Zone};

use bursar_wire::similar;

/// Parses `SCOPE=AMOUNT`. A scope's name may contain `=`, an amount may not. The budget of the scope has the unit.
pub(crate) fn charge(text: &str) -> Result<(Scope, Amount), Invalid> {
    let form = || {
        let scope = if Scope::new(text).is_ok() && amount(text).is_err() { text } else { "agent:scout" };
        let form = "is not SCOPE=AMOUNT: write both in one word, with the amount in the unit of the scope's budget";
        Invalid::new("charge", format!("{text:?} {form}, such as {scope}=0.50usd or {scope}=50k"))
    };
    let (scope, written) = text.rsplit_once('=').ok_or_else(form)?;
    Ok((Scope::new(scope)?, amount(written)?))
}

/// Parses an amount. The budget that it belongs to has the unit.
pub(crate) fn amount(text: &str) -> Result<Amount, Invalid> {
    text.parse().map_err(|invalid| with_shell_tip(invalid, text))
}

/// Adds what to write instead of `$5`, which a shell replaces by nothing, and `$0.50`, of which it leaves `bash.50`.
fn with_shell_tip(invalid: Invalid, amount: &str) -> Invalid {
    let may_be_replaced =
        amount.is_empty() || amount.starts_with(['.', '/']) || amount.starts_with(char::is_alphabetic);
    match may_be_replaced {
        true => Invalid {
            problem: format!("{}; if you wrote a $, the shell has replaced it: write 25usd, not $25", invalid.problem),
            ..invalid
        },
        false => invalid,
    }
}

/// Parses the IANA name of a time zone.
pub(crate) fn zone(text: &str) -> Result<Zone, Invalid> {
    Zone::new(text).map_err(|invalid| with_similar_zone(&invalid, text))
}

/// Adds the name of a zone that resembles the unknown one.
fn with_similar_zone(invalid: &Invalid, zone: &str) -> Invalid {
    let names: Vec<String> = Zone::names().collect();
    let similar = similar::to(zone, names.iter().map(String::as_str));
    Invalid::new(invalid.field.clone(), format!("{}{}", invalid.problem, similar::question(similar)))
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
    let (amount, window) = text.split_once(':').unwrap_or((text, ""));
    checked(WrittenLimit(text.to_owned())).map_err(|invalid| {
        match (invalid.field.clone().as_ref(), window.split_once('@')) {
            ("amount", _) => with_shell_tip(invalid, amount),
            ("zone", Some((_, zone))) => with_similar_zone(&invalid, zone.split(':').next().unwrap_or(zone)),
            _ => invalid,
        }
    })
}

fn checked(written: WrittenLimit) -> Result<WrittenLimit, Invalid> {
    match Limit::written_unit(&written.0)? {
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
