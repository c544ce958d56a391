//! Problems on the wire: one object that says what was not done, and why.

#[cfg(feature = "library")]
use bursar::{Error, StoreError};
use bursar_core::refusal::{Invalid, Refusal, Violation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use crate::window::WindowFields;

/// Why something was not done.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Problem {
    /// Which kind; its last word is stable.
    #[serde(rename = "type")]
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
    pub state: Option<Box<str>>,
    /// Everything that speaks against the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub violations: Vec<ViolationAnswer>,
    /// What is told over HTTP beside it.
    #[serde(flatten)]
    pub told: Option<Box<Beside>>,
}

/// What is told of a problem over HTTP.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct Beside {
    /// When it may be tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<i64>,
    /// The request, as the log knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// A problem as it arrives, perhaps from a server that knows more kinds than this build.
#[derive(Deserialize)]
struct Told {
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
        Told::deserialize(de).map(Problem::from)
    }
}

impl From<Told> for Problem {
    fn from(told: Told) -> Problem {
        let word = told.kind.rsplit('/').next().unwrap_or_default();
        let kind = Kind::ALL.iter().copied().find(|kind| kind.word() == word);
        let kind = kind.unwrap_or_else(|| Kind::of_status(told.status));
        let beside = Beside { retry_after_ms: told.retry_after_ms, request_id: told.request_id };
        Problem {
            kind,
            title: kind.words().1,
            status: told.status,
            detail: told.detail,
            field: told.field,
            state: told.state.map(String::into_boxed_str),
            violations: told.violations,
            told: Some(Box::new(beside)),
        }
    }
}

/// The kinds, each with the last word of its type, its title and its status: said once, so that none can be forgotten.
macro_rules! kinds {
    ($($kind:ident = $word:literal, $title:literal, $status:literal;)*) => {
        /// The kinds of problems.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $(#[doc = $title] $kind,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Kind] = &[$(Kind::$kind),*];

            /// The last word of its type, its title and its status.
            fn words(self) -> (&'static str, &'static str, u16) {
                match self {
                    $(Kind::$kind => ($word, $title, $status),)*
                }
            }
        }
    };
}

kinds! {
    Refused = "refused", "The budget, the limit or the grant does not allow it", 409;
    UnknownScope = "unknown-scope", "Nothing limits this scope yet", 409;
    AlreadySettled = "already-settled", "The hold has been settled before", 409;
    LeaseLost = "lease-lost", "The lease is over, or somebody else has the job", 409;
    Conflict = "conflict", "The state of things does not allow it", 409;
    Changed = "changed", "It is not as it was read", 412;
    NotFound = "not-found", "There is no such thing", 404;
    Invalid = "invalid", "The request is wrong", 400;
    TooLarge = "too-large", "The request is too large", 413;
    Unauthorized = "unauthorized", "Nobody knows who asks", 401;
    Forbidden = "forbidden", "Who asks may not do this", 403;
    MethodNotAllowed = "method-not-allowed", "The method is not taken here", 405;
    UnsupportedMediaType = "unsupported-media-type", "The body is of another kind than is taken", 415;
    Timeout = "timeout", "The request took too long to arrive", 408;
    TooManyAttempts = "too-many-attempts", "Too many failed attempts", 429;
    QuotaExceeded = "quota-exceeded", "The quota leaves too little", 429;
    TooManyBytes = "too-many-bytes", "The principal has too many bytes in flight", 429;
    HeadTooLarge = "head-too-large", "The head of the request is too large", 431;
    Overloaded = "overloaded", "Too much is waiting already", 503;
    Busy = "busy", "Others are using the database", 503;
    Unavailable = "unavailable", "The database cannot be used", 503;
    NotReady = "not-ready", "The server cannot do its work now", 503;
    UnknownOutcome = "unknown-outcome", "Nobody knows whether it was done", 504;
    Internal = "internal", "Bursar failed", 500;
}

impl Kind {
    /// The last word of its type, which is stable.
    pub fn word(self) -> &'static str {
        self.words().0
    }

    /// The kind in words.
    pub fn title(self) -> &'static str {
        self.words().1
    }

    /// The status it has over HTTP.
    pub fn status(self) -> u16 {
        self.words().2
    }

    /// It goes away by itself: the same may be asked again.
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

    /// What a status alone says, where the kind is not known.
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
            // Whoever stands between has not heard of the end.
            502 | 504 => Kind::UnknownOutcome,
            _ => Kind::Internal,
        }
    }

    /// The kind of an error.
    #[cfg(feature = "library")]
    fn of(error: &Error) -> Kind {
        match error {
            Error::Refused(refusal) => Kind::of_refusal(refusal),
            Error::LeaseLost(_) => Kind::LeaseLost,
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
            Refusal::ForeignLease { .. } | Refusal::ForeignCharge { .. } => Kind::Forbidden,
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

    #[cfg(feature = "library")]
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

impl Serialize for Kind {
    fn serialize<S: serde::Serializer>(&self, ser: S) -> Result<S::Ok, S::Error> {
        ser.collect_str(&format_args!("/problems/{}", self.words().0))
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
    pub fn of_request(mut self, request_id: &str) -> Problem {
        self.told.get_or_insert_default().request_id = Some(request_id.to_owned());
        self
    }

    /// When it may be tried again.
    pub fn retry_after_ms(&self) -> Option<i64> {
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

#[cfg(feature = "library")]
impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let kind = Kind::of(&error);
        let mut problem = Problem::new(kind, described(&error));
        if kind.is_transient() {
            problem = problem.retry_after(std::time::Duration::from_secs(1));
        }
        match error.refusal() {
            Some(refusal) => problem.with_parts_of(refusal),
            None => problem,
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        Problem::new(Kind::of_refusal(&refusal), refusal.to_string()).with_parts_of(&refusal)
    }
}

impl Problem {
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

    /// What an outsider is told: the words of the rules, and of what is below them only which kind it is.
    pub fn for_outsiders(self) -> Problem {
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
        Problem::from(Refusal::from(invalid))
    }
}

/// The error in its own words, with the engine's own where they add something.
#[cfg(feature = "library")]
fn described(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error} ({cause})"),
        None => error.to_string(),
    }
}

/// One reason of a refusal.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
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
                    retry_after_ms: retry_after.map(bursar_core::time::Span::millis),
                    possible: *possible,
                }
            }
            Violation::Frozen { scope } => ViolationAnswer::Frozen { scope: scope.to_string() },
            // Why the token was not taken is for the log, never for an outsider.
            Violation::Grant { purpose, .. } => ViolationAnswer::Grant { purpose: purpose.to_string() },
        }
    }
}
