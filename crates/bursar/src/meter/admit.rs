//! Asking the kernel: the one file of the meter that does.

use bursar_core::budget::{Budget, Limit};
use bursar_core::context::Actor;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Actual, Fingerprint, IfMatch, Op, Request};
use http::request::Parts;

use crate::api::command::CommandBuilder;
use crate::api::held::Held;
use crate::error::Error;
use crate::meter::Meter;
use crate::meter::caller::Caller;
use crate::meter::cost::Price;
use crate::meter::counters::count;
use crate::meter::settings::OnFailure;
use crate::meter::settle::{ActualCost, Open, Settlement, Streamed};
use crate::meter::standing::{QuotaExceeded, Standing};

/// Whether a quota admits something: with what comes of it, or with what is lacking.
pub type Admission<T> = Result<T, QuotaExceeded>;

impl Meter {
    /// Charges a caller if its quota leaves so much. What was admitted is durable.
    pub async fn check_and_record(&self, caller: &Caller, units: i64) -> Result<Admission<Standing>, Error> {
        let submitted = self.charge(caller, units).submit().await;
        let posted = self.admission(caller, submitted)?;
        Ok(posted.map(|receipt| Standing::of_charges(caller, &receipt.done.posted, receipt.command.at())))
    }

    /// Sets aside what something may cost, if the quota leaves so much; [`Reserved::settle`] says what it did cost.
    pub async fn reserve(&self, caller: &Caller, estimate: i64) -> Result<Admission<Reserved>, Error> {
        let held = self.hold(caller, estimate).await?;
        Ok(held.map(|(held, standing)| Reserved { meter: self.clone(), held: held.with_floor(estimate), standing }))
    }

    async fn hold(&self, caller: &Caller, estimate: i64) -> Result<Admission<(Held, Standing)>, Error> {
        let command = self.charge(caller, estimate).hold_for(self.inner.settings.hold());
        let held = self.admission(caller, command.submit_held().await)?;
        Ok(held.map(|(held, receipt)| {
            let charges = receipt.done.hold.as_ref().map_or(&[][..], |hold| &hold.charges);
            (held, Standing::of_charges(caller, charges, receipt.command.at()))
        }))
    }

    /// How a caller stands. Takes no lock, and changes nothing.
    pub async fn status(&self, caller: &Caller) -> Result<Standing, Error> {
        let view = self.bursar.ledger().budget(caller.scope()).await?;
        let now = self.bursar.now().await?;
        Ok(Standing::of_view(caller, view.as_ref(), &self.inner.settings.quota, now))
    }

    /// Gives one caller limits of its own, from now on and whatever the quota of others is. What it has spent stays spent.
    pub async fn set_limit(&self, caller: &Caller, limits: impl IntoIterator<Item = Limit>) -> Result<(), Error> {
        let limits: Vec<Limit> = limits.into_iter().collect();
        for _ in 0..DEFINITIONS_MAX {
            let (budget, read) = self.limited(caller, limits.clone()).await?;
            let op = Op::Define { scope: caller.scope().clone(), budget };
            let request = Request { if_match: read.map(IfMatch::Only), ..Request::from(op) };
            match self.bursar.execute(request).await {
                Err(Error::Refused(Refusal::Changed { .. })) => {}
                other => return other.map(drop),
            }
        }
        Err(Refusal::Changed { what: "budget" }.into())
    }

    /// The budget of a caller with other limits, and the digest of the one that was read for it.
    pub async fn limited(&self, caller: &Caller, limits: Vec<Limit>) -> Result<(Budget, Option<Fingerprint>), Error> {
        let known = self.bursar.ledger().budget(caller.scope()).await?.and_then(|view| view.budget);
        Ok(match known {
            Some(known) if !known.by_default => {
                let read = Fingerprint::of(&known);
                (Budget { limits, ..known }, Some(read))
            }
            // Whoever comes first, or with another default, does not stand in the way.
            _ => (self.inner.settings.budget(limits), None),
        })
    }

    fn charge(&self, caller: &Caller, units: i64) -> CommandBuilder {
        // Whoever acts for a caller knows better who that is.
        let bursar = match self.bursar.context.actor {
            Actor::System => self.bursar.by(Actor::Agent(caller.name().to_owned())),
            _ => self.bursar.clone(),
        };
        bursar.command().charge_or_define(caller.scope(), units, self.inner.quota.clone())
    }

