//! The shortest useful program: define a monthly cap, place a hold, commit the real cost.

use std::time::Duration;

use bursar::{Budget, Bursar, Limit};

#[tokio::main]
async fn main() -> Result<(), bursar::Error> {
    let bursar = Bursar::open("sqlite::memory:").await?;
    let ledger = bursar.ledger();
    ledger.define("agents", Budget::new([Limit::new(1_000_000, "month".parse()?)])).await?;

    let held = ledger.hold("agents", 50_000, Duration::from_secs(60)).await?;
    // … call the model, learn what it cost …
    let settled = held.commit(42_000).await?;
    assert_eq!(settled.charges[0].balances[0].remaining, 958_000);
    bursar.close().await;
    Ok(())
}
