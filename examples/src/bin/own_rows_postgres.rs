//! The application's own rows and Bursar's in one PostgreSQL transaction, which the application begins and commits.
//!
//! ```text
//! cargo run -p bursar-examples --bin own_rows_postgres -- postgres://localhost/shop
//! ```

use bursar::{Budget, Bursar, JobSpec, Limit, Payload, Window};
use bursar_examples::Failure;
use sqlx::PgPool;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = std::env::args().nth(1).ok_or("usage: own_rows_postgres postgres://…")?;
    let bursar = Bursar::open(&url).await?;
    let pool = PgPool::connect(&url).await?;
    sqlx::query("DROP TABLE IF EXISTS example_orders").execute(&pool).await?;
    sqlx::query("CREATE TABLE example_orders (item text, price bigint)").execute(&pool).await?;
    // The database may have seen this example before: the budget admits 1,000 more than was spent until now.
    let spent = bursar.ledger().budget("customer:7").await?.map_or(0, |budget| budget.balances[0].posted);
    bursar.ledger().define("customer:7", Budget::new([Limit::new(spent + 1_000, Window::Lifetime)])).await?;
    let mut notices = bursar.listen();

    // An order is a row of the application's, a charge and a job: one transaction.
    order(&bursar, &pool, "lamp", 600, true).await?;
    assert_eq!(state(&bursar, &pool).await?, (1, 400));
    let told = notices.next().await.ok_or("Bursar is open")??;
    assert_eq!(told.event().kind(), "spend.posted");

    // The charge is refused: there is no order either.
    assert!(order(&bursar, &pool, "sofa", 900, true).await.is_err());
    assert_eq!(state(&bursar, &pool).await?, (1, 400));

    // The application rolls back after the charge: nothing of it is left.
    let failed = order(&bursar, &pool, "vase", 100, false).await;
    assert_eq!(failed.map_err(|error| error.to_string()), Err("out of stock".to_owned()));
    assert_eq!(state(&bursar, &pool).await?, (1, 400));

    assert!(bursar.verify().await?.is_ok());
    bursar.close().await;
    Ok(())
}

/// Takes an order. An early return drops the transaction, which rolls it back.
async fn order(bursar: &Bursar, pool: &PgPool, item: &str, price: i64, in_stock: bool) -> Result<(), Failure> {
    let mut tx = pool.begin().await?;
    let insert = sqlx::query("INSERT INTO example_orders VALUES ($1, $2)").bind(item).bind(price);
    insert.execute(&mut *tx).await?;
    let job = JobSpec::new("orders".try_into()?, "order.ship".try_into()?, Payload::of(&item)?);
    let receipt = bursar.command().charge("customer:7", price).job(job).submit_in(&mut tx).await?;
    if !in_stock {
        return Err("out of stock".into());
    }
    tx.commit().await?;
    // Only now may others hear of it.
    bursar.announce([&receipt]);
    Ok(())
}

/// How many orders there are, and what the customer has left.
async fn state(bursar: &Bursar, pool: &PgPool) -> Result<(i64, i64), Failure> {
    let orders = sqlx::query_scalar("SELECT count(*) FROM example_orders").fetch_one(pool).await?;
    let left = bursar.ledger().remaining("customer:7").await?[0].remaining;
    Ok((orders, left.ok_or("the budget has a limit")?))
}