    /// That units are lacking, or the scope is frozen, is an answer here; all else that is refused is an error.
    fn admission<T>(&self, caller: &Caller, submitted: Result<T, Error>) -> Result<Admission<T>, Error> {
        match submitted {
            Ok(done) => Ok(Ok(done)),
            Err(Error::Refused(refusal @ Refusal::Refused(_))) => {
                let retry_after = refusal.retry_after();
                let Refusal::Refused(violations) = refusal else { unreachable!("it was just matched") };
                let standing = Standing::of_violations(caller, &violations, self.inner.clock.now());
                Ok(Err(QuotaExceeded { standing, violations, retry_after }))
            }
            Err(error) => Err(error),
        }
    }
}

/// How often a budget is read anew because somebody else has changed it meanwhile.
const DEFINITIONS_MAX: usize = 10;

/// What was set aside for something that is not over yet.
///
/// Dropped without being settled it is charged in full, in the background: who does not say what it cost pays the estimate.
#[must_use = "what is dropped is charged in full"]
pub struct Reserved {
    meter: Meter,
    held: Held,
    standing: Standing,
}

impl Reserved {
    /// How the caller stood when it was admitted.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Charges what it really cost, and frees the rest.
    pub async fn settle(self, actual: i64) -> Result<Standing, Error> {
        let Reserved { meter, held, standing } = self;
        meter.commit(&standing.caller, held, actual).await
    }
}

/// What is to become of a request, for services that know their callers and payloads themselves.
#[derive(Debug)]
pub enum Verdict {
    /// It costs nothing, by its path or because the meter is off.
    Bypassed,
    /// It is paid: to be served, with [`Standing::tell`] in its answer.
    Paid(Standing),
    /// The quota leaves too little: not to be served.
    Exceeded(QuotaExceeded),
    /// The quota could not be asked: to be served all the same.
    FailedOpen,
    /// The quota could not be asked: not to be served.
    FailedClosed,
}

impl Meter {
    /// Charges a request to a caller by the path, the costs and the settings of this meter, in one phase.
    pub async fn charge_request(&self, caller: &Caller, head: &Parts, payload_bytes: u64) -> Verdict {
        if self.bypasses(head) {
            return Verdict::Bypassed;
        }
        let price = Price { two_phase: false, ..self.inner.settings.costs.price(head) };
        match self.ask(caller, price, Payload::Bytes(payload_bytes)).await {
            Asked::Paid(standing) => Verdict::Paid(standing),
            Asked::Exceeded(exceeded) => Verdict::Exceeded(exceeded),
            Asked::Open => Verdict::FailedOpen,
            Asked::Closed => Verdict::FailedClosed,
            Asked::Held(_) => unreachable!("one phase holds nothing"),
        }
    }

    /// Whether a request costs nothing, by its path or because the meter is off.
    pub(crate) fn bypasses(&self, head: &Parts) -> bool {
        let settings = &self.inner.settings;
        let path = head.uri.path();
        let bypassed = !settings.enabled || settings.bypass.iter().any(|pattern| pattern.matches(path));
        if bypassed {
            count(&self.inner.counters.bypassed);
        }
        bypassed
    }
}

/// What came of asking for a request.
pub(crate) enum Asked {
    /// It is paid.
    Paid(Standing),
    /// What it may cost is set aside.
    Held(Settlement),
    /// The quota leaves too little.
    Exceeded(QuotaExceeded),
    /// The quota could not be asked: it is served all the same …
    Open,
    /// … or not.
    Closed,
}

/// How large a payload is.
pub(crate) enum Payload {
    Bytes(u64),
    /// Nobody tells: it is counted while it comes.
    Streamed(Streamed),
}

