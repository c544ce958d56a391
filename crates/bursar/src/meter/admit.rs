//! Admission: charges requests to their callers' quotas. Only this file and `slices.rs` make requests to Bursar.

use bursar_core::budget::{Budget, Limit};
use bursar_core::context::Actor;
use bursar_core::name::IdempotencyKey;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Actual, Fingerprint, IfMatch, Op, Request};
use http::request::Parts;
use serde::Serialize;

use crate::api::command::CommandBuilder;
use crate::api::held::{Held, NotSettled};
use crate::error::Error;
use crate::meter::Meter;
use crate::meter::caller::Caller;
use crate::meter::cost::Price;
use crate::meter::counters::count;
use crate::meter::settings::OnFailure;
use crate::meter::settle::{ActualCost, PendingSettlement, Settlement, StreamedBytes};
use crate::meter::signed::SignedRequest;
use crate::meter::standing::{QuotaExceeded, Standing};

/// The result of a charge: `T` if the quota admits it, or why it does not.
pub type Admission<T> = Result<T, QuotaExceeded>;

impl Meter {
    /// Charges `units` to a caller's quota if it leaves that many. Returns when the charge is durable. If the quota is
    /// exceeded, nothing is charged.
    pub async fn check_and_record(&self, caller: &Caller, units: i64) -> Result<Admission<Standing>, Error> {
        let submitted = self.charge(caller, units).submit().await;
        let posted = self.admission(caller, submitted)?;
        Ok(posted.map(|receipt| Standing::of_charges(caller, &receipt.done.posted, receipt.command.at())))
    }

    /// Charges like [`Meter::check_and_record`], at most once for an idempotency key: a retry with the same key gets the
    /// first answer and charges nothing. A refusal is not recorded, so a retry after it is checked again.
    pub async fn check_and_record_once(
        &self,
        caller: &Caller,
        units: i64,
        once: Once,
    ) -> Result<Admission<Recorded>, Error> {
        // A retry names the same charge even if the default quota, which is part of the command, has changed since.
        let whole = once.asked.unwrap_or_else(|| Fingerprint::of(&(caller.scope(), units)));
        let submitted = self.charge(caller, units).key_of(once.key, whole).submit().await;
        Ok(self.admission(caller, submitted)?.map(|receipt| Recorded {
            standing: Standing::of_charges(caller, &receipt.done.posted, receipt.command.at()),
            cost: receipt.done.posted.iter().map(|charged| charged.amount).sum(),
            replayed: receipt.replayed,
        }))
    }

    /// Holds `estimate` units of a caller's quota if it leaves that many. [`Reserved::settle`] then charges the actual
    /// cost.
    pub async fn reserve(&self, caller: &Caller, estimate: i64) -> Result<Admission<Reserved>, Error> {
        let held = self.hold(caller, estimate, None).await?;
        Ok(held.map(|(held, standing)| Reserved { meter: self.clone(), held: held.with_floor(estimate), standing }))
    }

    async fn hold(
        &self,
        caller: &Caller,
        estimate: i64,
        once: Option<(IdempotencyKey, Fingerprint)>,
    ) -> Result<Admission<(Held, Standing)>, Error> {
        let mut command = self.charge(caller, estimate).hold_for(self.inner.settings.hold());
        if let Some((key, whole)) = once {
            command = command.key_of(key, whole);
        }
        let held = self.admission(caller, command.submit_held().await)?;
        Ok(held.map(|(held, receipt)| {
            let charges = receipt.done.hold.as_ref().map_or(&[][..], |hold| &hold.charges);
            (held, Standing::of_charges(caller, charges, receipt.command.at()))
        }))
    }

    /// Returns what is left of a caller's quota. Takes no lock and changes nothing.
    pub async fn status(&self, caller: &Caller) -> Result<Standing, Error> {
        let view = self.bursar.ledger().budget(caller.scope()).await?;
        let now = self.bursar.now().await?;
        Ok(Standing::of_view(caller, view.as_ref(), &self.inner.settings.quota, now))
    }

    /// Sets the limits of one caller, instead of the default quota. What it has spent in a window still counts.
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

