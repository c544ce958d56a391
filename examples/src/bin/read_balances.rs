//! Reads what is spent, held and left of a budget.

use bursar::notation::relative;
use bursar::{Budget, Bursar, Limit, Span, Time, Unit};
use bursar_examples::Failure;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let bursar = Bursar::open("sqlite::memory:").await?;
    let ledger = bursar.ledger();
    let usd = Unit::named("usd");
    let limits = [Limit::parse("25usd:month@Europe/Berlin", &usd)?, Limit::parse("2usd:rolling:1h", &usd)?];
    ledger.define("team", Budget::new(limits).counting(&usd)).await?;
    let held = ledger.hold("team", usd.parse("1.50")?, std::time::Duration::from_secs(600)).await?;
    held.commit(usd.parse("1.27")?).await?;
    let _open = ledger.hold("team", usd.parse("0.50")?, std::time::Duration::from_secs(600)).await?;

    // The budget with all its balances, in one consistent read.
    let now = bursar.now().await?;
    let view = ledger.budget("team").await?.ok_or("the budget is defined")?;
    let unit = view.budget.as_ref().map(Budget::display_unit).unwrap_or_default();
    for balance in &view.balances {
        let Some(limit) = balance.limit else { continue };
        let left = balance.remaining.unwrap_or_default();
        let resets = balance.end.map_or("slides".to_owned(), |end| format!("resets {}", relative(end, now)));
        let shown = [balance.posted, balance.held, left, limit].map(|amount| unit.format(amount));
        println!(
            "{}: {} spent, {} held, {} left of {}, {resets}",
            balance.window, shown[0], shown[1], shown[2], shown[3]
        );
    }

    // Whether an amount would fit right now, without holding it.
    let fits = bursar.command().charge("team", unit.parse("0.30")?).dry_run().submit().await.is_ok();
    assert!(!fits, "only $0.23 is left in the hour");

    // What was spent in a period, and what is held now, hold by hold.
    let today = ledger.spent("team", now.before(Span::from_days(1)), Time::NEVER).await?;
    assert_eq!(unit.format(today), "$1.27");
    for hold in ledger.live("team", None, 100).await? {
        println!("{} until {}", hold.id, hold.expires_at);
    }
    bursar.close().await;
    Ok(())
}
