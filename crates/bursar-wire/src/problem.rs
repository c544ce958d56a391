//! Problems: the answers to requests that failed (RFC 9457, `application/problem+json`).

mod hint;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use bursar_core::failure::{Classify, FailureClass};
use bursar_core::name::Scope;
use bursar_core::notation::about;
use bursar_core::refusal::{Invalid, Refusal, Violation};
use bursar_core::time::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::window::WindowFields;

pub use self::hint::{Voice, shell_quoted};

/// When a caller may retry a transient failure for which no better estimate is known.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a request failed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Problem {
    /// The type, such as `/problems/refused`. Its last segment is stable.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// A short text that describes the type.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// What happened, and what the caller can do.
    pub detail: String,
    /// The field of the request that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The state of the hold or the job that does not allow the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Box<str>>,
    /// Every limit, freeze and grant that refused the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub violations: Vec<ViolationAnswer>,
    /// Fields that only an HTTP answer or few problems have.
    #[serde(flatten)]
    pub http: Option<Box<HttpFields>>,
}

/// The fields of a problem that only an HTTP answer or few problems have.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct HttpFields {
    /// How long to wait before a retry, in milliseconds. It is an estimate: a release can make room sooner, and other requests can take
    /// the room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<i64>,
    /// The scope that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// What the caller can do in this case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The id of the request in the server's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// A problem as it is received. A newer server may send a type that this build does not know.
#[derive(Deserialize)]
struct Received {
    #[serde(rename = "type")]
    kind: String,
    status: u16,
    detail: String,
    field: Option<String>,
    state: Option<String>,
    #[serde(default)]
    violations: Vec<ViolationAnswer>,
    retry_after_ms: Option<i64>,
    scope: Option<String>,
    hint: Option<String>,
    request_id: Option<String>,
}

impl<'de> Deserialize<'de> for Problem {
    fn deserialize<D: serde::Deserializer<'de>>(de: D) -> Result<Problem, D::Error> {
        Received::deserialize(de).map(Received::into_problem)
    }
}

impl Received {
    fn into_problem(self) -> Problem {
        let word = self.kind.rsplit('/').next().unwrap_or_default();
        let kind = Kind::ALL.iter().copied().find(|kind| kind.word() == word);
        let kind = kind.unwrap_or_else(|| Kind::of_status(self.status));
        let Received { retry_after_ms, scope, hint, request_id, .. } = self;
        let http = HttpFields { retry_after_ms, scope, hint, request_id };
        Problem {
            kind,
            title: kind.title(),
            status: self.status,
            detail: self.detail,
            field: self.field,
            state: self.state.map(String::into_boxed_str),
            violations: self.violations,
            http: Some(Box::new(http)),
        }
    }
}

/// Defines the kinds, each with the last segment of its type, its status, its title, what it means and what to do.
macro_rules! kinds {
    ($($kind:ident = $word:literal, $status:literal, $title:literal, $means:literal, $remedy:literal;)*) => {
        /// The kind of a problem.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $(#[doc = $title] $kind,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Kind] = &[$(Kind::$kind),*];

            fn parts(self) -> Parts {
                match self {
                    $(Kind::$kind => {
                        Parts { word: $word, status: $status, title: $title, means: $means, remedy: $remedy }
                    })*
                }
            }
        }
    };
}

struct Parts {
    word: &'static str,
    status: u16,
    title: &'static str,
    means: &'static str,
    remedy: &'static str,
}

