//! Problems: the answers to requests that failed (RFC 9457, `application/problem+json`).

mod hint;
mod kind;

use std::fmt;
use std::time::Duration;

use bursar_core::failure::{Classify, FailureClass};
use bursar_core::id::BlobId;
use bursar_core::name::Scope;
use bursar_core::notation::{Unit, about};
use bursar_core::refusal::{Invalid, Refusal, Violation};
use bursar_core::time::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::window::WindowFields;

pub use self::hint::{Voice, shell_quoted};
pub use self::kind::{Kind, problem_table};

/// When a caller may retry a transient failure for which no better estimate is known.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How the detail of a problem begins if a scope was only read. Then the request can say no limits for it.
const NO_BUDGET: &str = "there is no budget";

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
    /// The field of the request that is wrong: its path in the body, such as `charges[0].amount`, or the name of a parameter.
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
    /// The hold or the job whose state does not allow the request, or the blob that does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The length of the blob, in bytes, whose range cannot be satisfied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Why the signature of the request is refused: a stable word, such as `replayed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
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
    id: Option<String>,
    size: Option<u64>,
    reason: Option<String>,
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
        let Received { retry_after_ms, scope, id, size, reason, hint, request_id, .. } = self;
        let http = HttpFields { retry_after_ms, scope, id, size, reason, hint, request_id };
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

impl Problem {
    /// A problem of a kind. `detail` is a sentence without a full stop.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Problem {
        let (title, status, detail) = (kind.title(), kind.status(), detail.into());
        Problem { kind, title, status, detail, field: None, state: None, violations: Vec::new(), http: None }
    }

    /// Returns the fields that few problems have.
    fn parts(&mut self) -> &mut HttpFields {
        self.http.get_or_insert_default()
    }

    /// Sets how long to wait before a retry.
    pub fn retry_after(mut self, wait: Duration) -> Problem {
        self.parts().retry_after_ms = Some(wait.as_millis().try_into().unwrap_or(i64::MAX));
        self
    }

    /// Sets the id of the request.
    pub fn of_request(mut self, request_id: &str) -> Problem {
        self.parts().request_id = Some(request_id.to_owned());
        self
    }

    /// Sets what the caller can do, in place of the usual hint.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Problem {
        self.parts().hint = Some(hint.into());
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
        let detail = format!("{NO_BUDGET} {scope}, and the scope was never charged");
        Problem::new(Kind::UnknownScope, detail).with_parts_of(&Refusal::UnknownScope { scope: scope.clone() })
    }

    /// A problem with a blob that does not exist, or that the caller does not reach: both read the same.
    pub fn unknown_blob(blob: BlobId) -> Problem {
        Problem::from(Refusal::UnknownBlob { blob })
    }

    /// A problem with a range that begins after the last byte of a blob.
    pub fn range_not_satisfiable(size: u64) -> Problem {
        let mut problem =
            Problem::new(Kind::RangeNotSatisfiable, format!("the range begins after the last of {size} bytes"));
        problem.parts().size = Some(size);
        problem
    }

    /// A problem with the signature of a request; `reason` is a stable word.
    pub fn signature_refused(reason: &str, detail: impl Into<String>) -> Problem {
        let mut problem = Problem::new(Kind::SignatureRefused, detail);
        problem.parts().reason = Some(reason.to_owned());
        problem
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
                self.parts().scope = Some(scope.to_string());
            }
            Refusal::Invalid(Invalid { field, .. }) => self.field = Some(field.to_string()),
            Refusal::AlreadySettled { state, hold } => {
                self.state = Some(state.as_str().into());
                self.parts().id = Some(hold.to_string());
            }
            Refusal::LeaseLost { state, job, .. } | Refusal::WrongState { state, job, .. } => {
                self.state = Some(state.as_str().into());
                self.parts().id = Some(job.to_string());
            }
            Refusal::UnknownBlob { blob } => self.parts().id = Some(blob.to_string()),
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
            Kind::StorageUnavailable => {
                "the storage for blobs cannot be used; nothing was stored; the server's log has the reason"
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
        /// The unit of the amounts.
        #[serde(default)]
        unit: Unit,
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
            ViolationAnswer::Limit { scope, window, limit, requested, available, retry_after_ms, possible, unit } => {
                let window = window.shown(Some(*limit));
                let [limit, requested, available] = [limit, requested, available].map(|amount| unit.format(*amount));
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
            Violation::Limit { scope, window, limit, requested, available, retry_after, possible, unit } => {
                ViolationAnswer::Limit {
                    scope: scope.to_string(),
                    window: WindowFields::from(window),
                    limit: *limit,
                    requested: *requested,
                    available: *available,
                    retry_after_ms: retry_after.map(Span::millis),
                    possible: *possible,
                    unit: unit.clone(),
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
        let unit = Unit::default();
        Violation::Limit { scope, window, limit: 10, requested: 7, available: 3, retry_after, possible, unit }
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
        let mut dollars = limit(Window::Lifetime, None, true);
        if let Violation::Limit { unit, .. } = &mut dollars {
            *unit = Unit::named("usd");
        }
        assert_eq!(dollars.to_string(), "a has $0.000003 left of $0.00001 (lifetime), $0.000007 requested");
        assert_eq!(ViolationAnswer::from(&dollars).to_string(), dollars.to_string());
    }

    #[test]
    fn a_refusal_that_time_resolves_says_when() {
        let refused = |violations| Problem::from(Refusal::Refused(violations)).retry_after_ms();
        let wait = Some(Span::from_secs(5));
        assert_eq!(refused(vec![limit(Window::Lifetime, wait, true)]), Some(5_000));
        assert_eq!(refused(vec![limit(Window::Lifetime, wait, true), limit(Window::Lifetime, None, false)]), None);
    }
}
