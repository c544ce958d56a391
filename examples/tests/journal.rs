//! What `docs/journal.md` says is true.

use std::time::Duration;

use bursar::{Actor, Budget, Bursar, JobSpec, Limit, Payload, Stream, Window};
use bursar_examples::Failure;

/// The first SQL block below a heading of the guide.
fn query(heading: &str) -> String {
    let guide = include_str!("../../docs/journal.md");
    let section = guide.split_once(heading).unwrap().1;
    let block = section.split_once("```sql\n").unwrap().1;
    block.split_once("```").unwrap().0.to_owned()
}

#[tokio::test]
async fn the_documented_query_shows_the_events_that_the_library_reads() {
    let bursar = Bursar::open("sqlite::memory:").await.unwrap();
    let ledger = bursar.ledger();
    let budget = Budget { thresholds: vec![50], ..Budget::new([Limit::new(1_000, Window::Lifetime)]) };
    ledger.define("agents", budget).await.unwrap();
    let agent = bursar.by(Actor::Agent("a-1".into())).because("a task");
    let held = agent.ledger().hold("agents", 700, Duration::from_secs(60)).await.unwrap();
    held.commit(600).await.unwrap();

    let shown = bursar
        .transaction(|tx| {
            let sql = query("## On SQLite");
            let mut statement = tx.connection().prepare(&sql)?;
            let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(7)?, row.get(6)?)))?;
            Ok::<Vec<(i64, String, i64)>, Failure>(rows.collect::<Result<_, _>>()?)
        })
        .await
        .unwrap();
    let (events, _) = bursar.journal().read(0, 100).await.unwrap();
    let read: Vec<_> =
        events.iter().map(|e| (e.position as i64, e.event.kind().to_owned(), e.version as i64)).collect();
    assert_eq!(shown, read);
    let kinds: Vec<&str> = shown.iter().map(|(_, kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["budget.defined", "hold.placed", "hold.committed", "budget.crossed"]);
    bursar.close().await;
}

#[tokio::test]
async fn a_large_payload_can_be_erased_and_the_journal_stays_whole() {
    let bursar = Bursar::open("sqlite::memory:").await.unwrap();
    let job = |payload: Payload| JobSpec::new("mail".try_into().unwrap(), "mail.send".try_into().unwrap(), payload);
    let large = Payload::of(&"x".repeat(bursar::bounds::PAYLOAD_INLINE_BYTES)).unwrap();
    let small = Payload::of(&"x").unwrap();
    let id = bursar.jobs().enqueue(job(large)).await.unwrap().id;
    let small_id = bursar.jobs().enqueue(job(small.clone())).await.unwrap().id;

    // Nobody erases what is another tenant's, and what stands in the journal stays.
    let stranger = bursar.tenant("stranger").unwrap();
    assert!(!stranger.journal().erase_payload(&Stream::Job(id)).await.unwrap());
    assert!(!bursar.journal().erase_payload(&Stream::Job(small_id)).await.unwrap());

    assert!(bursar.journal().erase_payload(&Stream::Job(id)).await.unwrap());
    assert_eq!(bursar.jobs().find(id).await.unwrap().unwrap().payload, Payload::default());
    assert!(!bursar.journal().erase_payload(&Stream::Job(id)).await.unwrap(), "there is nothing left to erase");

    assert_eq!(bursar.rebuild().await.unwrap(), 2);
    assert_eq!(bursar.jobs().find(id).await.unwrap().unwrap().payload, Payload::default());
    assert_eq!(bursar.jobs().find(small_id).await.unwrap().unwrap().payload, small);
    bursar.close().await;
}
