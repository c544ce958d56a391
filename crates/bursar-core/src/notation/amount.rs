//! Amounts as people write them: `25usd`, `1.5k`, `2M`, `10.50`.

use std::str::FromStr;

use super::{Unit, quoted};
use crate::refusal::Invalid;

/// The letters for thousand, million and billion.
const MULTIPLIERS: [(char, u32); 3] = [('k', 3), ('M', 6), ('G', 9)];

/// More digits than any amount has, so that the arithmetic below cannot overflow.
const DIGITS_MAX: usize = 24;

/// A number as it was written, and what was written around it. A [`Unit`] says what it is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount {
    text: String,
    negative: bool,
    /// All digits, without the decimal point.
    digits: u128,
    /// How many of them are after the decimal point.
    decimals: u32,
    symbol: String,
    suffix: String,
}

impl FromStr for Amount {
    type Err = Invalid;

    /// Parses a number and keeps its unit. `,` and `_` may group digits.
    fn from_str(text: &str) -> Result<Amount, Invalid> {
        let given = text.trim();
        let bad = |problem: &str| Invalid::new("amount", format!("{} {problem}", quoted(given)));
        let form = "is not an amount: write a number such as 25, 10.50, 1.5k or 2M, with or without its unit (25usd)";
        let (negative, rest) = given.strip_prefix('-').map_or((false, given), |rest| (true, rest));
        let start = rest.find(|sign: char| sign.is_ascii_digit()).ok_or_else(|| bad(form))?;
        let (symbol, rest) = rest.split_at(start);
        match symbol.strip_suffix('.') {
            None => {}
            Some("") => return Err(bad("has no digit before the point: write 0.5 instead of .5")),
            Some(_) => return Err(bad(form)),
        }
        let number = |sign: char| sign.is_ascii_digit() || ".,_".contains(sign);
        let (number, suffix) = rest.split_at(rest.find(|sign| !number(sign)).unwrap_or(rest.len()));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits_only = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if fraction.is_empty() || !digits_only(fraction) {
            return Err(bad(form));
        }
        let whole = ungrouped(whole).ok_or_else(|| {
            bad("has a comma that does not separate thousands: write 10.50 with a point, or 1,250,000")
        })?;
        let fraction = fraction.trim_end_matches('0');
        if whole.trim_start_matches('0').len() + fraction.len() > DIGITS_MAX {
            return Err(bad("is too large"));
        }
        Ok(Amount {
            text: given.to_owned(),
            negative,
            digits: format!("{whole}{fraction}").parse().map_err(|_| bad(form))?,
            decimals: u32::try_from(fraction.len()).map_err(|_| bad("is too large"))?,
            symbol: symbol.trim().to_owned(),
            suffix: suffix.trim().to_owned(),
        })
    }
}

impl Amount {
    /// Returns the name of the unit that was written, such as `usd` in `25usd`, in `1.5kusd` and in `$25`.
    ///
    /// Letters for thousand, million and billion before a name that is not built in are taken for part of the name.
    pub fn unit_name(&self) -> Option<&str> {
        let after = MULTIPLIERS.iter().find_map(|(letter, _)| self.suffix.strip_prefix(*letter));
        let name = match after {
            Some(rest) if rest.is_empty() || Unit::is_built_in(rest) => rest,
            _ => &self.suffix,
        };
        match name {
            "" => Unit::name_of_symbol(&self.symbol),
            name => Some(name),
        }
    }

    /// Returns the amount in the smallest parts of `unit`. Refuses another unit, and an amount that is not a whole
    /// number of these parts.
    pub fn in_unit(&self, unit: &Unit) -> Result<i64, Invalid> {
        let power = self.power_in(unit)?;
        let power = power + u32::from(unit.decimals);
        let scaled = match power.checked_sub(self.decimals) {
            Some(up) => 10_u128.checked_pow(up).and_then(|factor| self.digits.checked_mul(factor)),
            None => return Err(self.too_fine(unit)),
        };
        let scaled = scaled.and_then(|scaled| i128::try_from(scaled).ok());
        let signed = scaled.map(|scaled| if self.negative { -scaled } else { scaled });
        signed
            .and_then(|signed| i64::try_from(signed).ok())
            .ok_or_else(|| self.bad(&format!("is too large: the largest amount is {}", unit.format(i64::MAX))))
    }

    /// Returns the power of ten that the letter for thousands says, after checking that the unit is `unit`.
    fn power_in(&self, unit: &Unit) -> Result<u32, Invalid> {
        let own = unit.symbol.as_deref() == Some(self.symbol.as_str());
        if !self.symbol.is_empty() && !own {
            return Err(self.other_unit(&self.symbol, unit));
        }
        let named = |suffix: &str| suffix.is_empty() || suffix.eq_ignore_ascii_case(&unit.name);
        if named(&self.suffix) {
            return Ok(0);
        }
        let known = MULTIPLIERS.iter().find_map(|(letter, power)| Some((self.suffix.strip_prefix(*letter)?, power)));
        match known {
            Some((rest, power)) if named(rest.trim_start()) => Ok(*power),
            _ if ["K", "m", "B", "b", "g"].contains(&self.suffix.as_str()) => {
                Err(self.bad("ends with an unknown letter: write k for thousand, M for million, G for billion"))
            }
            _ => Err(self.other_unit(&self.suffix, unit)),
        }
    }

    fn too_fine(&self, unit: &Unit) -> Invalid {
        let called = if unit.name.is_empty() { "this unit" } else { unit.name.as_str() };
        if unit.decimals > 0 {
            return self.bad(&format!("has more decimals than {called}, which has {}", unit.decimals));
        }
        self.bad(&format!(
            "is not a whole number, and {called} has no decimals: write {}, or count in smaller parts (a budget in usd, eur or gbp has decimals, and so has one with unit_decimals)",
            self.next_whole()
        ))
    }

