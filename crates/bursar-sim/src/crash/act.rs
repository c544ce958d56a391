//! What callers ask for, in a shape that can be written down and asked again.

use std::time::Duration;

use bursar::{
    Actual, Answer, Bursar, Charge, Command, CommandId, Context, Error, GrantId, HoldId, IdempotencyKey, Invalid,
    JobId, JobKind, JobSpec, Op, Payload, Purpose, Queue, Redemption, Request, Scope, Settle, Span, StoreError,
    Subject,
};
use bursar_core::grant::Token;
use bursar_core::request::Mint;
use serde::{Deserialize, Serialize};

/// What every grant permits, and whom.
const PURPOSE: &str = "crash";
const SUBJECT: &str = "caller";
pub(crate) const QUEUE: &str = "crashes";
const GRANTED_FOR: Duration = Duration::from_secs(24 * 3_600);

/// Something to ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Act {
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
    },
    /// A hold, a redemption and a job at once. The job owns the hold, or the caller settles it.
    Metered {
        scope: String,
        amount: i64,
        token: String,
        job: String,
        owned: bool,
    },
}

/// What a caller was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Told {
    /// It is done, now or before.
    Done { command: CommandId, replayed: bool, made: Made },
    /// The rules said no.
    Refused(String),
    /// An error that promises that nothing has changed.
    Unchanged(String),
    /// Nobody knows.
    Unknown(String),
}

/// What came into being.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Made {
    pub(crate) hold: Option<HoldId>,
    pub(crate) job: Option<JobId>,
    /// The job is new.
    pub(crate) created: bool,
    pub(crate) grant: Option<GrantId>,
}

impl Act {
    /// The request this is, under a key by which it is also found in the journal.
    pub(crate) fn request(&self, key: &str) -> Result<Request, Error> {
        let op = match self {
            Act::Hold { scope, amount, ttl_ms } => {
                let settle = Settle::Hold { ttl: Some(Span::from_millis(*ttl_ms)) };
                Op::Submit(Command { charges: vec![charge(scope, *amount)?], settle, ..Command::default() })
            }
            Act::Post { scope, amount } => {
                Op::Submit(Command { charges: vec![charge(scope, *amount)?], ..Command::default() })
            }
            Act::Commit { hold, actual } => Op::Commit { hold: *hold, actual: Actual::Amount(*actual) },
            Act::Release { hold } => Op::Release { hold: *hold },
            Act::Extend { hold, by_ms } => Op::Extend { hold: *hold, by: Span::from_millis(*by_ms) },
            Act::Mint { token } => Op::Mint(mint(token)?),
            Act::Metered { scope, amount, token, job, owned } => {
                let mut spec = JobSpec::new(Queue::new(QUEUE)?, JobKind::new("render")?, Payload::default());
                spec.idempotency_key = Some(IdempotencyKey::new(job.as_str())?);
                spec.payload_from_grant = true;
                Op::Submit(Command {
                    charges: vec![charge(scope, *amount)?],
                    settle: if *owned { Settle::Job } else { Settle::Hold { ttl: Some(LONG) } },
                    redeem: vec![Redemption::new(Purpose::new(PURPOSE)?, Subject::new(SUBJECT)?, token)?],
                    jobs: vec![spec],
                })
            }
        };
        let context = Context { correlation_id: Some(key.to_owned()), ..Context::default() };
        Ok(Request::from(op).with_key(IdempotencyKey::new(key)?).in_context(context))
    }

    /// Asks for it.
    pub(crate) async fn ask(&self, bursar: &Bursar, key: &str) -> Told {
        let asked = match self.request(key) {
            Ok(request) => bursar.request(request).await,
            Err(error) => Err(error),
        };
        match asked {
            Ok(outcome) => {
                Told::Done { command: outcome.command, replayed: outcome.replayed, made: made(&outcome.answer) }
            }
            Err(Error::Refused(refusal)) => Told::Refused(refusal.to_string()),
            Err(Error::Store(error)) if matches!(*error, StoreError::UnknownOutcome(_)) => {
                Told::Unknown(error.to_string())
            }
            Err(error) => Told::Unchanged(error.to_string()),
        }
    }
}

/// Longer than any run.
pub(crate) const LONG: Span = Span::from_secs(24 * 3_600);

fn charge(scope: &str, amount: i64) -> Result<Charge, Invalid> {
    Ok(Charge::new(Scope::new(scope)?, amount))
}

fn mint(token: &str) -> Result<Mint, Error> {
    let token = Token::parse(token).map_err(|fault| Error::Internal(format!("a token of ours: {fault:?}")))?;
    Ok(Mint {
        id: token.id(),
        digest: token.digest(),
        purpose: Purpose::new(PURPOSE)?,
        subject: Subject::new(SUBJECT)?,
        payload: Payload::of(&"granted").map_err(|error| Error::Internal(format!("{error:?}")))?,
        ttl: Span::from(GRANTED_FOR),
    })
}

fn made(answer: &Answer) -> Made {
    match answer {
        Answer::Submitted(done) => Made {
            hold: done.hold.as_ref().map(|hold| hold.id),
            job: done.jobs.first().map(|job| job.id),
            created: done.jobs.first().is_some_and(|job| job.created),
            grant: None,
        },
        Answer::Settled(settled) => Made { hold: Some(settled.hold), ..Made::default() },
        Answer::Extended { hold, .. } => Made { hold: Some(*hold), ..Made::default() },
        Answer::Minted { grant, .. } => Made { grant: Some(*grant), ..Made::default() },
        _ => Made::default(),
    }
}
