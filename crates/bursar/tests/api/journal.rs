//! Reading the journal in bounded parts.

use crate::home::{Place, on_both_engines};

on_both_engines! {
    one_call_reads_a_bounded_part_of_the_journal,
}

async fn one_call_reads_a_bounded_part_of_the_journal(place: Place) {
    let home = place.open().await;
    let quiet = home.bursar.tenant("quiet").unwrap();
    let quiet = crate::home::Home {
        bursar: quiet,
        clock: home.clock.clone(),
        postgres: home.postgres.clone(),
        url: home.url.clone(),
    };
    quiet.budgets(&["first"]).await;
    home.budgets(&["room"]).await;
    // One after the other, so that each commit is a row of its own.
    for _ in 0..1_100 {
        home.bursar.ledger().post("room", 1).await.unwrap();
    }
    quiet.budgets(&["last"]).await;
    let end = home.bursar.health().await.unwrap().position;
    assert_eq!(end, 1_103);

    let (events, at) = quiet.bursar.journal().read(0, 10).await.unwrap();
    assert_eq!(events.len(), 1, "the other event is beyond the part read");
    assert!(at < end && at >= 500, "{at}");
    let (mut after, mut calls, mut events) = (0, 0, Vec::new());
    loop {
        let (some, at) = quiet.bursar.journal().read(after, 10).await.unwrap();
        events.extend(some);
        calls += 1;
        if at == after {
            break;
        }
        after = at;
    }
    assert_eq!((events.len(), after), (2, end));
    assert!(calls <= 5, "{calls}");

    let journal = home.bursar.journal();
    assert_eq!(
        journal.read(0, 0).await.unwrap().0.len(),
        1,
        "a limit of 0 is raised to 1, so that reading makes progress"
    );
    let (events, at) = journal.read(0, usize::MAX).await.unwrap();
    assert!(events.len() <= 1_000 && at < end, "{} up to {at}", events.len());
}
