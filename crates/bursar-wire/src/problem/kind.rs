//! The kinds of problems: what each means, what causes it, and what to do. The table in `docs/server.md` and the pages at
//! `/problems/{type}` are made from this list.

use std::borrow::Cow;

use bursar_core::failure::FailureClass;
use bursar_core::name::Scope;
use bursar_core::notation::Unit;
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::time::Span;
use bursar_core::window::{CalendarUnit, Weekday, Window, Zone};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Problem, RETRY_AFTER};

/// Defines the kinds, each with the last segment of its type, its status, its title, what it means, what to do, a typical cause, and the
/// `detail` of an example.
macro_rules! kinds {
    ($($kind:ident = $word:literal, $status:literal, $title:literal, $means:literal, $remedy:literal, $cause:literal,
       $example:literal;)*) => {
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
                        Parts {
                            word: $word,
                            status: $status,
                            title: $title,
                            means: $means,
                            remedy: $remedy,
                            cause: $cause,
                            example: $example,
                        }
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
    cause: &'static str,
    example: &'static str,
}

kinds! {
    Invalid = "invalid", 400, "Invalid request",
        "the request is wrong; `field` says where",
        "correct it; a retry does not help",
        "a field is misspelt, missing, or of the wrong type: an amount with a decimal point, a window that does not exist",
        "unknown field `charges[0].limts`; did you mean `limits`?";
    Unauthorized = "unauthorized", 401, "Unauthorized: the request has no valid token",
        "the request has no valid token; the server's log has the reason",
        "send `Authorization: Bearer TOKEN` with a token that is neither expired nor revoked",
        "the header is missing, or the token was revoked, has expired, or belongs to another server",
        "the request has no valid token; send `Authorization: Bearer TOKEN`, or `X-Worker-Token: TOKEN` for a worker";
    SignatureRefused = "signature-refused", 401, "Unauthorized: the signature of the request is missing or refused",
        "the meter requires or checks a signature; `reason` says what is wrong with it; nothing was changed",
        "sign each attempt anew, as the header `Accept-Signature` says, with a correct clock and a registered key",
        "the request is not signed, was repeated, is too old, or was changed on its way",
        "the nonce was used before: the request is a repetition; sign each request anew; nothing was charged";
    Forbidden = "forbidden", 403, "Forbidden: the caller lacks the permission",
        "the role, or the worker's capabilities, do not allow it",
        "use a token with another role, or give the worker the capability",
        "an agent or a viewer calls a route for administrators, or a worker leases from a queue that is not among its capabilities",
        "the role agent does not allow the action budgets.write; use a token with another role (docs/server.md lists them)";
    NotFound = "not-found", 404, "Not found",
        "this tenant has no such object",
        "check the id or name, and the tenant",
        "the id or the name is misspelt, belongs to another tenant, or was deleted after its retention",
        "there is no queue medai; did you mean media?";
    UnknownScope = "unknown-scope", 404, "Unknown scope: it has no budget, and the request names no limit",
        "the scope has no budget and the request gives no limit, or the parent of a budget has no budget; `scope` names it",
        "define a budget for the scope, or give `limits` with the charge",
        "the name is misspelt, or the budget was not defined yet",
        "scope agent:scuot is unknown: it has no budget, and the request gives no limit for it; define a budget or pass limits";
    MethodNotAllowed = "method-not-allowed", 405, "Method not allowed",
        "the path exists, but not with this method",
        "use one of the methods in the header `Allow`",
        "a POST where the route takes a PUT, or a path that is only part of a route",
        "this path does not support POST; the Allow header lists its methods";
    Timeout = "timeout", 408, "Timeout: the request took too long to arrive",
        "the request body took too long",
        "send it again; nothing was changed",
        "a slow connection, or a client that announced more bytes than it sent",
        "the request body took longer than 30 s to arrive; nothing was changed";
    Refused = "refused", 409, "Refused by a limit, a freeze, a grant or a hold's policy",
        "a limit, a freeze, a grant or a hold's policy refuses the request; `violations` lists every limit, freeze and grant",
        "request less, wait (`Retry-After` is an estimate of when it may fit), raise the limit, unfreeze the scope, or use another grant",
        "a budget has spent its limit, or the request asks for more than the limit itself",
        "refused: agent:scout has $0.30 left of $5.00 (month@UTC), $0.50 requested, room for it in about 13 days (an estimate)";
    AlreadySettled = "already-settled", 409, "The hold is already settled",
        "the hold has ended; `state` says how",
        "nothing: it is settled",
        "a commit is repeated without its idempotency key, or the hold expired before it was released",
        "hold hold_01j9zq3v4w5x6y7z8abcdefghj is already committed";
    LeaseLost = "lease-lost", 409, "Lease lost: it has expired, or another worker has the job",
        "the lease has expired, or another worker has the job",
        "stop working on the job; nothing else you report has an effect",
        "the worker sent no heartbeat in time, or its attempt ran longer than the deadline",
        "lease 17 of job_01j9zq3v4w5x6y7z8abcdefghj is no longer current: the job is now queued";
    Conflict = "conflict", 409, "Conflict with the current state",
        "the current state does not allow it, or the idempotency key was used for a different request",
        "read the current state and decide again; use a new key for a new request",
        "a job that has ended is cancelled, or a key is used again for another body",
        "idempotency key order-7 was used for a different request: use a new key, or repeat the same request";
    Changed = "changed", 412, "Precondition failed: the resource has changed",
        "the object has changed since it was read (`If-Match`), or a blob has other bytes",
        "read it again, and repeat the change with its new ETag",
        "another caller changed the budget, queue, schedule or namespace after you read it",
        "the budget has changed since it was read, or does not exist: read it again";
    TooLarge = "too-large", 413, "Request too large",
        "the request is too large, or a blob is larger than its namespace allows",
        "split it, or raise `bytes_max` of the namespace",
        "a payload with a file in it, or a bulk request with too many jobs",
        "the body exceeds 4194304 bytes; split it";
    UnsupportedMediaType = "unsupported-media-type", 415, "Unsupported media type",
        "the body is not JSON, or is compressed; or the bytes of a blob are not of the type that was announced",
        "send `Content-Type: application/json` without a content encoding; for a blob, the type that its bytes have",
        "a client that sends a form, or compresses the body; a blob that is announced as an image and is none",
        "the body must be application/json";
    RangeNotSatisfiable = "range-not-satisfiable", 416, "Range not satisfiable",
        "the range begins after the last byte of the blob; `Content-Range` tells its length",
        "request a range within the blob",
        "a download is resumed that was already complete",
        "the range begins after the last of 1024 bytes";
    TooManyAttempts = "too-many-attempts", 429, "Too many failed authentication attempts",
        "too many invalid tokens from this address",
        "wait as long as `Retry-After` says; valid tokens are still accepted",
        "a client that repeats a request with an old token",
        "too many failed attempts from this address; valid tokens are still accepted";
    TooManyBytes = "too-many-bytes", 429, "Too many bytes in flight for this principal",
        "the principal has too many bytes in flight; nothing was changed",
        "wait as long as `Retry-After` says, and send fewer or smaller requests at once",
        "many large requests at once, or responses that the client does not read",
        "this principal has too many bytes in flight; nothing was changed";
    QuotaExceeded = "quota-exceeded", 429, "Quota exceeded",
        "the caller's quota has too little left; `violations` has the limit",
        "wait (`Retry-After` is an estimate of when the request may fit), or have the quota raised",
        "more requests in the window than the quota of the caller allows",
        "quota exceeded; nothing was charged; 0 of 1000 (rolling:1h) are left, the request costs 1; retry in about 40 s (an estimate)";
    HeadTooLarge = "head-too-large", 431, "Request headers too large",
        "the request head has more than 64 KiB",
        "send fewer or shorter headers",
        "a very long query, or cookies of other programs on the same host",
        "the request line and headers exceed 65536 bytes; send fewer or shorter headers";
    Internal = "internal", 500, "Internal error",
        "a defect; the server's log has it under `request_id`",
        "report it",
        "a defect in Bursar",
        "the server failed; its log has the reason under this request_id";
    Overloaded = "overloaded", 503, "Overloaded: too many requests are waiting",
        "too many requests are waiting; nothing was changed",
        "retry after `Retry-After`, with fewer requests at the same time",
        "more requests than the database commits, or more connections than the server accepts",
        "the server has reached its limit on connections (limits.connections); nothing was changed; retry later";
    Busy = "busy", 503, "Database busy: other transactions hold the locks",
        "other transactions held the locks for too long; nothing was changed",
        "retry after `Retry-After`; if it stays busy, look for another process that uses the database",
        "a long transaction of another program on the same rows",
        "other transactions held the locks for too long; nothing was changed; retry the request";
    Unavailable = "unavailable", 503, "Database unavailable",
        "the database cannot be used; nothing was changed",
        "retry after `Retry-After`; if it stays so, read the server's log",
        "the database is restarting, cannot be reached, or its disk is full",
        "the database is unavailable; nothing was changed; retry later; the server's log has the reason";
    StorageUnavailable = "storage-unavailable", 503, "Storage for blobs unavailable",
        "the storage for blobs failed, is full or is not configured; nothing was stored",
        "retry after `Retry-After`; if it stays so, read the server's log",
        "the bucket cannot be reached, the disk is full, or the server has no storage for blobs",
        "the storage for blobs cannot be used; nothing was stored; the server's log has the reason";
    Unusable = "unusable", 503, "Database unusable: it is missing, damaged, read-only or of another version",
        "the command line only: the database is missing, damaged, read-only or of another version; nothing was changed",
        "do what the message says; a retry does not help",
        "the path of the database is wrong, or its file may not be written",
        "the database is read-only; nothing was changed";
    NotReady = "not-ready", 503, "Server not ready",
        "`/readyz` only: the server does not take requests; `detail` has the reason",
        "wait, or correct the reason",
        "the server is starting or shutting down, or its database does not answer",
        "the server is shutting down";
    UnknownOutcome = "unknown-outcome", 504, "Unknown outcome: the request may have been executed",
        "the connection to the database was lost during the commit, so the request may have taken effect",
        "retry with the same `Idempotency-Key`",
        "the network or the database failed at the moment of the commit",
        "the request may have been executed; retry it with the same Idempotency-Key";
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

    /// Returns a typical cause, as a sentence without a full stop.
    pub fn cause(self) -> &'static str {
        self.parts().cause
    }

    /// Returns an example of the problem, as a server sends it.
    pub fn example(self) -> Problem {
        let mut example = Problem::new(self, self.parts().example);
        if self.is_transient() {
            example = example.retry_after(RETRY_AFTER);
        }
        match self {
            Kind::Invalid => example.field = Some("charges[0].limts".to_owned()),
            Kind::Refused => example = example.with_parts_of(&Refusal::Refused(vec![example_violation()])),
            Kind::UnknownScope => example.parts().scope = Some("agent:scuot".to_owned()),
            Kind::AlreadySettled => {
                example.state = Some("committed".into());
                example.parts().id = Some("hold_01j9zq3v4w5x6y7z8abcdefghj".to_owned());
            }
            Kind::SignatureRefused => example.parts().reason = Some("replayed".to_owned()),
            Kind::RangeNotSatisfiable => example.parts().size = Some(1024),
            Kind::LeaseLost => {
                example.state = Some("queued".into());
                example.parts().id = Some("job_01j9zq3v4w5x6y7z8abcdefghj".to_owned());
            }
            _ => {}
        }
        example.with_http_hint().of_request("01j9zq3v4w5x6y7z8abcdefghj")
    }

    /// Returns whether the same request may succeed later without any other change.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Kind::Overloaded
                | Kind::Busy
                | Kind::Unavailable
                | Kind::StorageUnavailable
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
            416 => Kind::RangeNotSatisfiable,
            429 => Kind::Overloaded,
            400..=499 => Kind::Invalid,
            503 => Kind::Unavailable,
            // A proxy gave up on the server, which may have executed the request.
            502 | 504 => Kind::UnknownOutcome,
            _ => Kind::Internal,
        }
    }

    pub(super) fn of(class: FailureClass<'_>) -> Kind {
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
            Refusal::BlobTooLarge { .. } => Kind::TooLarge,
            Refusal::LeaseLost { .. } => Kind::LeaseLost,
            Refusal::ForeignLease { .. } | Refusal::ForeignCharge { .. } => Kind::Forbidden,
            Refusal::Changed { .. } => Kind::Changed,
            Refusal::AlreadySettled { .. } => Kind::AlreadySettled,
            Refusal::Invalid(_)
            | Refusal::NoSuchCharge { .. }
            | Refusal::ActualAmbiguous { .. }
            | Refusal::UsageAmbiguous { .. }
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

/// Returns the violation of the example of a refusal: $0.30 of $5.00 are left, $0.50 are requested.
fn example_violation() -> Violation {
    Violation::Limit {
        scope: Scope::new("agent:scout").expect("a valid name"),
        window: Window::Calendar { unit: CalendarUnit::Month, zone: Zone::utc(), week_start: Weekday::default() },
        limit: 5_000_000,
        requested: 500_000,
        available: 300_000,
        retry_after: Some(Span::from_days(13)),
        possible: true,
        unit: Unit::named("usd"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_an_example_that_says_what_happened() {
        for kind in Kind::ALL {
            let example = kind.example();
            assert_eq!((example.kind, example.status), (*kind, kind.status()));
            assert!(!example.detail.is_empty() && !kind.cause().is_empty(), "{kind:?}");
        }
        let refused = Kind::Refused.example();
        let said = Refusal::Refused(vec![example_violation()]).to_string();
        assert_eq!(refused.detail, said, "the detail of the example is what the violation says");
    }
}