kinds! {
    Invalid = "invalid", 400, "Invalid request",
        "the request is wrong; `field` says where",
        "correct it; a retry does not help";
    Unauthorized = "unauthorized", 401, "Unauthorized: the request has no valid token",
        "the request has no valid token; the server's log has the reason",
        "send `Authorization: Bearer TOKEN` with a token that is neither expired nor revoked";
    Forbidden = "forbidden", 403, "Forbidden: the caller lacks the permission",
        "the role, or the worker's capabilities, do not allow it",
        "use a token with another role, or give the worker the capability";
    NotFound = "not-found", 404, "Not found",
        "this tenant has no such object",
        "check the id or name, and the tenant";
    UnknownScope = "unknown-scope", 404, "Unknown scope: it has no budget, and the request names no limit",
        "the scope has no budget and the request gives no limit, or the parent of a budget has no budget; `scope` names it",
        "define a budget for the scope, or give `limits` with the charge";
    MethodNotAllowed = "method-not-allowed", 405, "Method not allowed",
        "the path exists, but not with this method",
        "use one of the methods in the header `Allow`";
    Timeout = "timeout", 408, "Timeout: the request took too long to arrive",
        "the request body took too long",
        "send it again; nothing was changed";
    Refused = "refused", 409, "Refused by a limit, a freeze, a grant or a hold's policy",
        "a limit, a freeze, a grant or a hold's policy refuses the request; `violations` lists every limit, freeze and grant",
        "request less, wait (`Retry-After` is an estimate of when it may fit), raise the limit, unfreeze the scope, or use another grant";
    AlreadySettled = "already-settled", 409, "The hold is already settled",
        "the hold has ended; `state` says how",
        "nothing: it is settled";
    LeaseLost = "lease-lost", 409, "Lease lost: it has expired, or another worker has the job",
        "the lease has expired, or another worker has the job",
        "stop working on the job; nothing else you report has an effect";
    Conflict = "conflict", 409, "Conflict with the current state",
        "the current state does not allow it, or the idempotency key was used for a different request",
        "read the current state and decide again; use a new key for a new request";
    Changed = "changed", 412, "Precondition failed: the resource has changed",
        "the object has changed since it was read (`If-Match`)",
        "read it again, and repeat the change with its new ETag";
    TooLarge = "too-large", 413, "Request too large",
        "the request is too large",
        "split it";
    UnsupportedMediaType = "unsupported-media-type", 415, "Unsupported media type",
        "the body is not JSON, or is compressed",
        "send `Content-Type: application/json` without a content encoding";
    TooManyAttempts = "too-many-attempts", 429, "Too many failed authentication attempts",
        "too many invalid tokens from this address",
        "wait as long as `Retry-After` says; valid tokens are still accepted";
    TooManyBytes = "too-many-bytes", 429, "Too many bytes in flight for this principal",
        "the principal has too many bytes in flight; nothing was changed",
        "wait as long as `Retry-After` says, and send fewer or smaller requests at once";
    QuotaExceeded = "quota-exceeded", 429, "Quota exceeded",
        "the caller's quota has too little left; `violations` has the limit",
        "wait (`Retry-After` is an estimate of when the request may fit), or have the quota raised";
    HeadTooLarge = "head-too-large", 431, "Request headers too large",
        "the request head has more than 64 KiB",
        "send fewer or shorter headers";
    Internal = "internal", 500, "Internal error",
        "a defect; the server's log has it under `request_id`",
        "report it";
    Overloaded = "overloaded", 503, "Overloaded: too many requests are waiting",
        "too many requests are waiting; nothing was changed",
        "retry after `Retry-After`, with fewer requests at the same time";
    Busy = "busy", 503, "Database busy: other transactions hold the locks",
        "other transactions held the locks for too long; nothing was changed",
        "retry after `Retry-After`; if it stays busy, look for another process that uses the database";
    Unavailable = "unavailable", 503, "Database unavailable",
        "the database cannot be used; nothing was changed",
        "retry after `Retry-After`; if it stays so, read the server's log";
    Unusable = "unusable", 503, "Database unusable: it is missing, damaged, read-only or of another version",
        "the command line only: the database is missing, damaged, read-only or of another version; nothing was changed",
        "do what the message says; a retry does not help";
    NotReady = "not-ready", 503, "Server not ready",
        "`/readyz` only: the server does not take requests; `detail` has the reason",
        "wait, or correct the reason";
    UnknownOutcome = "unknown-outcome", 504, "Unknown outcome: the request may have been executed",
        "the connection to the database was lost during the commit, so the request may have taken effect",
        "retry with the same `Idempotency-Key`";
}

/// Returns the table of all problems in Markdown, for `docs/server.md`.
pub fn problem_table() -> String {
    let mut table = String::from("| `type` ends in | status | means | do |\n| --- | --- | --- | --- |\n");
    // A server answers `unavailable` instead of `unusable`.
    for kind in Kind::ALL.iter().filter(|kind| **kind != Kind::Unusable) {
        let Parts { word, status, means, remedy, .. } = kind.parts();
        table.push_str(&format!("| `{word}` | {status} | {means} | {remedy} |\n"));
    }
    table
}

