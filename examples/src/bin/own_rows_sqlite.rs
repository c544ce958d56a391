//! The application's own rows and Bursar's in one SQLite transaction: both are committed, or neither is.

use bursar::{Budget, Bursar, JobSpec, Limit, Payload, Window};
use bursar_examples::Failure;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let bursar = Bursar::open("sqlite::memory:").await?;
    bursar.ledger().define("customer:7", Budget::new([Limit::new(1_000, Window::Lifetime)])).await?;
    bursar
        .transaction(|tx| {
            tx.connection().execute_batch("CREATE TABLE orders (item TEXT, price INT)")?;
            Ok::<_, Failure>(())
        })
        .await?;

    // An order is a row of the application, a charge and a job, in one transaction.
    order(&bursar, "lamp", 600, true).await?;
    assert_eq!(state(&bursar).await?, (1, 400));

    // The charge is refused, so there is no order either.
    let refused = order(&bursar, "sofa", 900, true).await;
    assert!(refused.is_err());
    assert_eq!(state(&bursar).await?, (1, 400));

    // The application fails after the charge: the charge, the job and the events are undone, and no listener is notified.
    let position = bursar.health().await?.position;
    let mut notices = bursar.listen();
    let failed = order(&bursar, "vase", 100, false).await;
    assert_eq!(failed.map_err(|error| error.to_string()), Err("out of stock".to_owned()));
    assert_eq!(state(&bursar).await?, (1, 400));
    assert_eq!(bursar.health().await?.position, position);

    bursar.close().await;
    assert!(notices.next().await.is_none());
    Ok(())
}

/// Takes an order. Bursar runs the closure on its writer thread; an error from the closure rolls everything back.
async fn order(bursar: &Bursar, item: &'static str, price: i64, in_stock: bool) -> Result<(), Failure> {
    let shop = bursar.clone();
    bursar
        .transaction(move |tx| {
            tx.connection().execute("INSERT INTO orders VALUES (?1, ?2)", (item, price))?;
            let job = JobSpec::new("orders".try_into()?, "order.ship".try_into()?, Payload::of(&item)?);
            tx.submit(shop.command().charge("customer:7", price).job(job))?;
            if in_stock { Ok(()) } else { Err("out of stock".into()) }
        })
        .await
}

/// The number of orders, and the units the customer has left.
async fn state(bursar: &Bursar) -> Result<(i64, i64), Failure> {
    let orders = bursar
        .transaction(|tx| {
            let count = tx.connection().query_row("SELECT count(*) FROM orders", (), |row| row.get(0));
            Ok::<i64, Failure>(count?)
        })
        .await?;
    let left = bursar.ledger().remaining("customer:7").await?[0].remaining;
    Ok((orders, left.ok_or("the budget has a limit")?))
}
