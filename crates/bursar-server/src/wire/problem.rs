//! Problems on the wire: one object that says what was not done, and why.

use bursar::{Error, Invalid, Refusal, StoreError, Violation};
use schemars::JsonSchema;
use serde::Serialize;

use crate::wire::window::WindowFields;

/// Why something was not done.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Problem {
    /// Which kind; its last word is stable.
    #[serde(rename = "type", serialize_with = "typed")]
    #[schemars(with = "String")]
    pub kind: Kind,
    /// The kind in words.
    pub title: &'static str,
    /// The status it has over HTTP.
    pub status: u16,
    /// What happened, and what to do.
    pub detail: String,
    /// Which part of the request is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The state something is in that makes the request impossible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<&'static str>,
    /// Everything that speaks against the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub violations: Vec<ViolationAnswer>,
    /// What is told over HTTP beside it.
    #[serde(flatten)]
    told: Option<Box<Told>>,
}

/// What is told of a problem over HTTP.
#[derive(Debug, Default, Serialize, JsonSchema)]
struct Told {
    /// When it may be tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<i64>,
    /// The request, as the log knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
}

/// The kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Refused,
    UnknownScope,
    AlreadySettled,
    LeaseLost,
    Conflict,
    Changed,
    NotFound,
    Invalid,
    TooLarge,
    Unauthorized,
    Forbidden,
    MethodNotAllowed,
    UnsupportedMediaType,
    Timeout,
    TooManyAttempts,
    QuotaExceeded,
    Overloaded,
    Busy,
    Unavailable,
    UnknownOutcome,
    Internal,
}

impl Kind {
    /// The last word of its type, its title and its status.
    fn words(self) -> (&'static str, &'static str, u16) {
        match self {
            Kind::Refused => ("refused", "The budget, the limit or the grant does not allow it", 409),
            Kind::UnknownScope => ("unknown-scope", "Nothing limits this scope yet", 409),
            Kind::AlreadySettled => ("already-settled", "The hold has been settled before", 409),
            Kind::LeaseLost => ("lease-lost", "The lease is over, or somebody else has the job", 409),
            Kind::Conflict => ("conflict", "The state of things does not allow it", 409),
            Kind::Changed => ("changed", "It is not as it was read", 412),
            Kind::NotFound => ("not-found", "There is no such thing", 404),
            Kind::Invalid => ("invalid", "The request is wrong", 400),
            Kind::TooLarge => ("too-large", "The request is too large", 413),
            Kind::Unauthorized => ("unauthorized", "Nobody knows who asks", 401),
            Kind::Forbidden => ("forbidden", "Who asks may not do this", 403),
            Kind::MethodNotAllowed => ("method-not-allowed", "The method is not taken here", 405),
            Kind::UnsupportedMediaType => ("unsupported-media-type", "The body is of another kind than is taken", 415),
            Kind::Timeout => ("timeout", "The request took too long to arrive", 408),
            Kind::TooManyAttempts => ("too-many-attempts", "Too many failed attempts", 429),
            Kind::QuotaExceeded => ("quota-exceeded", "The quota leaves too little", 429),
            Kind::Overloaded => ("overloaded", "Too much is waiting already", 503),
            Kind::Busy => ("busy", "Others are using the database", 503),
            Kind::Unavailable => ("unavailable", "The database cannot be used", 503),
            Kind::UnknownOutcome => ("unknown-outcome", "Nobody knows whether it was done", 504),
            Kind::Internal => ("internal", "Bursar failed", 500),
        }
    }

    /// The kind of an error.
    fn of(error: &Error) -> Kind {
        match error {
            Error::Refused(refusal) => Kind::of_refusal(refusal),
            Error::Overloaded { .. } => Kind::Overloaded,
            Error::Store(error) => Kind::of_store(error),
            _ => Kind::Internal,
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
            Refusal::Changed { .. } => Kind::Changed,
            Refusal::AlreadySettled { .. } => Kind::AlreadySettled,
            Refusal::Invalid(_)
            | Refusal::NoSuchCharge { .. }
            | Refusal::ActualAmbiguous { .. }
            | Refusal::UsageAmbiguous { .. }
            | Refusal::TooManyScopes { .. } => Kind::Invalid,
            // Another build can do it, and this one nothing.
            Refusal::UnknownZone { .. } => Kind::Unavailable,
            // What else the rules say no to is at odds with the state things are in.
            _ => Kind::Conflict,
        }
    }

