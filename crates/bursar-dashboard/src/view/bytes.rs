//! Numbers of bytes.

use bursar_core::notation::Unit;
use maud::{Markup, html};

/// Writes a number of bytes with a binary prefix.
pub(crate) fn brief(bytes: u64) -> String {
    const PREFIXES: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1 << 10 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10) as usize;
    let whole = 1_u64 << (10 * power);
    let (units, tenths) = (bytes / whole, (bytes % whole) * 10 / whole);
    match PREFIXES.get(power - 1) {
        Some(prefix) if units < 100 => format!("{units}.{tenths} {prefix}"),
        Some(prefix) => format!("{units} {prefix}"),
        None => format!("{bytes} B"),
    }
}

/// Shows a number of bytes, with the exact one on hover.
pub(crate) fn size(bytes: Option<u64>) -> Markup {
    match bytes {
        Some(bytes) => {
            let exact = Unit::default().format(i64::try_from(bytes).unwrap_or(i64::MAX));
            html! { span title={ (exact) " bytes" } { (brief(bytes)) } }
        }
        None => html! { span.muted { "not known yet" } },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_binary_prefixes() {
        let sizes = [0, 1_023, 1_024, 1_536, 228_906, 99 << 20, 1 << 30, 5 << 40, u64::MAX];
        let shown = sizes.map(brief);
        let expected = [
            "0 B",
            "1023 B",
            "1.0 KiB",
            "1.5 KiB",
            "223 KiB",
            "99.0 MiB",
            "1.0 GiB",
            "5.0 TiB",
            "18446744073709551615 B",
        ];
        assert_eq!(shown, expected);
    }
}
