//! Limits as people write them: `25usd:month@Europe/Berlin`, `500k:bucket:10k/h`.

use super::{Amount, Unit, quoted};
use crate::budget::Limit;
use crate::refusal::Invalid;
use crate::window::Window;

impl Limit {
    /// Parses `AMOUNT:WINDOW`, with the amount and the refill of a bucket in `unit`. A bucket holds the amount, so its
    /// capacity may be left out: `500k:bucket:10k/h`.
    pub fn parse(text: &str, unit: &Unit) -> Result<Limit, Invalid> {
        let (amount, window) = Limit::parts(text)?;
        let amount = amount.in_unit(unit)?;
        Ok(Limit { amount, window: Window::of_limit_in(amount, window, unit)? })
    }

    /// Returns the name of the unit that the amount of `AMOUNT:WINDOW` is written in, if any.
    pub fn written_unit(text: &str) -> Result<Option<String>, Invalid> {
        Ok(Limit::parts(text)?.0.unit_name().map(str::to_owned))
    }

    fn parts(text: &str) -> Result<(Amount, &str), Invalid> {
        let form = "is not AMOUNT:WINDOW: write 25usd:month@Europe/Berlin, 50000:rolling:1h or 100:bucket:10/s";
        let (amount, window) =
            text.split_once(':').ok_or_else(|| Invalid::new("limit", format!("{} {form}", quoted(text))))?;
        Ok((amount.parse()?, window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_an_amount_and_a_window() {
        let (usd, none) = (Unit::named("usd"), Unit::default());
        for (text, unit, amount, window) in [
            ("25usd:month@Europe/Berlin", &usd, 25_000_000, "month@Europe/Berlin"),
            ("5:lifetime", &none, 5, "lifetime"),
            ("1.5k:rolling:1h", &none, 1_500, "rolling:1h"),
            ("500k:bucket:10k/h", &none, 500_000, "bucket:500000:10000/h"),
            ("5usd:bucket:0.5/m", &usd, 5_000_000, "bucket:5000000:500000/m"),
            ("5usd:bucket:5usd:0.5usd/m", &usd, 5_000_000, "bucket:5000000:500000/m"),
            ("100:bucket:10:1000", &none, 100, "bucket:100:10/s"),
            ("100:bucket:100:10:1000", &none, 100, "bucket:100:10/s"),
        ] {
            let limit = Limit::parse(text, unit).unwrap();
            assert_eq!((limit.amount, limit.window.to_string().as_str()), (amount, window), "{text}");
        }
        assert_eq!(Limit::written_unit("$25:day").unwrap().as_deref(), Some("usd"));
        assert_eq!(Limit::written_unit("25usd:day").unwrap().as_deref(), Some("usd"));
        assert_eq!(Limit::written_unit("25:day").unwrap(), None);
    }

    #[test]
    fn a_wrong_limit_says_which_part_is_wrong() {
        for (text, problem) in [
            ("", "limit \"\" is not AMOUNT:WINDOW"),
            ("5", "limit \"5\" is not AMOUNT:WINDOW"),
            ("x:day", "amount \"x\" is not an amount"),
            ("10.50:month", "amount \"10.50\" is not a whole number"),
            ("5:fortnight", "window \"fortnight\" is not one of"),
            ("5:day@Mars/Olympus", "zone \"Mars/Olympus\" is not a known"),
            ("5:bucket:6:1/s", "window \"bucket:6:1/s\" has another capacity than the limit's amount"),
        ] {
            let error = Limit::parse(text, &Unit::default()).unwrap_err().to_string();
            assert!(error.starts_with(problem), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_bucket_is_shown_in_a_unit_with_decimals_as_it_can_be_typed() {
        let usd = Unit::named("usd");
        for (text, unit, shown) in [
            ("0.50usd:bucket:0.01usd/h", &usd, "bucket:0.50usd:0.01usd/h"),
            ("5:bucket:1/90m", &usd, "bucket:5.00usd:1.00usd/1h30m"),
            ("500k:bucket:10k/h", &Unit::named("tokens"), "bucket:500000:10000/h"),
            ("5:month@Europe/Berlin", &usd, "month@Europe/Berlin"),
        ] {
            let limit = Limit::parse(text, unit).unwrap();
            assert_eq!(limit.window.format_in(unit), shown);
            let again = format!("{}:{shown}", unit.format_typed(limit.amount));
            assert_eq!(Limit::parse(&again, unit), Ok(limit), "{again}");
        }
    }
}