    fn of_store(error: &StoreError) -> Kind {
        match error {
            StoreError::Busy(_) | StoreError::RetryTransaction(_) => Kind::Busy,
            StoreError::UnknownOutcome(_) => Kind::UnknownOutcome,
            StoreError::BadUrl(_) => Kind::Invalid,
            StoreError::Unavailable { .. }
            | StoreError::NewerSchema { .. }
            | StoreError::NotMigrated { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Closed => Kind::Unavailable,
            _ => Kind::Internal,
        }
    }
}

fn typed<S: serde::Serializer>(kind: &Kind, ser: S) -> Result<S::Ok, S::Error> {
    ser.collect_str(&format_args!("/problems/{}", kind.words().0))
}

impl Problem {
    /// A problem of a kind, told in a sentence.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Problem {
        let (_, title, status) = kind.words();
        let detail = detail.into();
        Problem { kind, title, status, detail, field: None, state: None, violations: Vec::new(), told: None }
    }

    /// The same, with when to try again.
    pub fn retry_after(mut self, wait: std::time::Duration) -> Problem {
        let told = self.told.get_or_insert_default();
        told.retry_after_ms = Some(wait.as_millis().try_into().unwrap_or(i64::MAX));
        self
    }

    /// The same, with the request it is of.
    pub(crate) fn of_request(mut self, request_id: &str) -> Problem {
        self.told.get_or_insert_default().request_id = Some(request_id.to_owned());
        self
    }

    /// When it may be tried again.
    pub(crate) fn retry_after_ms(&self) -> Option<i64> {
        self.told.as_ref()?.retry_after_ms
    }

    /// A part of the request is wrong.
    pub fn invalid(field: String, detail: impl Into<String>) -> Problem {
        Problem { field: Some(field), ..Problem::new(Kind::Invalid, detail) }
    }

    /// There is no such thing.
    pub fn not_found(what: impl std::fmt::Display) -> Problem {
        Problem::new(Kind::NotFound, format!("there is no {what}"))
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let kind = Kind::of(&error);
        let mut problem = Problem::new(kind, described(&error));
        if matches!(kind, Kind::Overloaded | Kind::Busy | Kind::Unavailable | Kind::UnknownOutcome) {
            problem = problem.retry_after(std::time::Duration::from_secs(1));
        }
        match error.refusal() {
            Some(Refusal::Refused(violations)) => {
                problem.violations = violations.iter().map(ViolationAnswer::from).collect();
            }
            Some(Refusal::Invalid(Invalid { field, .. })) => problem.field = Some((*field).to_owned()),
            Some(Refusal::AlreadySettled { state, .. }) => problem.state = Some(state.as_str()),
            Some(Refusal::LeaseLost { state, .. } | Refusal::WrongState { state, .. }) => {
                problem.state = Some(state.as_str());
            }
            _ => {}
        }
        problem
    }
}

impl Problem {
    /// What an outsider is told: the words of the rules, and of what is below them only which kind it is.
    pub(crate) fn for_outsiders(self) -> Problem {
        let words = match self.kind {
            Kind::Busy => "others are using what the request needs; try again",
            Kind::UnknownOutcome => "it may have been done or not: ask again with the same Idempotency-Key",
            Kind::Unavailable => "the database cannot be used now; the log of the server says why",
            Kind::Internal => "the server failed; its log says why",
            _ => return self,
        };
        Problem { detail: words.to_owned(), ..self }
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Problem {
        Problem::from(Error::from(invalid))
    }
}

/// The error in its own words, with the engine's own where they add something.
fn described(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error} ({cause})"),
        None => error.to_string(),
    }
}

/// One reason of a refusal.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ViolationAnswer {
    Limit {
        scope: String,
        #[serde(flatten)]
        window: WindowFields,
        limit: i64,
        requested: i64,
        available: i64,
        retry_after_ms: Option<i64>,
        possible: bool,
    },
    Frozen {
        scope: String,
    },
    Grant {
        purpose: String,
    },
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
                    retry_after_ms: retry_after.map(bursar::Span::millis),
                    possible: *possible,
                }
            }
            Violation::Frozen { scope } => ViolationAnswer::Frozen { scope: scope.to_string() },
            // Why the token was not taken is for the log, never for an outsider.
            Violation::Grant { purpose, .. } => ViolationAnswer::Grant { purpose: purpose.to_string() },
        }
    }
}
