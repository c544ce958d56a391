//! Hints: what a caller can do about a problem, in its very case.
//!
//! The command line and HTTP answers give the same hint, each in its own words: a command, or a request.

use std::fmt::Write;

use bursar_core::notation::about;
use bursar_core::time::Span;

use super::{Kind, NO_BUDGET, Problem, ViolationAnswer};

/// Who reads a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// A program that uses the HTTP API, and its author.
    Http,
    /// A person at a terminal.
    CommandLine,
}

impl Voice {
    /// Chooses between the words for HTTP and those for the command line.
    fn say(self, http: impl Into<String>, command_line: impl Into<String>) -> String {
        match self {
            Voice::Http => http.into(),
            Voice::CommandLine => command_line.into(),
        }
    }
}

impl Problem {
    /// Returns what the reader can do about the problem; `None` if the detail says it already, or nothing helps.
    pub fn hint(&self, voice: Voice) -> Option<String> {
        // Such a detail names the command or the name that helps.
        if self.detail.contains("`bursar ") || self.detail.contains("did you mean ") {
            return None;
        }
        let hint = match self.kind {
            Kind::Refused => return refused(&self.violations, voice),
            Kind::UnknownScope => self.unknown_scope_hint(voice),
            Kind::QuotaExceeded => voice.say(
                "nothing was changed; wait for the quota to reset (`Retry-After` is an estimate), or have an operator raise it with POST /v1/meter/quota/limit",
                "nothing was changed; wait for the quota to reset, or raise it with `bursar meter limit`",
            ),
            Kind::NotFound => voice.say(
                "check the id or name, and the tenant: an operator names one with the header Bursar-Tenant",
                "check the id or name, and --tenant",
            ),
            Kind::AlreadySettled => voice.say(
                format!("nothing was changed; GET /v1/holds/{} shows how the hold was settled", self.id_or("{id}")),
                format!("nothing was changed; `bursar hold show {}` shows how the hold was settled", self.id_or("ID")),
            ),
            Kind::LeaseLost => voice.say(
                format!("stop working on the job; GET /v1/jobs/{} shows its state", self.id_or("{id}")),
                format!("stop working on the job; `bursar job show {}` shows its state", self.id_or("ID")),
            ),
            Kind::Forbidden => voice.say("nothing was changed; GET /v1/whoami lists the actions that this token allows", ""),
            Kind::Changed => voice.say(
                "nothing was changed; get the object again, and repeat the change with its new ETag",
                "nothing was changed; run the command again",
            ),
            Kind::Busy => voice.say(
                "nothing was changed; retry after Retry-After with the same Idempotency-Key",
                "nothing was changed; if it stays busy, look for another process that uses the database",
            ),
            Kind::Overloaded => voice.say(
                "nothing was changed; retry after Retry-After, and send fewer requests at the same time",
                "nothing was changed; send fewer requests at the same time",
            ),
            Kind::UnknownOutcome => voice.say(
                "repeat the request with the same Idempotency-Key; without a key, check first whether it took effect",
                "repeat the command with the same --key; without a key, check first whether it took effect",
            ),
            Kind::Unauthorized => voice.say(
                "send the header Authorization: Bearer TOKEN with a token that is neither expired nor revoked",
                "set BURSAR_TOKEN or BURSAR_TOKEN_FILE, or pass --token; the first start of a server printed the operator's token",
            ),
            Kind::UnsupportedMediaType => voice.say("send the header Content-Type: application/json", ""),
            Kind::MethodNotAllowed => voice.say("the header Allow lists the methods of this path", ""),
            Kind::TooManyAttempts => voice.say("wait as long as Retry-After says; valid tokens are still accepted", ""),
            _ => return None,
        };
        Some(hint).filter(|hint| !hint.is_empty())
    }

    /// Sets the hint for callers over HTTP.
    pub fn with_http_hint(mut self) -> Problem {
        if self.parts().hint.is_none() {
            self.parts().hint = self.hint(Voice::Http);
        }
        self
    }

    /// Returns the id of the hold or job that the problem is about.
    fn id_or<'a>(&'a self, placeholder: &'a str) -> &'a str {
        self.http.as_ref().and_then(|http| http.id.as_deref()).unwrap_or(placeholder)
    }