impl Kind {
    /// Returns the last segment of the type, which is stable.
    pub fn word(self) -> &'static str {
        self.parts().word
    }

    /// Returns the title.
    pub fn title(self) -> &'static str {
        self.parts().title
    }

    /// Returns the HTTP status.
    pub fn status(self) -> u16 {
        self.parts().status
    }

    /// Returns what the problem means, as a sentence without a full stop.
    pub fn means(self) -> &'static str {
        self.parts().means
    }

    /// Returns what a caller can do about it, as a sentence without a full stop.
    pub fn remedy(self) -> &'static str {
        self.parts().remedy
    }

    /// Returns whether the same request may succeed later without any other change.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Kind::Overloaded
                | Kind::Busy
                | Kind::Unavailable
                | Kind::NotReady
                | Kind::UnknownOutcome
                | Kind::Timeout
                | Kind::TooManyAttempts
                | Kind::TooManyBytes
        )
    }

    /// Returns the kind that fits an HTTP status, for an answer whose type is unknown.
    pub fn of_status(status: u16) -> Kind {
        match status {
            401 => Kind::Unauthorized,
            403 => Kind::Forbidden,
            404 => Kind::NotFound,
            405 => Kind::MethodNotAllowed,
            408 => Kind::Timeout,
            409 => Kind::Conflict,
            412 => Kind::Changed,
            413 => Kind::TooLarge,
            415 => Kind::UnsupportedMediaType,
            429 => Kind::Overloaded,
            400..=499 => Kind::Invalid,
            503 => Kind::Unavailable,
            // A proxy gave up on the server, which may have executed the request.
            502 | 504 => Kind::UnknownOutcome,
            _ => Kind::Internal,
        }
    }

    fn of(class: FailureClass<'_>) -> Kind {
        match class {
            FailureClass::Refused(refusal) => Kind::of_refusal(refusal),
            FailureClass::Invalid { .. } => Kind::Invalid,
            FailureClass::Overloaded => Kind::Overloaded,
            FailureClass::Busy => Kind::Busy,
            FailureClass::UnknownOutcome => Kind::UnknownOutcome,
            FailureClass::Unavailable => Kind::Unavailable,
            FailureClass::Unusable => Kind::Unusable,
            FailureClass::Internal => Kind::Internal,
        }
    }

    fn of_refusal(refusal: &Refusal) -> Kind {
        match refusal {
            Refusal::Refused(_)
            | Refusal::LateRefused { .. }
            | Refusal::OverrunRefused { .. }
            | Refusal::LifeExceeded { .. }
            | Refusal::Overflow { .. } => Kind::Refused,
            Refusal::UnknownScope { .. } => Kind::UnknownScope,
            Refusal::UnknownHold { .. }
            | Refusal::UnknownGrant { .. }
            | Refusal::UnknownJob { .. }
            | Refusal::UnknownSchedule { .. }
            | Refusal::UnknownBlob { .. } => Kind::NotFound,
            Refusal::LeaseLost { .. } => Kind::LeaseLost,
            Refusal::ForeignLease { .. } | Refusal::ForeignCharge { .. } => Kind::Forbidden,
            Refusal::Changed { .. } => Kind::Changed,
            Refusal::AlreadySettled { .. } => Kind::AlreadySettled,
            Refusal::Invalid(_)
            | Refusal::NoSuchCharge { .. }
            | Refusal::ActualAmbiguous { .. }
            | Refusal::UsageAmbiguous { .. }
            | Refusal::BlobTooLarge { .. }
            | Refusal::BlobMismatch { .. }
            | Refusal::TooManyScopes { .. } => Kind::Invalid,
            // The request is valid; a build with newer time zone data can execute it.
            Refusal::UnknownZone { .. } => Kind::Unavailable,
            // The remaining refusals depend on the current state of a hold, a grant, a job or a budget.
            _ => Kind::Conflict,
        }
    }
}

