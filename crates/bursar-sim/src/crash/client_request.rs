//! Requests of callers in a form that can be logged and sent again.

use bursar::{
    Actual, Answer, Bursar, Charge, Command, CommandId, Context, Error, GrantId, HoldId, IdempotencyKey, Invalid,
    JobId, JobKind, JobSpec, Op, Payload, Purpose, Queue, Redemption, Request, Scope, Settle, Span, StoreError,
    Subject,
};
use bursar_core::grant::Token;
use bursar_core::request::Mint;
use serde::{Deserialize, Serialize};

/// The purpose and the subject of every grant.
const PURPOSE: &str = "crash";
const SUBJECT: &str = "caller";
pub(crate) const QUEUE: &str = "crashes";

/// A request of a caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ClientRequest {
    Hold {
        scope: String,
        amount: i64,
        ttl_ms: u64,
    },
    Post {
        scope: String,
        amount: i64,
    },
    Commit {
        hold: HoldId,
        actual: i64,
    },
    Release {
        hold: HoldId,
    },
    Extend {
        hold: HoldId,
        by_ms: u64,
    },
    Mint {
        token: String,
        ttl_ms: u64,
    },
    /// A command with a hold, a redemption and a job. Either the job owns the hold or the caller settles it.
    Metered {
        scope: String,
        amount: i64,
        token: String,
        job: String,
        owned: bool,
    },
}

/// The response that a caller received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Response {
    /// The request was done, now or before.
    Done { command: CommandId, replayed: bool, created: Created },
    /// The rules refused it.
    Refused(String),
    /// An error that guarantees that nothing changed.
    Unchanged(String),
    /// An error that leaves the outcome unknown.
    Unknown(String),
}

/// The objects that a request created or named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Created {
    pub(crate) hold: Option<HoldId>,
    pub(crate) job: Option<JobId>,
    /// Whether the job is new.
    pub(crate) job_created: bool,
    pub(crate) grant: Option<GrantId>,
}

impl ClientRequest {
    /// Returns the engine request. Its key is also its correlation id in the journal.
    fn engine_request(&self, key: &str) -> Result<Request, Error> {
        let op = match self {
            ClientRequest::Hold { scope, amount, ttl_ms } => {
                let settle = Settle::Hold { ttl: Some(Span::from_millis(*ttl_ms)) };
                Op::Submit(Command { charges: vec![charge(scope, *amount)?], settle, ..Command::default() })
            }
            ClientRequest::Post { scope, amount } => {
                Op::Submit(Command { charges: vec![charge(scope, *amount)?], ..Command::default() })
            }
            ClientRequest::Commit { hold, actual } => Op::Commit { hold: *hold, actual: Actual::Amount(*actual) },
            ClientRequest::Release { hold } => Op::Release { hold: *hold },
            ClientRequest::Extend { hold, by_ms } => Op::Extend { hold: *hold, by: Span::from_millis(*by_ms) },
            ClientRequest::Mint { token, ttl_ms } => Op::Mint(mint(token, Span::from_millis(*ttl_ms))?),
            ClientRequest::Metered { scope, amount, token, job, owned } => {
                let mut spec = JobSpec::new(Queue::new(QUEUE)?, JobKind::new("render")?, Payload::default());
                spec.idempotency_key = Some(IdempotencyKey::new(job.as_str())?);
                spec.payload_from_grant = true;
                Op::Submit(Command {
                    charges: vec![charge(scope, *amount)?],
                    settle: if *owned { Settle::Job } else { Settle::Hold { ttl: Some(LONG) } },
                    redeem: vec![Redemption::new(Purpose::new(PURPOSE)?, Subject::new(SUBJECT)?, token)?],
                    jobs: vec![spec],
                    ..Command::default()
                })
            }
        };
        let context = Context { correlation_id: Some(key.to_owned()), ..Context::default() };
        Ok(Request::from(op).with_key(IdempotencyKey::new(key)?).in_context(context))
    }

    /// Sends the request and returns the response.
    pub(crate) async fn send(&self, bursar: &Bursar, key: &str) -> Response {
        let result = match self.engine_request(key) {
            Ok(request) => bursar.request(request).await,
            Err(error) => Err(error),
        };
        match result {
            Ok(outcome) => Response::Done {
                command: outcome.command,
                replayed: outcome.replayed,
                created: created(&outcome.answer),
            },
            Err(Error::Refused(refusal)) => Response::Refused(refusal.to_string()),
            Err(Error::Store(error)) if matches!(*error, StoreError::UnknownOutcome(_)) => {
                Response::Unknown(error.to_string())
            }
            Err(error) => Response::Unchanged(error.to_string()),
        }
    }
}

/// Longer than any run.
pub(crate) const LONG: Span = Span::from_secs(24 * 3_600);

fn charge(scope: &str, amount: i64) -> Result<Charge, Invalid> {
    Ok(Charge::new(Scope::new(scope)?, amount))
}

fn mint(token: &str, ttl: Span) -> Result<Mint, Error> {
    let token = Token::parse(token)
        .map_err(|fault| Error::Internal(format!("a generated token cannot be parsed: {fault:?}")))?;
    Ok(Mint {
        id: token.id(),
        digest: token.digest(),
        purpose: Purpose::new(PURPOSE)?,
        subject: Subject::new(SUBJECT)?,
        payload: Payload::of(&"granted").map_err(|error| Error::Internal(format!("{error:?}")))?,
        ttl,
    })
}

fn created(answer: &Answer) -> Created {
    match answer {
        Answer::Submitted(done) => Created {
            hold: done.hold.as_ref().map(|hold| hold.id),
            job: done.jobs.first().map(|job| job.id),
            job_created: done.jobs.first().is_some_and(|job| job.created),
            grant: None,
        },
        Answer::Settled(settled) => Created { hold: Some(settled.hold), ..Created::default() },
        Answer::Extended { hold, .. } => Created { hold: Some(*hold), ..Created::default() },
        Answer::Minted { grant, .. } => Created { grant: Some(*grant), ..Created::default() },
        _ => Created::default(),
    }
}