    fn unknown_scope_hint(&self, voice: Voice) -> String {
        let scope = self.http.as_ref().and_then(|http| http.scope.as_deref());
        let path = scope.map_or("{scope}".to_owned(), in_path);
        let word = scope.map_or("SCOPE".to_owned(), shell_quoted);
        if self.detail.starts_with(NO_BUDGET) {
            return voice.say(
                format!("GET /v1/budgets lists the budgets of the tenant; PUT /v1/budgets/{path} defines this one"),
                format!("`bursar budget list` lists the budgets; `bursar budget define {word} --limit AMOUNT:WINDOW` creates this one"),
            );
        }
        voice.say(
            format!("nothing was changed; define a budget with PUT /v1/budgets/{path}, or give limits with the charge"),
            format!("nothing was changed; create a budget with `bursar budget define {word} --limit AMOUNT:WINDOW`"),
        )
    }
}

/// Returns what to do about a refusal by limits, freezes and grants: about each of them.
fn refused(violations: &[ViolationAnswer], voice: Voice) -> Option<String> {
    let mut remedies: Vec<String> = shortages(violations, voice).into_iter().collect();
    for violation in violations {
        match violation {
            ViolationAnswer::Frozen { scope } => remedies.push(frozen(scope, voice)),
            ViolationAnswer::Grant { .. } => remedies.push(grant(voice)),
            ViolationAnswer::Limit { .. } => {}
        }
    }
    remedies.dedup();
    (!remedies.is_empty()).then(|| format!("nothing was changed; {}", remedies.join("; ")))
}

/// Returns what to do about the limits that have too little left; `None` if there are none.
fn shortages(violations: &[ViolationAnswer], voice: Voice) -> Option<String> {
    // What all limits leave, and until when the last of them refuses; without an estimate, for ever.
    let (mut fits, mut wait) = (i64::MAX, Some(0));
    let mut limits: Vec<String> = Vec::new();
    let mut changes: Vec<String> = Vec::new();
    for violation in violations {
        let ViolationAnswer::Limit { scope, window, limit, available, retry_after_ms, .. } = violation else {
            continue;
        };
        fits = fits.min(*available);
        wait = wait.zip(*retry_after_ms).map(|(wait, other): (i64, i64)| wait.max(other));
        limits.push(format!("that of {scope} over {}", window.shown(Some(*limit))));
        let change = voice.say(
            format!("PUT /v1/budgets/{}", in_path(scope)),
            format!("`bursar budget define {}`", shell_quoted(scope)),
        );
        if !changes.contains(&change) {
            changes.push(change);
        }
    }
    let replaces = voice.say("which replaces the whole budget", "which replaces all of its limits");
    let raise = match (limits.as_slice(), changes.as_slice()) {
        ([], _) => return None,
        ([_], _) => format!("raise the limit with {}, {replaces}", list(&changes)),
        (_, [change]) => format!("raise each limit, {}, with {change}, {replaces}", list(&limits)),
        _ => format!("raise each limit, {}, with {}, each of {replaces}", list(&limits), list(&changes)),
    };
    let mut text = String::new();
    if fits > 0 {
        // The command line has shown what is left, in the unit of the budget.
        text.push_str(&voice.say(format!("request at most {fits}, "), "request less, "));
    }
    if let Some(wait) = wait {
        let _ = write!(text, "wait about {} (an estimate), ", about(Span::from_millis(wait.max(0).unsigned_abs())));
    }
    let or = if text.is_empty() { "" } else { "or " };
    Some(format!("{text}{or}{raise}"))
}

/// Writes a list: `a, b and c`.
fn list(items: &[String]) -> String {
    match items {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => items.concat(),
    }
}

fn frozen(scope: &str, voice: Voice) -> String {
    let (path, word) = (in_path(scope), shell_quoted(scope));
    voice.say(
        format!("GET /v1/budgets/{path} shows why it is frozen, POST /v1/budgets/{path}/unfreeze lifts the freeze"),
        format!("`bursar budget show {word}` shows why it is frozen, `bursar budget unfreeze {word}` lifts the freeze"),
    )
}

fn grant(voice: Voice) -> String {
    let rule = "a token works once, before it expires, for its own purpose and subject: mint a new one with ";
    format!("{rule}{}", voice.say("POST /v1/grants", "`bursar grant mint`"))
}

