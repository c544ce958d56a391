//! JSON, indented and with classes for its parts.

use bursar_core::payload::Payload;
use maud::{Markup, html};
use serde_json::Value;

/// The longest text that is shown; the rest is cut off.
const SHOWN_MAX: usize = 64 * 1024;

/// Shows a payload.
pub(crate) fn payload(payload: &Payload) -> Markup {
    match serde_json::from_str(payload.as_str()) {
        Ok(value) => value_block(&value),
        Err(_) => html! { pre.json { (payload.as_str()) } },
    }
}

/// Shows a JSON value.
pub(crate) fn value_block(value: &Value) -> Markup {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let end = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= SHOWN_MAX).last().unwrap_or_default();
    let (shown, cut) = if text.len() > SHOWN_MAX { (&text[..end], true) } else { (text.as_str(), false) };
    html! {
        pre.json tabindex="0" { @for token in tokens(shown) { (token) } }
        @if cut { p.muted { "Shortened: the whole is in the API." } }
    }
}

/// Splits JSON text into keys, strings, other values and the rest.
fn tokens(text: &str) -> Vec<Markup> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (end, class) = match c {
            '"' => {
                let end = string_end(rest);
                (end, if rest[end..].starts_with(':') { "k" } else { "s" })
            }
            '-' | '0'..='9' => (end_of(rest, |c| c.is_ascii_digit() || "+-.eE".contains(c)), "n"),
            'a'..='z' => (end_of(rest, |c| c.is_ascii_lowercase()), "b"),
            _ => (end_of(rest, |c| !(c == '"' || c == '-' || c.is_ascii_alphanumeric())), ""),
        };
        let (token, after) = rest.split_at(end.max(c.len_utf8()));
        found.push(match class {
            "" => html! { (token) },
            class => html! { span class=(class) { (token) } },
        });
        rest = after;
    }
    found
}

fn end_of(text: &str, part: impl Fn(char) -> bool) -> usize {
    text.find(|c| !part(c)).unwrap_or(text.len())
}

fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_marked_and_escaped() {
        let value = serde_json::json!({ "a\"<b>": ["x\\", -1.5e3, true, null] });
        let html = value_block(&value).into_string();
        let marked = [
            "<span class=\"k\">&quot;a\\&quot;&lt;b&gt;&quot;</span>",
            "<span class=\"s\">&quot;x\\\\&quot;</span>",
            "<span class=\"n\">-1500.0</span>",
            "<span class=\"b\">true</span>",
            "<span class=\"b\">null</span>",
        ];
        for part in marked {
            assert!(html.contains(part), "{part} in {html}");
        }
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        let value = Value::String("é".repeat(SHOWN_MAX));
        assert!(value_block(&value).into_string().contains("Shortened"));
    }
}
