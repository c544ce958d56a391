//! Tables, ids, pages of lists and empty states.

use maud::{Markup, html};

use crate::visit::{Visit, encoded, query_value};

/// Shows an id that leads to its page and can be copied.
pub(crate) fn id(href: &str, id: &str) -> Markup {
    html! { span.id { a href=(href) title=(id) { (short(id)) } (copy(id)) } }
}

/// Shows an id without a page.
pub(crate) fn plain_id(id: &str) -> Markup {
    html! { span.id { span title=(id) { (short(id)) } (copy(id)) } }
}

/// Shows a button that copies a text.
pub(crate) fn copy(text: &str) -> Markup {
    html! { button.copy type="button" data-copy=(text) aria-label={ "Copy " (text) } title="Copy" {} }
}

/// Shortens an id: ids that were made at the same time differ at their ends.
fn short(id: &str) -> String {
    let count = id.chars().count();
    if count <= 20 {
        return id.to_owned();
    }
    let first: String = id.chars().take(10).collect();
    let last: String = id.chars().skip(count - 6).collect();
    format!("{first}…{last}")
}

/// Shows the link to the next page of a list, and to the first one.
pub(crate) fn pager(visit: &Visit, shown: usize, noun: &str, next: Option<&str>) -> Markup {
    let later = query_value(&visit.uri, "cursor").is_some();
    html! {
        @if later || next.is_some() {
            nav.pager aria-label="Pages" {
                span { (shown) " " (noun) }
                div.acts {
                    @if later { a.btn.is-small href=(with_query(visit, "cursor", None)) { "First page" } }
                    @if let Some(next) = next {
                        a.btn.is-small rel="next" href=(with_query(visit, "cursor", Some(next))) { "Next page" }
                    }
                }
            }
        }
    }
}

/// Returns the URL of this page with another value in its query.
pub(crate) fn with_query(visit: &Visit, name: &str, value: Option<&str>) -> String {
    let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&visit.uri);
    let kept = pairs.map(|pairs| pairs.0).unwrap_or_default().into_iter().filter(|(key, _)| key != name);
    let mut pairs: Vec<String> = kept.map(|(key, value)| format!("{}={}", encoded(&key), encoded(&value))).collect();
    pairs.extend(value.map(|value| format!("{name}={}", encoded(value))));
    let query = if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) };
    format!("{}{query}", visit.uri.path())
}

/// Shows that there is nothing, and a command that changes that.
pub(crate) fn empty(title: &str, text: &str, command: Option<&str>) -> Markup {
    html! {
        div.empty {
            h2 { (title) }
            p { (text) }
            @if let Some(command) = command { div.cmd { code { (command) } (copy(command)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ids_keep_their_ends() {
        assert_eq!(short("job_01k9zq3v4w5x6y7z8abcdefghj"), "job_01k9zq…defghj");
        assert_eq!(short("short"), "short");
    }
}
