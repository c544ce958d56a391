//! The application's own rows and Bursar's in one PostgreSQL transaction, which the application begins and commits.
//!
//! ```text
//! cargo run -p bursar-examples --bin own_rows_postgres -- postgres://localhost/shop
//! ```

use std::time::Duration;

use bursar::{
    Backoff, Budget, Bursar, Job, JobSpec, LeaseRequest, Limit, Payload, QueueConfig, Retry, Span, Usage, Window,
};
use bursar_examples::Failure;
use sqlx::PgPool;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = std::env::args().nth(1).ok_or("usage: own_rows_postgres postgres://…")?;
    let bursar = Bursar::open(&url).await?;
    let pool = PgPool::connect(&url).await?;
    sqlx::query("DROP TABLE IF EXISTS example_orders").execute(&pool).await?;
    sqlx::query("CREATE TABLE example_orders (item text, price bigint)").execute(&pool).await?;
    sqlx::query("DROP TABLE IF EXISTS example_parcels").execute(&pool).await?;
    sqlx::query("CREATE TABLE example_parcels (job text)").execute(&pool).await?;
    let retry = Retry { max_attempts: 3, backoff: Backoff::Fixed { delay: Span::ZERO } };
    bursar.queues().define("orders", QueueConfig { retry, ..QueueConfig::default() }).await?;
    // An earlier run may have spent units: the budget admits 1,000 more than what is already posted.
    let spent = bursar.ledger().budget("customer:7").await?.map_or(0, |budget| budget.balances[0].posted);
    bursar.ledger().define("customer:7", Budget::new([Limit::new(spent + 1_000, Window::Lifetime)])).await?;
    let mut notices = bursar.listen();

    // An order is a row of the application, a charge and a job, in one transaction.
    order(&bursar, &pool, "lamp", 600, true).await?;
    assert_eq!(state(&bursar, &pool).await?, (1, 400));
    let notice = notices.next().await.ok_or("Bursar is open")??;
    assert_eq!(notice.event().kind(), "spend.posted");

    // The charge is refused, so there is no order either.
    assert!(order(&bursar, &pool, "sofa", 900, true).await.is_err());
    assert_eq!(state(&bursar, &pool).await?, (1, 400));

    // The application rolls back after the charge, which undoes the charge as well.
    let failed = order(&bursar, &pool, "vase", 100, false).await;
    assert_eq!(failed.map_err(|error| error.to_string()), Err("out of stock".to_owned()));
    assert_eq!(state(&bursar, &pool).await?, (1, 400));

    // A worker that sends no heartbeat loses its lease. It can no longer change the job, but its spend is charged.
    let lost = next_job(&bursar, Span::from_millis(100)).await?;
    while notices.next().await.ok_or("Bursar is open")??.event().kind() != "job.rescued" {}
    assert!(ship(&bursar, &pool, &lost, 20).await.is_err());
    assert_eq!((parcels(&pool).await?, state(&bursar, &pool).await?), (0, (1, 380)));
    ship(&bursar, &pool, &next_job(&bursar, Span::from_secs(30)).await?, 30).await?;
    assert_eq!((parcels(&pool).await?, state(&bursar, &pool).await?), (1, (1, 350)));

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
    // Notify listeners only after the commit.
    bursar.announce([&receipt]);
    Ok(())
}

/// Ships an order: the parcel, the end of the job and its cost are one transaction.
async fn ship(bursar: &Bursar, pool: &PgPool, job: &Job, cost: i64) -> Result<(), Failure> {
    let mut tx = pool.begin().await?;
    let insert = sqlx::query("INSERT INTO example_parcels VALUES ($1)").bind(job.id.to_string());
    insert.execute(&mut *tx).await?;
    let usage = Usage { scope: Some("customer:7".try_into()?), amount: cost };
    let jobs = bursar.jobs();
    match jobs.complete_in(&mut tx, job.id, job.life.fence, Payload::default(), Some(vec![usage])).await {
        Ok((_, receipt)) => {
            tx.commit().await?;
            bursar.announce([&receipt]);
            Ok(())
        }
        Err(error) => {
            tx.rollback().await?;
            // If the lease was lost, only the spend counts: this charges it outside the transaction.
            error.bill().await?;
            Err(error.into())
        }
    }
}

/// Leases the next order to be shipped.
async fn next_job(bursar: &Bursar, lease: Span) -> Result<Job, Failure> {
    let (queues, worker) = (vec!["orders".try_into()?], "shipping".try_into()?);
    let ask = LeaseRequest { queues, kinds: Vec::new(), capacity: 1, lease: Some(lease), worker };
    let mut leased = bursar.jobs().lease_wait(ask, Duration::from_secs(10)).await?;
    Ok(leased.jobs.pop().ok_or("there is an order to be shipped")?)
}

/// The number of parcels.
async fn parcels(pool: &PgPool) -> Result<i64, Failure> {
    Ok(sqlx::query_scalar("SELECT count(*) FROM example_parcels").fetch_one(pool).await?)
}

/// The number of orders, and the units the customer has left.
async fn state(bursar: &Bursar, pool: &PgPool) -> Result<(i64, i64), Failure> {
    let orders = sqlx::query_scalar("SELECT count(*) FROM example_orders").fetch_one(pool).await?;
    let left = bursar.ledger().remaining("customer:7").await?[0].remaining;
    Ok((orders, left.ok_or("the budget has a limit")?))
}