    /// Returns the whole number above, for a suggestion.
    fn next_whole(&self) -> u128 {
        self.digits / 10_u128.pow(self.decimals) + 1
    }

    fn other_unit(&self, written: &str, unit: &Unit) -> Invalid {
        let number = self.text.trim_start_matches(|sign: char| !sign.is_ascii_digit() && sign != '-');
        let number = number.strip_suffix(&self.suffix).unwrap_or(number).trim_end();
        let written = quoted(written);
        match unit.name.as_str() {
            "" => self.bad(&format!("names the unit {written}, but the budget has no unit: write {number}")),
            name => self.bad(&format!("names the unit {written}, but the budget counts {name}: write {number}{name}")),
        }
    }

    fn bad(&self, problem: &str) -> Invalid {
        Invalid::new("amount", format!("{} {problem}", quoted(&self.text)))
    }
}

impl Unit {
    /// Parses an amount in this unit and returns it in smallest parts: in `usd`, `25`, `25usd` and `$25` are 25000000.
    pub fn parse(&self, text: &str) -> Result<i64, Invalid> {
        text.parse::<Amount>()?.in_unit(self)
    }
}

/// Removes the separators of digits: `_` anywhere between digits, `,` only between groups of three.
fn ungrouped(whole: &str) -> Option<String> {
    let plain = whole.replace('_', "");
    let mut groups = plain.split(',');
    let first = groups.next()?;
    let rest: Vec<&str> = groups.collect();
    let thousands = rest.is_empty() || (1..=3).contains(&first.len());
    let grouped = thousands && rest.iter().all(|group| group.len() == 3);
    let digits: String = plain.replace(',', "");
    let valid = grouped && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    valid.then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_a_whole_number_of_smallest_parts() {
        let (usd, tokens, none) = (Unit::named("usd"), Unit::named("tokens"), Unit::default());
        for (unit, text, amount) in [
            (&usd, "25usd", 25_000_000),
            (&usd, "25 USD", 25_000_000),
            (&usd, "10.50", 10_500_000),
            (&usd, "$1,234.5", 1_234_500_000),
            (&usd, "-$0.000001", -1),
            (&usd, "1.5k", 1_500_000_000),
            (&usd, "2Musd", 2_000_000_000_000),
            (&tokens, "1.5k", 1_500),
            (&tokens, "2M tokens", 2_000_000),
            (&tokens, "1_250_000", 1_250_000),
            (&tokens, "10.00", 10),
            (&none, "3G", 3_000_000_000),
            (&none, "9223372036854775807", i64::MAX),
            (&none, "-9223372036854775808", i64::MIN),
            (&Unit::named("kwh"), "5kwh", 5),
            (&Unit::named("kwh"), "5kkwh", 5_000),
            (&Unit::named("k"), "5k", 5),
            (&Unit::of("chf", Some("CHF"), Some(2)), "CHF9.99", 999),
        ] {
            assert_eq!(unit.parse(text), Ok(amount), "{text:?}");
        }
    }

    #[test]
    fn a_wrong_amount_says_what_to_write() {
        let (usd, tokens, none) = (Unit::named("usd"), Unit::named("tokens"), Unit::default());
        for (unit, text, problem) in [
            (
                &tokens,
                "10.50",
                "amount \"10.50\" is not a whole number, and tokens has no decimals: write 11, or count in",
            ),
            (&none, "0.5", "amount \"0.5\" is not a whole number, and this unit has no decimals: write 1, or"),
            (&usd, "0.1234567", "amount \"0.1234567\" has more decimals than usd, which has 6"),
            (&usd, "25eur", "amount \"25eur\" names the unit \"eur\", but the budget counts usd: write 25usd"),
            (&usd, "€25", "amount \"€25\" names the unit \"€\", but the budget counts usd: write 25usd"),
            (&none, "25usd", "amount \"25usd\" names the unit \"usd\", but the budget has no unit: write 25"),
            (&usd, "10,50", "amount \"10,50\" has a comma that does not separate thousands: write 10.50"),
            (&usd, ".5", "amount \".5\" has no digit before the point: write 0.5"),
            (&usd, "bash.50", "amount \"bash.50\" is not an amount: write a number such as 25"),
            (&usd, "5.", "amount \"5.\" is not an amount"),
            (&usd, "1.2.3", "amount \"1.2.3\" is not an amount"),
            (&usd, "", "amount \"\" is not an amount: write a number such as 25"),
            (&usd, "abc", "amount \"abc\" is not an amount"),
            (&tokens, "2m", "amount \"2m\" ends with an unknown letter: write k for thousand, M for million"),
            (&none, "9223372036854775808", "amount \"9223372036854775808\" is too large: the largest amount is 9,223"),
            (&usd, "10000G", "amount \"10000G\" is too large: the largest amount is $9,223,372,036,854.775807"),
            (&none, "9999999999999999999999999", "amount \"9999999999999999999999999\" is too large"),
        ] {
            let error = unit.parse(text).unwrap_err().to_string();
            assert!(error.starts_with(problem), "{text:?}: {error}");
        }
    }

    #[test]
    fn the_unit_that_was_written_is_found() {
        for (text, name) in [
            ("25usd", Some("usd")),
            ("1.5kusd", Some("usd")),
            ("25 tokens", Some("tokens")),
            ("5kwh", Some("kwh")),
            ("$25", Some("usd")),
            ("€1.5k", Some("eur")),
            ("CHF25", None),
            ("1.5k", None),
            ("25", None),
        ] {
            assert_eq!(text.parse::<Amount>().unwrap().unit_name(), name, "{text:?}");
        }
    }
}
