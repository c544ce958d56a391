//! A fleet of agents under one monthly cap. A hundred tasks start at once, admission stays within the cap, and each task
//! is settled with its real cost.

use std::time::Duration;

use bursar::{Actor, Budget, Bursar, Held, Limit, Refusal, Window};
use bursar_examples::Failure;

/// The estimated cost of one task, in micro-dollars.
const ESTIMATE: i64 = 50_000;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let bursar = Bursar::open("sqlite::memory:").await?;
    let ledger = bursar.ledger();
    let month: Window = "month@Europe/Berlin".parse()?;
    let cap = |amount: i64| Budget::new([Limit::new(amount, month.clone())]);

    // org → team → agent: a charge to an agent is also a charge to its team and to the organisation.
    ledger.define("org", Budget { thresholds: vec![50, 80, 100], ..cap(1_000_000) }).await?;
    for team in ["team:research", "team:support"] {
        ledger.define(team, cap(600_000).under("org".try_into()?)).await?;
        for agent in 0..4 {
            let agent = format!("{team}/agent:{agent}");
            ledger.define(agent, cap(200_000).under(team.try_into()?)).await?;
        }
    }

    // Start a hundred tasks per team at once. The research team's cap admits 12; the organisation's leaves 8 for support.
    let research = start(&bursar, "team:research", 100).await?;
    assert_eq!(research.len(), 12);
    let support = start(&bursar, "team:support", 100).await?;
    assert_eq!(support.len(), 8);
    let org = ledger.remaining("org").await?.remove(0);
    assert_eq!((org.held, org.remaining), (1_000_000, Some(0)));

    // Commit the real cost of each task. The first task cost more than its hold: it is charged in full and flagged.
    for (place, held) in research.into_iter().chain(support).enumerate() {
        let settled = held.commit(if place == 0 { 70_000 } else { 30_000 }).await?;
        assert_eq!(settled.warnings().contains(&"overrun"), place == 0);
    }
    let org = ledger.remaining("org").await?.remove(0);
    assert_eq!((org.posted, org.held, org.remaining), (640_000, 0, Some(360_000)));

    assert!(bursar.verify().await?.is_ok());
    bursar.close().await;
    Ok(())
}

/// Starts all tasks of a team at once and returns the holds of those that fit under every cap.
async fn start(bursar: &Bursar, team: &str, tasks: usize) -> Result<Vec<Held>, Failure> {
    let mut starting = Vec::new();
    for task in 0..tasks {
        let agent = format!("{team}/agent:{}", task % 4);
        let bursar = bursar.by(Actor::Agent(agent.clone())).because(format!("task {task}"));
        starting.push(tokio::spawn(async move {
            match bursar.ledger().hold(agent, ESTIMATE, Duration::from_secs(120)).await {
                Ok(held) => Ok(Some(held)),
                // A cap has too little left. The refusal names each such cap and what it leaves.
                Err(bursar::Error::Refused(Refusal::Refused(_))) => Ok(None),
                Err(error) => Err(error),
            }
        }));
    }
    let mut held = Vec::new();
    for task in starting {
        held.extend(task.await??);
    }
    Ok(held)
}
