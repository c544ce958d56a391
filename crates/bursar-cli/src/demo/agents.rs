//! Agents: programs that hold an estimate, call a model and commit what the call has cost.

use std::ops::RangeInclusive;

use bursar::{Actor, Bursar, Error};

use super::company::{ECHO, REEL, SAGE, SCOUT};
use super::dice::Dice;
use super::pace::Pace;

/// An agent: what its calls cost and how often it makes one.
pub(super) struct Agent {
    scope: &'static str,
    cost: RangeInclusive<u32>,
    pause_ms: RangeInclusive<u32>,
    /// Whether every call costs exactly its estimate.
    exact: bool,
}

/// The agents that pay for calls of their own. The others pay for jobs.
pub(super) const AGENTS: [Agent; 4] = [
    // Its calls fill the limit to the last unit, so that the threshold of 100 % is crossed before the refusals begin.
    Agent { scope: SCOUT, cost: 50_000..=50_000, pause_ms: 3_000..=5_000, exact: true },
    Agent { scope: SAGE, cost: 30_000..=90_000, pause_ms: 2_000..=4_000, exact: false },
    Agent { scope: REEL, cost: 40_000..=120_000, pause_ms: 3_000..=6_000, exact: false },
    Agent { scope: ECHO, cost: 10_000..=40_000, pause_ms: 3_000..=5_000, exact: false },
];

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// It costs less than the estimate.
    Commit,
    /// The model is not reached, and nothing is spent.
    Release,
    /// It costs more than the estimate: an overrun.
    Overrun,
    /// The answer comes after the hold has expired: a late commit.
    Late,
}

impl Ending {
    fn of(call: u32) -> Ending {
        match call % 16 {
            3 => Ending::Overrun,
            6 => Ending::Late,
            10 => Ending::Release,
            _ => Ending::Commit,
        }
    }
}

impl Agent {
    /// Makes calls until the fleet is stopped.
    pub(super) async fn run(self, bursar: Bursar, pace: Pace) {
        let name = self.scope.rsplit('/').next().unwrap_or(self.scope);
        let bursar = bursar.by(Actor::Agent(name.to_owned()));
        let mut dice = Dice::of(self.scope);
        let mut calls = 0;
        while pace.wait(dice.draw(&self.pause_ms)).await {
            calls += 1;
            let ending = if self.exact { Ending::Commit } else { Ending::of(calls) };
            match self.call(&bursar, &pace, &mut dice, ending).await {
                // A refusal is what the demo shows: the agent waits and tries again.
                Ok(()) | Err(Error::Refused(_)) => {}
                Err(error) => tracing::warn!(%error, agent = name, "a call of the demo failed"),
            }
        }
    }

    async fn call(&self, bursar: &Bursar, pace: &Pace, dice: &mut Dice, ending: Ending) -> Result<(), Error> {
        let cost = i64::from(dice.draw(&self.cost));
        let estimate = if self.exact { cost } else { cost + cost / 4 };
        // A hold of 5 s expires before a call of 6 s has ended.
        let (ttl_ms, work_ms) = match ending {
            Ending::Late => (5_000, 6_000),
            _ => (60_000, dice.draw(&(700..=2_500))),
        };
        let held = bursar.ledger().hold(self.scope, estimate, pace.speed.millis(ttl_ms)).await?;
        if !pace.wait(work_ms).await {
            held.release("the demo was stopped").await?;
            return Ok(());
        }
        match ending {
            Ending::Release => held.release("the model did not answer").await?,
            Ending::Overrun => held.commit(estimate * 2).await?,
            Ending::Commit | Ending::Late => held.commit(cost).await?,
        };
        Ok(())
    }
}