impl Meter {
    /// Charges a request, or sets aside what it may cost; counts and logs what came of it.
    pub(crate) async fn ask(&self, caller: &Caller, price: Price, payload: Payload) -> Asked {
        let (settings, counters) = (&self.inner.settings, &self.inner.counters);
        let (estimate, streamed) = match payload {
            Payload::Streamed(streamed) if price.per_kib > 0 => {
                (price.with_payload(u64::from(settings.streamed_kib) * 1_024), Some(streamed))
            }
            Payload::Streamed(_) => (price.fixed, None),
            Payload::Bytes(bytes) => (price.with_payload(bytes), None),
        };
        let asked = if price.two_phase || streamed.is_some() {
            let held = self.within_patience(self.hold_apart(caller, estimate)).await;
            held.map(|held| {
                held.map(|(held, standing)| {
                    let (meter, report) = (self.clone(), ActualCost::unsaid());
                    Asked::Held(Settlement::new(Open { meter, held, standing, estimate, price, streamed, report }))
                })
            })
        } else {
            let paid = self.within_patience(self.check_and_record(caller, estimate)).await;
            paid.map(|paid| paid.map(Asked::Paid))
        };
        match asked {
            Ok(Ok(asked)) => {
                count(&counters.admitted);
                asked
            }
            Ok(Err(exceeded)) => {
                count(&counters.exceeded);
                Asked::Exceeded(exceeded)
            }
            Err(error) if settings.on_failure == OnFailure::Open => {
                count(&counters.failed_open);
                tracing::warn!(%caller, %error, "a quota could not be asked: the request is served, and costs nothing");
                Asked::Open
            }
            Err(error) => {
                count(&counters.failed_closed);
                tracing::warn!(%caller, %error, "a quota could not be asked: the request is refused");
                Asked::Closed
            }
        }
    }

    /// Charges what a hold really cost.
    pub(crate) async fn commit(&self, caller: &Caller, held: Held, actual: i64) -> Result<Standing, Error> {
        let hold = held.id();
        let settled = match held.commit(actual.max(0)).await {
            // Somebody gave the budget a policy that is not for what has been spent already: as much as it admits is charged.
            Err(Error::Refused(Refusal::OverrunRefused { .. })) => {
                tracing::warn!(%caller, actual, "a budget refuses what a request cost above its estimate");
                self.bursar.ledger().commit(hold, Actual::Held).await
            }
            settled => settled,
        };
        Ok(Standing::of_charges(caller, &settled?.charges, self.inner.clock.now()))
    }

    /// Holds in a task of its own. When the caller leaves meanwhile nothing was served yet, and the hold is released as the task
    /// drops it.
    async fn hold_apart(&self, caller: &Caller, estimate: i64) -> Result<Admission<(Held, Standing)>, Error> {
        let (meter, caller) = (self.clone(), caller.clone());
        self.apart(async move { meter.hold(&caller, estimate).await }).await
    }

    /// Does something that is to come to its end also when nobody waits for it any more.
    pub(crate) async fn apart<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let task = self.bursar.inner.runtime.spawn(work);
        task.await.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
    }

    async fn within_patience<T>(&self, asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let patience = self.inner.settings.patience();
        tokio::time::timeout(patience, asked).await.unwrap_or_else(|_| {
            Err(bursar_store::StoreError::Busy(format!("no answer within {} ms", patience.as_millis())).into())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use bursar_store::ManualClock;

    use super::*;
    use crate::api::instance::Bursar;

    /// A log that can be read.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("nobody panicked").extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Lines {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut *self.0.lock().expect("nobody panicked"))).expect("text")
        }
    }

    #[tokio::test]
    async fn a_quota_that_cannot_be_asked_is_logged_whatever_becomes_of_the_request() {
        let (lines, bursar) = (Lines::default(), Bursar::open("sqlite::memory:").await.expect("a database in memory"));
        let clock = Arc::new(ManualClock::at(bursar_core::time::Time::from_micros(0)));
        let meter = |on_failure| {
            let builder = Meter::builder(bursar.clone()).clock(clock.clone());
            builder.set(|settings| settings.on_failure = on_failure).build().expect("a meter")
        };
        let (open, closed) = (meter(OnFailure::Open), meter(OnFailure::Closed));
        let writer = lines.clone();
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let _log = tracing::subscriber::set_default(log);
        let (caller, (head, ())) = (Caller::new("somebody").expect("a caller"), http::Request::new(()).into_parts());
        assert!(matches!(open.charge_request(&caller, &head, 0).await, Verdict::Paid(_)));
        assert!(matches!(closed.charge_request(&caller, &head, 0).await, Verdict::Paid(_)));
        assert_eq!(lines.take(), "", "what goes well is not logged");
        bursar.clone().close().await;
        assert!(matches!(open.charge_request(&caller, &head, 0).await, Verdict::FailedOpen));
        let told = lines.take();
        assert!(told.contains(" WARN ") && told.contains("somebody") && told.contains("is served"), "{told:?}");
        assert!(matches!(closed.charge_request(&caller, &head, 0).await, Verdict::FailedClosed));
        let told = lines.take();
        assert!(told.contains(" WARN ") && told.contains("somebody") && told.contains("is refused"), "{told:?}");
    }
}
