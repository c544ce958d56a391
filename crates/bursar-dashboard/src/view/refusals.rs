//! Refusals: how often limits have held since the server started.

use bursar_core::time::{Span, Time};
use bursar_wire::activity::RefusalsAnswer;
use bursar_wire::budget::BalanceAnswer;
use maud::{Markup, html};

use crate::view::{amount, time};

/// How long a refusal needs attention.
const RECENT: Span = Span::from_secs(3_600);

/// Returns the refusals of the limit of a balance.
pub(crate) fn of_limit<'a>(refusals: &'a [RefusalsAnswer], balance: &BalanceAnswer) -> Option<&'a RefusalsAnswer> {
    let window = balance.window.shown(balance.limit);
    refusals.iter().find(|refusals| refusals.window.as_ref() == Some(&window))
}

/// Returns the limit that has refused most often. A charge that several limits refuse counts at each of them, so that counts are not
/// added up.
pub(crate) fn most(refusals: &[RefusalsAnswer]) -> Option<&RefusalsAnswer> {
    refusals.iter().max_by_key(|refusals| (refusals.count, &refusals.last_at))
}

/// Returns whether the last refusal was lately.
pub(crate) fn is_recent(refusals: &RefusalsAnswer, now: Time) -> bool {
    time::since(refusals.last_at.as_deref(), now).is_some_and(|age| age <= RECENT)
}

/// Writes how often something was refused: `once`, `37 times`.
pub(crate) fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{} times", amount::count(i64::try_from(count).unwrap_or(i64::MAX))),
    }
}

/// Shows how often a limit has refused, and when it did last.
pub(crate) fn sentence(refusals: &RefusalsAnswer, now: Time) -> Markup {
    html! { "refused " (times(refusals.count)) ", last " (time::relative(refusals.last_at.as_deref(), now)) }
}

/// Shows the refusals of one limit in a table cell.
pub(crate) fn cell(refusals: Option<&RefusalsAnswer>, now: Time) -> Markup {
    match refusals {
        Some(refusals) => html! {
            td.num data-label="refused" title=(format!("refused {} since this server started", times(refusals.count))) {
                strong { (amount::count(i64::try_from(refusals.count).unwrap_or(i64::MAX))) }
                " " span.quiet { (time::relative(refusals.last_at.as_deref(), now)) }
            }
        },
        None => html! { td.num.zero.hide-sm { "0" } },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusals(window: Option<&str>, count: u64, minutes_ago: i64) -> RefusalsAnswer {
        let at = Time::from_micros(10_000_000_000 - minutes_ago * 60_000_000);
        let (scope, last_at) = ("a".try_into().expect("a scope"), Some(at.to_string()));
        RefusalsAnswer { scope, window: window.map(str::to_owned), count, last_at }
    }

    #[test]
    fn refusals_are_said_in_words() {
        let now = Time::from_micros(10_000_000_000);
        let shown = sentence(&refusals(Some("day@UTC"), 37, 2), now).into_string();
        assert!(shown.starts_with("refused 37 times, last <time") && shown.contains(">2 min ago<"), "{shown}");
        assert_eq!(times(1), "once");
        assert!(is_recent(&refusals(None, 1, 59), now) && !is_recent(&refusals(None, 1, 61), now));
    }

    #[test]
    fn the_limit_that_refused_most_often_is_named() {
        let all = [refusals(Some("day@UTC"), 3, 1), refusals(Some("lifetime"), 9, 5), refusals(None, 9, 2)];
        assert_eq!(most(&all).and_then(|most| most.window.as_deref()), None, "the later one of those that are equal");
        assert_eq!(most(&[]), None);
    }
}