impl Serialize for Kind {
    fn serialize<S: serde::Serializer>(&self, ser: S) -> Result<S::Ok, S::Error> {
        ser.collect_str(&format_args!("/problems/{}", self.word()))
    }
}

impl JsonSchema for Kind {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Kind".into()
    }

    fn json_schema(schemas: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(schemas)
    }
}

impl Problem {
    /// A problem of a kind. `detail` is a sentence without a full stop.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Problem {
        let Parts { title, status, .. } = kind.parts();
        let detail = detail.into();
        Problem { kind, title, status, detail, field: None, state: None, violations: Vec::new(), http: None }
    }

    /// Sets how long to wait before a retry.
    pub fn retry_after(mut self, wait: Duration) -> Problem {
        let http = self.http.get_or_insert_default();
        http.retry_after_ms = Some(wait.as_millis().try_into().unwrap_or(i64::MAX));
        self
    }

    /// Sets the id of the request.
    pub fn of_request(mut self, request_id: &str) -> Problem {
        self.http.get_or_insert_default().request_id = Some(request_id.to_owned());
        self
    }

    /// Returns how long to wait before a retry, in milliseconds.
    pub fn retry_after_ms(&self) -> Option<i64> {
        self.http.as_ref()?.retry_after_ms
    }

    /// A problem with one field of the request.
    pub fn invalid(field: String, detail: impl Into<String>) -> Problem {
        Problem { field: Some(field), ..Problem::new(Kind::Invalid, detail) }
    }

    /// A problem with a scope that was asked for and has neither a budget nor balances.
    pub fn unknown_scope(scope: &Scope) -> Problem {
        let detail = format!("there is no budget {scope}, and the scope was never charged");
        Problem::new(Kind::UnknownScope, detail).with_parts_of(&Refusal::UnknownScope { scope: scope.clone() })
    }

    /// A problem with an id or a name that does not exist; `what` names the object, such as `job job_…`.
    pub fn not_found(what: impl std::fmt::Display) -> Problem {
        Problem::new(Kind::NotFound, format!("there is no {what}"))
    }
}

impl<E: Classify> From<E> for Problem {
    fn from(error: E) -> Problem {
        let class = error.class();
        let kind = Kind::of(class);
        // Errors of the database say more in their source.
        let detail = match error.source() {
            Some(source) => format!("{error} ({source})"),
            None => error.to_string(),
        };
        let mut problem = Problem::new(kind, detail);
        if kind.is_transient() {
            problem = problem.retry_after(RETRY_AFTER);
        }
        match class {
            FailureClass::Refused(refusal) => problem.with_parts_of(refusal),
            FailureClass::Invalid { field } => Problem { field: field.map(str::to_owned), ..problem },
            _ => problem,
        }
    }
}

impl Problem {
    /// Adds the fields that a refusal has.
    fn with_parts_of(mut self, refusal: &Refusal) -> Problem {
        match refusal {
            Refusal::Refused(violations) => {
                self.violations = violations.iter().map(ViolationAnswer::from).collect();
                if let Some(wait) = refusal.retry_after() {
                    self = self.retry_after(wait.into());
                }
            }
            Refusal::UnknownScope { scope } => {
                self.http.get_or_insert_default().scope = Some(scope.to_string());
            }
            Refusal::Invalid(Invalid { field, .. }) => self.field = Some((*field).to_owned()),
            Refusal::AlreadySettled { state, .. } => self.state = Some(state.as_str().into()),
            Refusal::LeaseLost { state, .. } | Refusal::WrongState { state, .. } => {
                self.state = Some(state.as_str().into());
            }
            _ => {}
        }
        self
    }

    /// Replaces the detail of a failure of the database or the server, which may name hosts, files and tables. An unusable
    /// database is unavailable to a remote caller, who retries until the operator has repaired it.
    pub fn redacted(self) -> Problem {
        if self.kind == Kind::Unusable {
            return Problem::new(Kind::Unavailable, "").retry_after(RETRY_AFTER).redacted();
        }
        let detail = match self.kind {
            Kind::Busy => "other transactions held the locks for too long; nothing was changed; retry the request",
            Kind::UnknownOutcome => "the request may have been executed; retry it with the same Idempotency-Key",
            Kind::Unavailable => {
                "the database is unavailable; nothing was changed; retry later; the server's log has the reason"
            }
            Kind::Internal => "the server failed; its log has the reason under this request_id",
            _ => return self,
        };
        Problem { detail: detail.to_owned(), ..self }
    }
}

