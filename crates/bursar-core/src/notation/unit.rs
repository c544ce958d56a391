//! Units: the name, symbol and decimals of what a budget counts.

use serde::{Deserialize, Serialize};

use crate::bounds::{NAME_BYTES_MAX, SYMBOL_BYTES_MAX, UNIT_DECIMALS_MAX};
use crate::name::check_visible;
use crate::refusal::Invalid;

/// What a budget counts. Amounts are whole numbers of its smallest part: with 6 decimals, `$25.00` is 25000000.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unit {
    /// Its name, such as `usd` or `tokens`; may be empty.
    pub name: String,
    /// What is written before an amount instead of the name after it, such as `$`.
    pub symbol: Option<String>,
    /// The digits after the decimal point.
    pub decimals: u8,
}

/// Units that need no definition: name, symbol, decimals.
const BUILT_IN: [(&str, &str, u8); 3] = [("usd", "$", 6), ("eur", "€", 6), ("gbp", "£", 6)];

impl Unit {
    /// Returns the unit of this name: a built-in one, or one without symbol and decimals.
    pub fn named(name: &str) -> Unit {
        let known = BUILT_IN.iter().find(|known| known.0.eq_ignore_ascii_case(name));
        Unit {
            name: name.to_owned(),
            symbol: known.map(|known| known.1.to_owned()),
            decimals: known.map_or(0, |known| known.2),
        }
    }

    /// Returns whether the name is that of a built-in unit.
    pub fn is_built_in(name: &str) -> bool {
        BUILT_IN.iter().any(|known| known.0.eq_ignore_ascii_case(name))
    }

    /// Returns the name of the built-in unit with this symbol.
    pub(super) fn name_of_symbol(symbol: &str) -> Option<&'static str> {
        BUILT_IN.iter().find(|known| known.1 == symbol).map(|known| known.0)
    }

    /// Returns the unit of this name, with a symbol and decimals that replace its defaults.
    pub fn of(name: &str, symbol: Option<&str>, decimals: Option<u8>) -> Unit {
        let unit = Unit::named(name);
        Unit {
            symbol: symbol.map(str::to_owned).or(unit.symbol),
            decimals: decimals.unwrap_or(unit.decimals),
            name: unit.name,
        }
    }

    /// Refuses a name that is too long or not visible, a symbol that could be read as part of a number, and too many
    /// decimals.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.name.len() > NAME_BYTES_MAX {
            return Err(Invalid::new("unit", format!("is longer than {NAME_BYTES_MAX} bytes")));
        }
        if self.name.chars().any(char::is_control) {
            return Err(Invalid::new("unit", "must not contain control characters"));
        }
        check_visible("unit", &self.name)?;
        if let Some(symbol) = &self.symbol {
            check_symbol(symbol)?;
        }
        if self.decimals > UNIT_DECIMALS_MAX {
            return Err(Invalid::new("unit_decimals", format!("must be from 0 to {UNIT_DECIMALS_MAX}")));
        }
        Ok(())
    }

    /// Writes an amount of smallest parts as people read it: `$25.00`, `1,250,000 tokens`, `1,250`.
    ///
    /// A unit with decimals shows at least two of them (or all, if it has fewer), and no zeros at the end beyond that.
    pub fn format(&self, amount: i64) -> String {
        let number = self.format_number(amount.unsigned_abs());
        let sign = if amount < 0 { "-" } else { "" };
        match &self.symbol {
            Some(symbol) => format!("{sign}{symbol}{number}"),
            None if self.name.is_empty() => format!("{sign}{number}"),
            None => format!("{sign}{number} {}", self.name),
        }
    }

    /// Writes an amount so that it can be typed in a shell as it stands: `25.00usd`, `1250000tokens`, `1250`.
    pub fn format_typed(&self, amount: i64) -> String {
        let number = self.format_number(amount.unsigned_abs()).replace(',', "");
        let sign = if amount < 0 { "-" } else { "" };
        let plain = self.name.chars().all(|sign| sign.is_ascii_alphabetic());
        format!("{sign}{number}{}", if plain { &self.name } else { "" })
    }

    fn format_number(&self, amount: u64) -> String {
        let decimals = usize::from(self.decimals.min(UNIT_DECIMALS_MAX));
        let digits = format!("{amount:0>width$}", width = decimals + 1);
        let (whole, fraction) = digits.split_at(digits.len() - decimals);
        let mut text = String::new();
        for (place, digit) in whole.chars().enumerate() {
            if place > 0 && (whole.len() - place).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        let shown = fraction.trim_end_matches('0').len().max(decimals.min(2));
        if shown > 0 {
            text.push('.');
            text.push_str(&fraction[..shown]);
        }
        text
    }
}

fn check_symbol(symbol: &str) -> Result<(), Invalid> {
    if symbol.is_empty() || symbol.len() > SYMBOL_BYTES_MAX {
        return Err(Invalid::new("unit_symbol", format!("must have from 1 to {SYMBOL_BYTES_MAX} bytes, such as $")));
    }
    let part_of_number =
        |sign: char| sign.is_numeric() || sign.is_control() || sign.is_whitespace() || ".,_-:=".contains(sign);
    if symbol.contains(part_of_number) {
        return Err(Invalid::new("unit_symbol", "must not contain digits, spaces or any of . , _ - : ="));
    }
    check_visible("unit_symbol", symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_in_their_unit() {
        let tokens = Unit::named("tokens");
        let points = Unit::of("points", None, Some(1));
        for (unit, amount, text) in [
            (Unit::named("usd"), 25_000_000, "$25.00"),
            (Unit::named("usd"), 1_500_001, "$1.500001"),
            (Unit::named("usd"), 1_234_567_890_000, "$1,234,567.89"),
            (Unit::named("usd"), 5, "$0.000005"),
            (Unit::named("usd"), -400_000_000, "-$400.00"),
            (Unit::named("EUR"), 1_000_000, "€1.00"),
            (Unit::of("usd", None, Some(2)), 2_599, "$25.99"),
            (tokens.clone(), 1_250_000, "1,250,000 tokens"),
            (tokens, 0, "0 tokens"),
            (Unit::default(), 1_250, "1,250"),
            (Unit::default(), i64::MIN, "-9,223,372,036,854,775,808"),
            (points, 105, "10.5 points"),
        ] {
            assert_eq!(unit.format(amount), text);
        }
        assert_eq!(Unit::named("usd").format_typed(25_000_000), "25.00usd");
        assert_eq!(Unit::named("a token").format_typed(1_250), "1250");
    }

    #[test]
    fn a_unit_has_a_visible_name_and_a_symbol_apart_from_numbers() {
        let unit = |name: &str, symbol: Option<&str>, decimals| Unit::of(name, symbol, decimals).check();
        assert_eq!(unit("", None, None), Ok(()));
        assert_eq!(unit("chf", Some("CHF"), Some(2)), Ok(()));
        for (bad, field) in [
            (unit("a\nb", None, None), "unit"),
            (unit(&"u".repeat(256), None, None), "unit"),
            (unit("x", Some(""), None), "unit_symbol"),
            (unit("x", Some("1"), None), "unit_symbol"),
            (unit("x", Some("-"), None), "unit_symbol"),
            (unit("x", Some("\u{200b}"), None), "unit_symbol"),
            (unit("x", Some("seventeen-bytes!!"), None), "unit_symbol"),
            (unit("x", None, Some(13)), "unit_decimals"),
        ] {
            assert_eq!(bad.unwrap_err().field, field);
        }
    }
}
