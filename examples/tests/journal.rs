//! Runs the queries of `docs/journal.md` and compares them with the library.

use std::time::Duration;

use bursar::{Actor, Budget, Bursar, JobSpec, Limit, Payload, Window};
use bursar_examples::Failure;
use sqlx::Row;

/// The first SQL block after a heading of the guide.
fn query(heading: &str) -> String {
    let guide = include_str!("../../docs/journal.md");
    let section = guide.split_once(heading).expect("the guide has the heading").1;
    let block = section.split_once("```sql\n").expect("a query follows").1;
    block.split_once("```").expect("the block ends").0.to_owned()
}

/// Positions, kinds and versions of events, in order.
type Shown = Vec<(i64, String, i64)>;

/// Creates some events and returns them as the library reads them.
async fn events(bursar: &Bursar) -> Result<Shown, Failure> {
    let budget = Budget { thresholds: vec![50], ..Budget::new([Limit::new(1_000, Window::Lifetime)]) };
    bursar.ledger().define("agents", budget).await?;
    let agent = bursar.by(Actor::Agent("a-1".into())).because("a task");
    let held = agent.ledger().hold("agents", 700, Duration::from_secs(60)).await?;
    held.commit(600).await?;
    let (events, _) = bursar.journal().read(0, 100).await?;
    let kinds: Vec<&str> = events.iter().map(|event| event.event.kind()).collect();
    assert_eq!(kinds, ["budget.defined", "hold.placed", "hold.committed", "budget.crossed"]);
    Ok(events.iter().map(|e| (e.position as i64, e.event.kind().to_owned(), e.version as i64)).collect())
}

#[tokio::test]
async fn the_documented_query_shows_the_events_on_sqlite() {
    let bursar = Bursar::open("sqlite::memory:").await.unwrap();
    let read = events(&bursar).await.unwrap();
    let shown = bursar
        .transaction(|tx| {
            let mut statement = tx.connection().prepare(&query("## On SQLite"))?;
            let rows =
                statement.query_map((), |row| Ok((row.get("position")?, row.get("kind")?, row.get("version")?)))?;
            Ok::<Shown, Failure>(rows.collect::<Result<_, _>>()?)
        })
        .await
        .unwrap();
    assert_eq!(shown, read);
    bursar.close().await;
}

#[tokio::test]
async fn the_documented_query_shows_the_events_on_postgres() {
    let url = bursar_testkit::fresh_database();
    let bursar = Bursar::open(&url).await.unwrap();
    let read = events(&bursar).await.unwrap();
    let pool = sqlx::PgPool::connect(&url).await.unwrap();
    let rows = sqlx::query(sqlx::AssertSqlSafe(query("## On PostgreSQL"))).fetch_all(&pool).await.unwrap();
    let shown: Shown = rows.iter().map(|row| (row.get("position"), row.get("kind"), row.get("version"))).collect();
    assert_eq!(shown, read);
    bursar.close().await;
}

#[tokio::test]
async fn a_payload_can_be_erased() {
    let bursar = Bursar::open("sqlite::memory:").await.unwrap();
    let job = |payload: Payload| JobSpec::new("mail".try_into().unwrap(), "mail.send".try_into().unwrap(), payload);
    let large = Payload::of(&"x".repeat(bursar::bounds::PAYLOAD_INLINE_BYTES)).unwrap();
    for payload in [large, Payload::of(&"to ada@example.org").unwrap()] {
        let id = bursar.jobs().enqueue(job(payload.clone())).await.unwrap().id;
        let stranger = bursar.tenant("stranger").unwrap();
        assert!(stranger.jobs().erase(id).await.is_err(), "another tenant cannot erase the payload");
        assert!(bursar.jobs().erase(id).await.is_err(), "the payload of a waiting job is in use");
        assert_eq!(bursar.jobs().find(id).await.unwrap().unwrap().payload, payload);

        bursar.jobs().cancel(id).await.unwrap();
        bursar.jobs().erase(id).await.unwrap();
        assert!(bursar.jobs().find(id).await.unwrap().unwrap().payload.is_erased());
        let history = bursar.jobs().history(id, 100).await.unwrap();
        assert!(!format!("{history:?}").contains(payload.as_str()));
        bursar.rebuild().await.unwrap();
        assert!(bursar.jobs().find(id).await.unwrap().unwrap().payload.is_erased());
    }
    bursar.close().await;
}
