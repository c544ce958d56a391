//! Batches on an engine with several writers: tried again where that is safe, and cut where a stranger's keys are in the way.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bursar_core::mutant::Mutant;
use bursar_core::needs::Needs;
use bursar_core::request::Request;
use bursar_core::time::Time;

use crate::error::StoreError;
use crate::store::{Lock, Patience, Verdict};

/// How often a batch is tried.
const ATTEMPTS: u32 = 6;
/// How often a batch is cut in halves for the sake of keys that somebody else is about to take.
const CUTS_MAX: usize = 16;

/// An engine on which a batch may have to be tried again.
#[expect(
    async_fn_in_trait,
    reason = "an engine is named where it is used, so that the compiler sees what its futures are"
)]
pub trait Attempts {
    /// An open transaction.
    type Tx;

    /// How long a batch waits for a key that somebody else is about to take.
    fn key_patience(&self) -> Duration;

    /// Does requests in one step, without having locked anything, and says what they come to and the instant it was decided at.
    /// `None` where they need locks: then nothing has happened.
    async fn at_once(&self, requests: &[&Request]) -> Result<Option<(Vec<Verdict>, Time)>, Setback> {
        let _ = requests;
        Ok(None)
    }

    /// Everything but the commit: waits for `first` if there is one, loads, decides and stores, and waits `wait` at most
    /// for whatever else it needs.
    async fn prepare(
        &self,
        requests: &[&Request],
        first: Option<(&Lock, Duration)>,
        wait: Duration,
    ) -> Result<Prepared<Self::Tx>, Setback>;

    /// Commits; returns when it is durable.
    async fn finish(&self, tx: Self::Tx) -> Result<(), Setback>;

    /// Waits for a name that somebody is about to take.
    async fn wait_for_name(&self, lock: &Lock, patience: Duration) -> Result<(), StoreError>;

    /// This node has decided at an instant: its time does not go below it any more.
    fn seen(&self, now: Time);
}

/// A transaction that only needs to be committed.
#[derive(Debug)]
pub struct Prepared<T> {
    /// The transaction.
    pub tx: T,
    /// What its requests come to.
    pub verdicts: Vec<Verdict>,
    /// The instant it was decided at.
    pub now: Time,
}

/// Why an attempt came to nothing. All of these leave no trace, unless the error says `unknown outcome`.
#[derive(Debug)]
pub enum Setback {
    /// A key that was free has been taken meanwhile: what was decided is out of date.
    Taken,
    /// A key is about to be taken, or a queue or a grant to be changed, by somebody who takes his time.
    KeyLocked,
    /// Beside the row that was waited for, others are locked.
    Contended,
    /// The same attempt may succeed the next time.
    Passing(StoreError),
    /// Trying again would be of no use, or is not known to be safe.
    Final(StoreError),
}

/// Does the requests in one transaction; in several where some of them wait for a stranger's keys.
pub async fn commit_all<A: Attempts>(
    engine: &A,
    requests: &[&Request],
    patience: Patience,
) -> Result<Vec<Verdict>, StoreError> {
    let mut verdicts: Vec<Option<Verdict>> = vec![None; requests.len()];
    let mut parts: Vec<Range<usize>> = Vec::new();
    parts.push(0..requests.len());
    let mut cuts = 0;
    while let Some(part) = parts.pop() {
        let error = match commit_part(engine, &requests[part.clone()], &patience, cuts > 0).await {
            Ok(some) => {
                verdicts[part].iter_mut().zip(some).for_each(|(slot, verdict)| *slot = Some(verdict));
                continue;
            }
            Err(Setback::KeyLocked) if part.len() > 1 && cuts < CUTS_MAX => {
                cuts += 1;
                let middle = part.start + part.len() / 2;
                parts.extend([middle..part.end, part.start..middle]);
                continue;
            }
            Err(Setback::KeyLocked) => {
                for place in part {
                    let names = names(requests[place]);
                    let busy = || Verdict::Failed(Arc::new(StoreError::Busy("somebody else changes the same".into())));
                    verdicts[place] = Some(if names.is_empty() { busy() } else { Verdict::Blocked(names) });
                }
                continue;
            }
            Err(Setback::Taken | Setback::Contended) => StoreError::Busy("keys were taken again and again".into()),
            Err(Setback::Passing(error) | Setback::Final(error)) => error,
        };
        if part.len() == requests.len() {
            return Err(error);
        }
        // What is done must be told, whatever becomes of the rest.
        let error = Arc::new(error);
        verdicts[part].iter_mut().for_each(|slot| *slot = Some(Verdict::Failed(error.clone())));
    }
    Ok(verdicts.into_iter().map(|verdict| verdict.expect("every part has its verdicts")).collect())
}

async fn commit_part<A: Attempts>(
    engine: &A,
    requests: &[&Request],
    patience: &Patience,
    cut: bool,
) -> Result<Vec<Verdict>, Setback> {
    // Somebody who takes his time is there: it is only a question of whose requests he is in the way of.
    let wait = if cut { engine.key_patience() / 20 } else { engine.key_patience() };
    let mut first = match patience {
        Patience::Skip => None,
        Patience::First(lock @ (Lock::Key(_) | Lock::JobKey(_)), wait) => {
            engine.wait_for_name(lock, *wait).await.map_err(Setback::Final)?;
            None
        }
        Patience::First(lock, wait) => Some((lock, *wait)),
    };
    if first.is_none()
        && !cut
        && let Some((verdicts, now)) = engine.at_once(requests).await?
    {
        engine.seen(now);
        return Ok(verdicts);
    }
    let mut attempt = 1;
    loop {
        match once(engine, requests, first, wait).await {
            // To wait any longer would keep others from what is held already: see instead what is in the way.
            Err(Setback::Contended) => first = None,
            Err(Setback::Taken) if attempt < ATTEMPTS => {}
            Err(Setback::Passing(error)) if attempt < ATTEMPTS => {
                tracing::debug!(%error, attempt, "a batch is tried again");
                tokio::time::sleep(Duration::from_millis(5 << attempt)).await;
            }
            end => return end,
        }
        attempt += 1;
    }
}

async fn once<A: Attempts>(
    engine: &A,
    requests: &[&Request],
    first: Option<(&Lock, Duration)>,
    wait: Duration,
) -> Result<Vec<Verdict>, Setback> {
    let Prepared { tx, verdicts, now } = engine.prepare(requests, first, wait).await?;
    let done = engine.finish(tx).await;
    if !Mutant::AnswerBeforeCommit.on() {
        done?;
    }
    // Also where nothing was written: what was refused as expired stays expired.
    engine.seen(now);
    Ok(verdicts)
}

/// The names a request takes, and the grants it ends, on one of which somebody else is sitting.
fn names(request: &Request) -> Vec<Lock> {
    let Needs { keys, job_keys, grants, .. } = Needs::of(request);
    let names = keys.into_iter().map(Lock::Key).chain(job_keys.into_iter().map(Lock::JobKey));
    names.chain(grants.into_iter().map(Lock::Grant)).collect()
}
