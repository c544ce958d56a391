//! Problems: the answers to requests that failed (RFC 9457, `application/problem+json`).

use std::borrow::Cow;
use std::time::Duration;

use bursar_core::failure::{Classify, FailureClass};
use bursar_core::refusal::{Invalid, Refusal, Violation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::window::WindowFields;

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
    /// Fields that only an HTTP answer has.
    #[serde(flatten)]
    pub http: Option<Box<HttpFields>>,
}

/// The fields of a problem that only an HTTP answer has.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct HttpFields {
    /// How long to wait before a retry, in milliseconds. It is an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<i64>,
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
        let http = HttpFields { retry_after_ms: self.retry_after_ms, request_id: self.request_id };
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

/// Defines the kinds, each with the last segment of its type, its title and its status.
macro_rules! kinds {
    ($($kind:ident = $word:literal, $title:literal, $status:literal;)*) => {
        /// The kind of a problem.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $(#[doc = $title] $kind,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Kind] = &[$(Kind::$kind),*];

            fn parts(self) -> (&'static str, &'static str, u16) {
                match self {
                    $(Kind::$kind => ($word, $title, $status),)*
                }
            }
        }
    };
}

kinds! {
    Refused = "refused", "Refused by a limit, a freeze, a grant or a hold's policy", 409;
    UnknownScope = "unknown-scope", "Unknown scope: it has no budget, and the request names no limit", 409;
    AlreadySettled = "already-settled", "The hold is already settled", 409;
    LeaseLost = "lease-lost", "Lease lost: it has expired, or another worker has the job", 409;
    Conflict = "conflict", "Conflict with the current state", 409;
    Changed = "changed", "Precondition failed: the resource has changed", 412;
    NotFound = "not-found", "Not found", 404;
    Invalid = "invalid", "Invalid request", 400;
    TooLarge = "too-large", "Request too large", 413;
    Unauthorized = "unauthorized", "Unauthorized: the request has no valid token", 401;
    Forbidden = "forbidden", "Forbidden: the caller lacks the permission", 403;
    MethodNotAllowed = "method-not-allowed", "Method not allowed", 405;
    UnsupportedMediaType = "unsupported-media-type", "Unsupported media type", 415;
    Timeout = "timeout", "Timeout: the request took too long to arrive", 408;
    TooManyAttempts = "too-many-attempts", "Too many failed authentication attempts", 429;
    QuotaExceeded = "quota-exceeded", "Quota exceeded", 429;
    TooManyBytes = "too-many-bytes", "Too many bytes in flight for this principal", 429;
    HeadTooLarge = "head-too-large", "Request headers too large", 431;
    Overloaded = "overloaded", "Overloaded: too many requests are waiting", 503;
    Busy = "busy", "Database busy: other transactions hold the locks", 503;
    Unavailable = "unavailable", "Database unavailable", 503;
    Unusable = "unusable", "Database unusable: it is missing, damaged, read-only or of another version", 503;
    NotReady = "not-ready", "Server not ready", 503;
    UnknownOutcome = "unknown-outcome", "Unknown outcome: the request may have been executed", 504;
    Internal = "internal", "Internal error", 500;
}

impl Kind {
    /// Returns the last segment of the type, which is stable.
    pub fn word(self) -> &'static str {
        self.parts().0
    }

    /// Returns the title.
    pub fn title(self) -> &'static str {
        self.parts().1
    }

    /// Returns the HTTP status.
    pub fn status(self) -> u16 {
        self.parts().2
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
            | Refusal::UnknownSchedule { .. } => Kind::NotFound,
            Refusal::LeaseLost { .. } => Kind::LeaseLost,
            Refusal::ForeignLease { .. } | Refusal::ForeignCharge { .. } => Kind::Forbidden,
            Refusal::Changed { .. } => Kind::Changed,
            Refusal::AlreadySettled { .. } => Kind::AlreadySettled,
            Refusal::Invalid(_)
            | Refusal::NoSuchCharge { .. }
            | Refusal::ActualAmbiguous { .. }
            | Refusal::UsageAmbiguous { .. }
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
        let (_, title, status) = kind.parts();
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
        /// The earliest time at which the units become available by themselves, in milliseconds from now; `null` if they do not.
        /// It is an estimate: released or credited units can make the request succeed earlier.
        retry_after_ms: Option<i64>,
        /// Whether the limit can ever admit the request; `false` if the request exceeds the whole limit.
        possible: bool,
    },
    /// The scope is frozen.
    Frozen { scope: String },
    /// The token of a grant was not accepted.
    Grant { purpose: String },
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
                    retry_after_ms: retry_after.map(bursar_core::time::Span::millis),
                    possible: *possible,
                }
            }
            Violation::Frozen { scope } => ViolationAnswer::Frozen { scope: scope.to_string() },
            // The reason goes to the log only: it would help a caller to guess tokens.
            Violation::Grant { purpose, .. } => ViolationAnswer::Grant { purpose: purpose.to_string() },
        }
    }
}
