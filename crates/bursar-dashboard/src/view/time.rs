//! Times: relative to now, with the exact one on hover.

use bursar_core::notation::{about, relative as words};
use bursar_core::time::{Span, Time};
use maud::{Markup, html};

/// Shows a time of an answer relative to now; a dash if there is none.
pub(crate) fn relative(at: Option<&str>, now: Time) -> Markup {
    let Some(text) = at else { return html! { span.quiet.none { "–" } } };
    match text.parse::<Time>() {
        Ok(time) => html! { time datetime=(text) title=(exact(text)) { (words(time, now)) } },
        Err(_) => html! { (text) },
    }
}

/// Shows the time of day of an answer, with the date on hover.
pub(crate) fn clock(at: Option<&str>) -> Markup {
    let Some(text) = at else { return html! {} };
    let shown = exact(text);
    let time = shown.split(' ').nth(1).unwrap_or_default().to_owned();
    html! { time datetime=(text) title=(shown) { (time) } }
}

/// Returns a time as people write it, to the second.
pub(crate) fn exact(text: &str) -> String {
    let (day, rest) = text.split_once('T').unwrap_or((text, ""));
    let time = rest.split(['.', 'Z', '+']).next().unwrap_or_default();
    format!("{day} {time} UTC")
}

/// Returns how long ago a time of an answer was.
pub(crate) fn since(at: Option<&str>, now: Time) -> Option<Span> {
    let at: Time = at?.parse().ok()?;
    Some(now.since(at))
}

/// Returns the time between two times of answers in words.
pub(crate) fn between(from: Option<&str>, to: Option<&str>) -> Option<String> {
    let (from, to): (Time, Time) = (from?.parse().ok()?, to?.parse().ok()?);
    Some(about(to.since(from)))
}

/// Writes a number of milliseconds in words.
pub(crate) fn millis(millis: i64) -> String {
    about(Span::from_millis(u64::try_from(millis).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_to_the_second() {
        assert_eq!(exact("2026-11-17T14:02:11.123456Z"), "2026-11-17 14:02:11 UTC");
        assert_eq!(exact("2026-11-17T14:02:11Z"), "2026-11-17 14:02:11 UTC");
        let shown = clock(Some("2026-11-17T14:02:11Z")).into_string();
        assert!(shown.contains(">14:02:11<"), "{shown}");
        assert_eq!(between(Some("2026-11-17T14:02:11Z"), Some("2026-11-17T14:02:42Z")).as_deref(), Some("31 s"));
    }
}