/// Quotes a word for a shell if it needs quotes.
pub fn shell_quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-:./@=,+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Writes a name as one segment of a path.
fn in_path(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~:@".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use bursar_core::hold::HoldState;
    use bursar_core::id::HoldId;
    use bursar_core::name::Scope;
    use bursar_core::notation::Unit;
    use bursar_core::refusal::{Refusal, Violation};
    use bursar_core::window::Window;

    use super::*;

    fn limit(available: i64, retry_after: Option<Span>) -> Violation {
        let scope = Scope::new("team 1").unwrap();
        let possible = retry_after.is_some();
        let (window, unit) = (Window::Lifetime, Unit::default());
        Violation::Limit { scope, window, limit: 10, requested: 7, available, retry_after, possible, unit }
    }

    #[test]
    fn a_hint_names_what_helps_in_this_case() {
        let scope = Scope::new("team 1").unwrap();
        let refused = |violations| Problem::from(Refusal::Refused(violations));
        let day = Some(Span::from_days(2));
        let mut other = limit(3, day);
        if let Violation::Limit { scope, window, .. } = &mut other {
            *scope = Scope::new("org").unwrap();
            *window = Window::rolling(Span::from_secs(3_600)).unwrap();
        }
        for (problem, http, command) in [
            (
                refused(vec![limit(3, day)]),
                "nothing was changed; request at most 3, wait about 2 days (an estimate), or raise the limit with PUT /v1/budgets/team%201, which replaces the whole budget",
                "nothing was changed; request less, wait about 2 days (an estimate), or raise the limit with `bursar budget define 'team 1'`, which replaces all of its limits",
            ),
            (
                refused(vec![limit(0, None), other]),
                "nothing was changed; raise each limit, that of team 1 over lifetime and that of org over rolling:1h, with PUT /v1/budgets/team%201 and PUT /v1/budgets/org, each of which replaces the whole budget",
                "nothing was changed; raise each limit, that of team 1 over lifetime and that of org over rolling:1h, with `bursar budget define 'team 1'` and `bursar budget define org`, each of which replaces all of its limits",
            ),
            (
                refused(vec![limit(0, day), Violation::Frozen { scope: scope.clone() }]),
                "nothing was changed; wait about 2 days (an estimate), or raise the limit with PUT /v1/budgets/team%201, which replaces the whole budget; GET /v1/budgets/team%201 shows why it is frozen, POST /v1/budgets/team%201/unfreeze lifts the freeze",
                "nothing was changed; wait about 2 days (an estimate), or raise the limit with `bursar budget define 'team 1'`, which replaces all of its limits; `bursar budget show 'team 1'` shows why it is frozen, `bursar budget unfreeze 'team 1'` lifts the freeze",
            ),
            (
                Problem::from(Refusal::UnknownScope { scope: scope.clone() }),
                "nothing was changed; define a budget with PUT /v1/budgets/team%201, or give limits with the charge",
                "nothing was changed; create a budget with `bursar budget define 'team 1' --limit AMOUNT:WINDOW`",
            ),
            (
                Problem::unknown_scope(&scope),
                "GET /v1/budgets lists the budgets of the tenant; PUT /v1/budgets/team%201 defines this one",
                "`bursar budget list` lists the budgets; `bursar budget define 'team 1' --limit AMOUNT:WINDOW` creates this one",
            ),
            (
                Problem::from(Refusal::AlreadySettled { hold: HoldId(7), state: HoldState::Committed }),
                "nothing was changed; GET /v1/holds/hold_00000000000000000000000007 shows how the hold was settled",
                "nothing was changed; `bursar hold show hold_00000000000000000000000007` shows how the hold was settled",
            ),
        ] {
            assert_eq!(problem.hint(Voice::Http).as_deref(), Some(http));
            assert_eq!(problem.hint(Voice::CommandLine).as_deref(), Some(command));
            let sent = serde_json::to_string(&problem.with_http_hint()).unwrap();
            let read: Problem = serde_json::from_str(&sent).unwrap();
            assert_eq!(read.http.as_ref().unwrap().hint.as_deref(), Some(http));
            assert_eq!(read.hint(Voice::CommandLine).as_deref(), Some(command), "after the network: {sent}");
        }
    }

    #[test]
    fn no_hint_repeats_a_command_of_the_detail() {
        let problem = Problem::new(Kind::NotFound, "there is no file; create it with `bursar migrate`");
        assert_eq!(problem.hint(Voice::CommandLine), None);
    }
}
