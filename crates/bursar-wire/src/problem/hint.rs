//! Hints: what a caller can do about a problem, in its very case.
//!
//! The command line and HTTP answers give the same hint, each in its own words: a command, or a request.

use std::fmt::Write;

use bursar_core::notation::about;
use bursar_core::time::Span;

use super::{Kind, Problem, ViolationAnswer};

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
            Kind::UnknownScope => unknown_scope(self.http.as_ref().and_then(|http| http.scope.as_deref()), voice),
            Kind::QuotaExceeded => voice.say(
                "nothing was changed; wait for the quota to reset (`Retry-After` is an estimate), or have an operator raise it with POST /v1/meter/quota/limit",
                "nothing was changed; wait for the quota to reset, or raise it with `bursar meter limit`",
            ),
            Kind::NotFound => voice.say(
                "check the id or name, and the tenant: an operator names one with the header Bursar-Tenant",
                "check the id or name, and --tenant",
            ),
            Kind::AlreadySettled => voice.say(
                "nothing was changed; GET /v1/holds/{id} shows how the hold was settled",
                "nothing was changed; `bursar hold show` shows how the hold was settled",
            ),
            Kind::LeaseLost => voice.say(
                "stop working on the job; GET /v1/jobs/{id} shows its state",
                "stop working on the job; `bursar job show` shows its state",
            ),
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
        if let Some(hint) = self.hint(Voice::Http) {
            self.http.get_or_insert_default().hint = Some(hint);
        }
        self
    }
}

fn unknown_scope(scope: Option<&str>, voice: Voice) -> String {
    let path = scope.map_or("{scope}".to_owned(), in_path);
    let word = scope.map_or("SCOPE".to_owned(), shell_quoted);
    voice.say(
        format!("nothing was changed; define a budget with PUT /v1/budgets/{path}, or give limits with the charge"),
        format!("nothing was changed; create a budget with `bursar budget define {word} --limit AMOUNT:WINDOW`"),
    )
}

/// A limit that has too little left.
struct Shortage<'a> {
    scope: &'a str,
    wait: Option<i64>,
}

impl Shortage<'_> {
    /// Returns how long it lasts; without an estimate, for ever.
    fn lasts(&self) -> i64 {
        self.wait.unwrap_or(i64::MAX)
    }
}

/// Returns what to do about a refusal by a limit, a freeze or a grant.
fn refused(violations: &[ViolationAnswer], voice: Voice) -> Option<String> {
    // What all limits leave.
    let mut fits = i64::MAX;
    let mut limit: Option<Shortage<'_>> = None;
    for violation in violations {
        match violation {
            ViolationAnswer::Frozen { scope } => return Some(frozen(scope, voice)),
            ViolationAnswer::Grant { .. } => return Some(grant(voice)),
            // The limit that keeps the request out the longest decides what helps.
            ViolationAnswer::Limit { scope, available, retry_after_ms, .. } => {
                fits = fits.min(*available);
                let seen = Shortage { scope, wait: *retry_after_ms };
                if limit.as_ref().is_none_or(|longest| longest.lasts() < seen.lasts()) {
                    limit = Some(seen);
                }
            }
        }
    }
    let Shortage { scope, wait } = limit?;
    let mut text = String::from("nothing was changed; ");
    if fits > 0 {
        // The command line has shown what is left, in the unit of the budget.
        text.push_str(&voice.say(format!("request at most {fits}, "), "request less, "));
    }
    if let Some(wait) = wait {
        let _ = write!(text, "wait about {} (an estimate), ", about(Span::from_millis(wait.max(0).unsigned_abs())));
    }
    text.push_str(if text.ends_with("; ") { "raise the limit with " } else { "or raise the limit with " });
    let (path, word) = (in_path(scope), shell_quoted(scope));
    text.push_str(&voice.say(
        format!("PUT /v1/budgets/{path}, which replaces the whole budget"),
        format!("`bursar budget define {word}`, which replaces all of its limits"),
    ));
    Some(text)
}

fn frozen(scope: &str, voice: Voice) -> String {
    let (path, word) = (in_path(scope), shell_quoted(scope));
    voice.say(
        format!(
            "nothing was changed; GET /v1/budgets/{path} shows why, POST /v1/budgets/{path}/unfreeze lifts the freeze"
        ),
        format!(
            "nothing was changed; `bursar budget show {word}` shows why, `bursar budget unfreeze {word}` lifts the freeze"
        ),
    )
}

fn grant(voice: Voice) -> String {
    let rule = "nothing was changed; a token works once, before it expires, for its own purpose and subject: mint a new one with ";
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
    use bursar_core::name::Scope;
    use bursar_core::refusal::{Refusal, Violation};
    use bursar_core::window::Window;

    use super::*;

    fn limit(available: i64, retry_after: Option<Span>) -> Violation {
        let scope = Scope::new("team 1").unwrap();
        let possible = retry_after.is_some();
        Violation::Limit { scope, window: Window::Lifetime, limit: 10, requested: 7, available, retry_after, possible }
    }

    #[test]
    fn a_hint_names_what_helps_in_this_case() {
        let scope = Scope::new("team 1").unwrap();
        let refused = |violations| Problem::from(Refusal::Refused(violations));
        let day = Some(Span::from_days(2));
        for (problem, http, command) in [
            (
                refused(vec![limit(3, day)]),
                "nothing was changed; request at most 3, wait about 2 days (an estimate), or raise the limit with PUT /v1/budgets/team%201, which replaces the whole budget",
                "nothing was changed; request less, wait about 2 days (an estimate), or raise the limit with `bursar budget define 'team 1'`, which replaces all of its limits",
            ),
            (
                refused(vec![limit(0, None), limit(3, day)]),
                "nothing was changed; raise the limit with PUT /v1/budgets/team%201, which replaces the whole budget",
                "nothing was changed; raise the limit with `bursar budget define 'team 1'`, which replaces all of its limits",
            ),
            (
                refused(vec![limit(0, day), Violation::Frozen { scope: scope.clone() }]),
                "nothing was changed; GET /v1/budgets/team%201 shows why, POST /v1/budgets/team%201/unfreeze lifts the freeze",
                "nothing was changed; `bursar budget show 'team 1'` shows why, `bursar budget unfreeze 'team 1'` lifts the freeze",
            ),
            (
                Problem::unknown_scope(&scope),
                "nothing was changed; define a budget with PUT /v1/budgets/team%201, or give limits with the charge",
                "nothing was changed; create a budget with `bursar budget define 'team 1' --limit AMOUNT:WINDOW`",
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