    /// Returns the budget of a caller with other limits, and the fingerprint of the budget that was read for it, if one was
    /// defined. With the fingerprint, a definition fails if the budget changed in the meantime.
    pub async fn limited(&self, caller: &Caller, limits: Vec<Limit>) -> Result<(Budget, Option<Fingerprint>), Error> {
        let known = self.bursar.ledger().budget(caller.scope()).await?.and_then(|view| view.budget);
        Ok(match known {
            Some(known) if !known.by_default => {
                let read = Fingerprint::of(&known);
                (Budget { limits, ..known }, Some(read))
            }
            // Without a defined budget there is nothing to preserve. A default that a charge registers meanwhile is replaced.
            _ => (self.inner.settings.budget(limits), None),
        })
    }

    pub(super) fn charge(&self, caller: &Caller, units: i64) -> CommandBuilder {
        // An actor that the application has set is more precise than the name of the caller.
        let bursar = match self.bursar.context.actor {
            Actor::System => self.bursar.by(Actor::Agent(caller.name().to_owned())),
            _ => self.bursar.clone(),
        };
        bursar.command().charge_or_define(caller.scope(), units, self.inner.quota.clone())
    }

    /// Turns a refusal by a limit or a freeze into [`QuotaExceeded`]. Other refusals are errors.
    pub(super) fn admission<T>(&self, caller: &Caller, submitted: Result<T, Error>) -> Result<Admission<T>, Error> {
        match submitted {
            Ok(done) => Ok(Ok(done)),
            Err(Error::Refused(refusal @ Refusal::Refused(_))) => {
                let retry_after = refusal.retry_after();
                let Refusal::Refused(violations) = refusal else { unreachable!("matched above") };
                let standing = Standing::of_violations(caller, &violations, self.inner.clock.now());
                Ok(Err(QuotaExceeded { standing, violations, retry_after }))
            }
            Err(error) => Err(error),
        }
    }
}

/// The most attempts to define a budget that other requests change at the same time.
const DEFINITIONS_MAX: usize = 10;

/// The idempotency key of a charge, and what was asked for with it.
#[derive(Clone, Debug)]
pub struct Once {
    key: IdempotencyKey,
    /// The digest of what was asked for; by default that of the caller and the units.
    asked: Option<Fingerprint>,
}

impl Once {
    /// Charges once for this key. Using it again for another caller or other units is refused as a conflict.
    pub fn new(key: IdempotencyKey) -> Once {
        Once { key, asked: None }
    }

    /// Sets what the key stands for, such as the body of a request. Use this if the units follow from settings, so that a
    /// retry after a change of prices is still a retry.
    pub fn asked(self, request: &impl Serialize) -> Once {
        Once { asked: Some(Fingerprint::of(request)), ..self }
    }
}

/// A charge with an idempotency key that was admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// What was left of the caller's quota after the charge.
    pub standing: Standing,
    /// The units that were charged.
    pub cost: i64,
    /// Whether this is the answer to an earlier charge with the same key. Nothing was charged now.
    pub replayed: bool,
}

/// Units of a caller's quota that are held until the actual cost is known.
///
/// If it is dropped without being settled, a background task charges the estimate in full.
#[must_use = "the estimate is charged in full when this is dropped"]
pub struct Reserved {
    meter: Meter,
    held: Held,
    standing: Standing,
}

impl Reserved {
    /// Returns what was left of the caller's quota when the hold was placed.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Charges the actual cost and frees the rest. A cost above the estimate is charged too. Returns what is left of the
    /// quota.
    pub async fn settle(self, actual: i64) -> Result<Standing, Error> {
        let Reserved { meter, held, standing } = self;
        meter.commit(&standing.caller, held, actual).await
    }
}

/// The outcome of [`Meter::charge_request`].
#[derive(Debug)]
pub enum ChargeOutcome {
    /// The request costs nothing, because of its path or because the meter is off. Serve it.
    Bypassed,
    /// The request is charged. Serve it, and add the headers of [`Standing::tell`] to the response.
    Paid(Standing),
    /// The quota is exceeded; nothing was charged. Do not serve the request.
    Exceeded(QuotaExceeded),
    /// The quota could not be checked. Serve the request.
    FailedOpen,
    /// The quota could not be checked. Do not serve the request.
    FailedClosed,
    /// The request was signed and is a repetition; nothing was charged. Do not serve the request.
    Replayed,
}