/// One reason why a request was refused.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ViolationAnswer {
    /// A limit leaves too few units.
    Limit {
        scope: String,
        #[serde(flatten)]
        window: WindowFields,
        limit: i64,
        /// The units that the request needs.
        requested: i64,
        /// The units that are left.
        available: i64,
        /// An estimate of when the units become available by themselves, in milliseconds from now; `null` if they do not. A release
        /// can make room sooner, and other requests can take the room.
        retry_after_ms: Option<i64>,
        /// Whether the limit can ever admit the request; `false` if the request exceeds the whole limit.
        possible: bool,
    },
    /// The scope is frozen.
    Frozen { scope: String },
    /// The token of a grant was not accepted.
    Grant { purpose: String },
}

/// Says the reason in a sentence for people, as the library does.
impl fmt::Display for ViolationAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ViolationAnswer::Limit { scope, window, limit, requested, available, retry_after_ms, possible } => {
                let window = window.shown(Some(*limit));
                write!(f, "{scope} has {available} left of {limit} ({window}), {requested} requested")?;
                match retry_after_ms.map(|wait| Span::from_millis(wait.max(0).unsigned_abs())) {
                    Some(wait) => write!(f, ", room for it in about {} (an estimate)", about(wait)),
                    None if !possible => f.write_str(", more than the limit itself"),
                    None => Ok(()),
                }
            }
            ViolationAnswer::Frozen { scope } => write!(f, "{scope} is frozen"),
            ViolationAnswer::Grant { purpose } => write!(f, "the token is not valid for {purpose}"),
        }
    }
}

impl From<&Violation> for ViolationAnswer {
    fn from(violation: &Violation) -> ViolationAnswer {
        match violation {
            Violation::Limit { scope, window, limit, requested, available, retry_after, possible } => {
                ViolationAnswer::Limit {
                    scope: scope.to_string(),
                    window: WindowFields::from(window),
                    limit: *limit,
                    requested: *requested,
                    available: *available,
                    retry_after_ms: retry_after.map(Span::millis),
                    possible: *possible,
                }
            }
            Violation::Frozen { scope } => ViolationAnswer::Frozen { scope: scope.to_string() },
            // The reason goes to the log only: it would help a caller to guess tokens.
            Violation::Grant { purpose, .. } => ViolationAnswer::Grant { purpose: purpose.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use bursar_core::name::Scope;
    use bursar_core::window::Window;

    use super::*;

    fn limit(window: Window, retry_after: Option<Span>, possible: bool) -> Violation {
        let scope = Scope::new("a").unwrap();
        Violation::Limit { scope, window, limit: 10, requested: 7, available: 3, retry_after, possible }
    }

    #[test]
    fn a_violation_reads_the_same_on_both_sides_of_the_network() {
        let wait = Some(Span::from_secs(1_209_600));
        for violation in [
            limit(Window::Lifetime, None, true),
            limit(Window::rolling(Span::from_secs(3_600)).unwrap(), wait, true),
            limit(Window::bucket(10, 1, Span::from_secs(60)).unwrap(), None, false),
            Violation::Frozen { scope: Scope::new("a").unwrap() },
        ] {
            assert_eq!(ViolationAnswer::from(&violation).to_string(), violation.to_string());
        }
        let text = limit(Window::Lifetime, wait, true).to_string();
        assert_eq!(text, "a has 3 left of 10 (lifetime), 7 requested, room for it in about 14 days (an estimate)");
    }

    #[test]
    fn a_refusal_that_time_resolves_says_when() {
        let refused = |violations| Problem::from(Refusal::Refused(violations)).retry_after_ms();
        let wait = Some(Span::from_secs(5));
        assert_eq!(refused(vec![limit(Window::Lifetime, wait, true)]), Some(5_000));
        assert_eq!(refused(vec![limit(Window::Lifetime, wait, true), limit(Window::Lifetime, None, false)]), None);
    }
}