impl Meter {
    /// Charges a request to a caller by the path, the costs and the settings of this meter, in one phase. For services that
    /// identify their callers and read their payloads themselves; others use [`Meter::layer`].
    pub async fn charge_request(&self, caller: &Caller, head: &Parts, payload_bytes: u64) -> ChargeOutcome {
        self.charge_signed_request(caller, head, payload_bytes, None).await
    }

    /// Charges like [`Meter::charge_request`]. A signature from [`Meter::signature_of`] is accepted once.
    pub async fn charge_signed_request(
        &self,
        caller: &Caller,
        head: &Parts,
        payload_bytes: u64,
        signed: Option<&SignedRequest>,
    ) -> ChargeOutcome {
        if self.bypasses(head) {
            return ChargeOutcome::Bypassed;
        }
        let price = Price { two_phase: false, ..self.inner.settings.costs.price(head) };
        match self.admit(caller, price, PayloadSize::Known(payload_bytes), signed).await {
            Admitted::Replayed => ChargeOutcome::Replayed,
            Admitted::Paid(standing) => ChargeOutcome::Paid(standing),
            Admitted::Exceeded(exceeded) => ChargeOutcome::Exceeded(exceeded),
            Admitted::FailedOpen => ChargeOutcome::FailedOpen,
            Admitted::FailedClosed => ChargeOutcome::FailedClosed,
            Admitted::Held(_) => unreachable!("a request of one phase is not held"),
        }
    }

    /// Returns the units that a request with this head and payload costs; `None` if its path is in the setting `bypass`.
    /// For a two-phase operation this is the estimate.
    pub fn cost_of(&self, head: &Parts, payload_bytes: u64) -> Option<i64> {
        (!self.is_free(head)).then(|| self.inner.settings.costs.price(head).with_payload(payload_bytes))
    }

    /// Returns whether a request costs nothing, because of its path or because the meter is off; counts it if so.
    pub(crate) fn bypasses(&self, head: &Parts) -> bool {
        let bypassed = !self.inner.settings.enabled || self.is_free(head);
        if bypassed {
            count(&self.inner.counters.bypassed);
        }
        bypassed
    }

    /// Returns whether the path of a request is in the setting `bypass`.
    fn is_free(&self, head: &Parts) -> bool {
        let path = head.uri.path();
        self.inner.settings.bypass.iter().any(|pattern| pattern.matches(path))
    }
}

/// The outcome of admitting a request.
pub(crate) enum Admitted {
    /// The cost is charged.
    Paid(Standing),
    /// The estimate is held.
    Held(Settlement),
    /// The quota is exceeded.
    Exceeded(QuotaExceeded),
    /// The quota could not be checked, and the request is served.
    FailedOpen,
    /// The quota could not be checked, and the request is refused.
    FailedClosed,
    /// The signature of the request was used before.
    Replayed,
}

/// The size of a request's payload.
pub(crate) enum PayloadSize {
    /// In bytes.
    Known(u64),
    /// Not known in advance: the bytes are counted as they arrive.
    Streamed(StreamedBytes),
}

impl Meter {
    /// Charges a request, or holds its estimate; counts and logs the outcome.
    pub(crate) async fn admit(
        &self,
        caller: &Caller,
        price: Price,
        payload: PayloadSize,
        signed: Option<&SignedRequest>,
    ) -> Admitted {
        let (settings, counters) = (&self.inner.settings, &self.inner.counters);
        if signed.is_some_and(|signed| !self.is_first(signed)) {
            count(&counters.rejected);
            return Admitted::Replayed;
        }
        let once = signed.map(SignedRequest::once);
        let (estimate, streamed) = match payload {
            PayloadSize::Streamed(streamed) if price.per_kib > 0 => {
                (price.with_payload(u64::from(settings.streamed_kib) * 1_024), Some(streamed))
            }
            PayloadSize::Streamed(_) => (price.fixed, None),
            PayloadSize::Known(bytes) => (price.with_payload(bytes), None),
        };
        let admission = if price.two_phase || streamed.is_some() {
            let held = self.with_timeout(self.hold_in_task(caller, estimate, once)).await;
            held.map(|held| {
                held.map(|(held, standing)| {
                    let (meter, report) = (self.clone(), ActualCost::unset());
                    let pending = PendingSettlement { meter, held, standing, estimate, price, streamed, report };
                    Admitted::Held(Settlement::new(pending))
                })
            })
        } else {
            let paid = match once {
                Some((key, asked)) => {
                    let once = Once { key, asked: Some(asked) };
                    let recorded = self.with_timeout(self.check_and_record_once(caller, estimate, once)).await;
                    recorded.map(|recorded| recorded.map(|recorded| recorded.standing))
                }
                None => match settings.slices {
                    Some(slices) => self.with_timeout(self.admit_in_memory(slices, caller, estimate)).await,
                    None => self.with_timeout(self.check_and_record(caller, estimate)).await,
                },
            };
            paid.map(|paid| paid.map(Admitted::Paid))
        };
        match admission {
            Ok(Ok(admitted)) => {
                count(&counters.admitted);
                admitted
            }
            Ok(Err(exceeded)) => {
                count(&counters.exceeded);
                Admitted::Exceeded(exceeded)
            }
            // Another node has charged a request with this signature.
            Err(Error::Refused(Refusal::KeyReused { .. })) if signed.is_some() => {
                count(&counters.rejected);
                Admitted::Replayed
            }
            Err(error) if settings.on_failure == OnFailure::Open => {
                count(&counters.failed_open);
                tracing::warn!(%caller, %error, "quota check failed, serving the request without charge");
                Admitted::FailedOpen
            }
            Err(error) => {
                count(&counters.failed_closed);
                tracing::warn!(%caller, %error, "quota check failed, refusing the request");
                Admitted::FailedClosed
            }
        }
    }

    /// Commits a hold with the actual cost of its request.
    pub(crate) async fn commit(&self, caller: &Caller, held: Held, actual: i64) -> Result<Standing, Error> {
        let settled = match held.with_floor(Actual::Held).commit(actual.max(0)).await {
            // The caller's budget was given a policy that refuses overruns: charge as much as it admits.
            Err(NotSettled { error: Error::Refused(Refusal::OverrunRefused { .. }), held: Some(held) }) => {
                tracing::warn!(%caller, actual, "overrun refused by the budget, charging the estimate");
                held.commit(Actual::Held).await
            }
            settled => settled,
        };
        Ok(Standing::of_charges(caller, &settled?.charges, self.inner.clock.now()))
    }

    /// Places a hold in a task of its own. If the client disconnects meanwhile, nothing was served: the task drops the
    /// handle, which releases the hold.
    async fn hold_in_task(
        &self,
        caller: &Caller,
        estimate: i64,
        once: Option<(IdempotencyKey, Fingerprint)>,
    ) -> Result<Admission<(Held, Standing)>, Error> {
        let (meter, caller) = (self.clone(), caller.clone());
        self.run_to_end(async move { meter.hold(&caller, estimate, once).await }).await
    }

    /// Runs a future to its end in a task, even if the caller of this function is cancelled.
    pub(crate) async fn run_to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let task = self.bursar.inner.runtime.spawn(work);
        task.await.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
    }

    async fn with_timeout<T>(&self, check: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let timeout = self.inner.settings.patience();
        tokio::time::timeout(timeout, check).await.unwrap_or_else(|_| {
            Err(bursar_store::StoreError::Busy(format!("no answer within {} ms", timeout.as_millis())).into())
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

    /// A log in memory.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no thread panicked").extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Lines {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut *self.0.lock().expect("no thread panicked"))).expect("text")
        }
    }

    #[tokio::test]
    async fn a_failed_quota_check_is_logged() {
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
        let (caller, (head, ())) = (Caller::new("alice").expect("a caller"), http::Request::new(()).into_parts());
        assert!(matches!(open.charge_request(&caller, &head, 0).await, ChargeOutcome::Paid(_)));
        assert!(matches!(closed.charge_request(&caller, &head, 0).await, ChargeOutcome::Paid(_)));
        assert_eq!(lines.take(), "", "success is not logged");
        bursar.clone().close().await;
        assert!(matches!(open.charge_request(&caller, &head, 0).await, ChargeOutcome::FailedOpen));
        let log = lines.take();
        assert!(log.contains(" WARN ") && log.contains("alice") && log.contains("serving the request"), "{log:?}");
        assert!(matches!(closed.charge_request(&caller, &head, 0).await, ChargeOutcome::FailedClosed));
        let log = lines.take();
        assert!(log.contains(" WARN ") && log.contains("alice") && log.contains("refusing the request"), "{log:?}");
    }
}
