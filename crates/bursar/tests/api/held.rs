//! Dropped handles of holds.

use std::time::Duration;

use bursar::{Actual, Error};

use crate::home::{self, Place, next_kind, on_both_engines};

const MINUTE: Duration = Duration::from_secs(60);

on_both_engines! {
    a_floor_can_name_several_charges,
}

async fn a_floor_can_name_several_charges(place: Place) {
    let home = place.open().await;
    home.budgets(&["a", "b"]).await;
    let mut notices = home.bursar.listen();
    let command = home.bursar.command().charge("a", 40).charge("b", 50).hold_for(MINUTE);
    let (held, _) = command.submit_held().await.unwrap();
    let floor = [("a", 7), ("b", 0)].map(|(scope, amount)| (scope.try_into().unwrap(), amount));
    drop(held.with_floor(Actual::Each(floor.into())));
    assert_eq!(next_kind(&mut notices).await, "hold.placed");
    assert_eq!(next_kind(&mut notices).await, "hold.committed");
    for (scope, posted) in [("a", 7), ("b", 0)] {
        let left = &home.bursar.ledger().remaining(scope).await.unwrap()[0];
        assert_eq!((left.posted, left.held), (posted, 0), "{scope}");
    }
}

#[tokio::test]
async fn a_floor_is_committed_even_if_bursar_is_overloaded() {
    let home = home::sqlite().open_with(|options| options.queue(1).batch(1)).await;
    home.budgets(&["room"]).await;
    let held = home.bursar.ledger().hold("room", 40, MINUTE).await.unwrap().with_floor(7);
    // A closure occupies the writer, one request waits for it, and one more fills the queue.
    let (free, is_free) = std::sync::mpsc::channel::<()>();
    let (busy, is_busy) = tokio::sync::oneshot::channel();
    let bursar = home.bursar.clone();
    let blocker = tokio::spawn(async move {
        let work = move |_: &mut bursar::Transaction<'_, '_>| {
            let _ = busy.send(());
            let _ = is_free.recv();
            Ok::<(), Error>(())
        };
        bursar.transaction_within(MINUTE, work).await
    });
    is_busy.await.unwrap();
    let fillers: Vec<_> = (0..2)
        .map(|_| {
            let bursar = home.bursar.clone();
            async move { bursar.ledger().post("room", 1).await.map(drop) }
        })
        .collect();
    let mut waiting = Vec::new();
    for filler in fillers {
        waiting.push(tokio::spawn(filler));
        // The runtime has one thread: after yielding, the other tasks have run as far as they can.
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
    }
    let full = home.bursar.ledger().post("room", 1).await.unwrap_err();
    assert!(matches!(full, Error::Overloaded { .. }), "{full}");
    let mut notices = home.bursar.listen();
    drop(held);
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    free.send(()).unwrap();
    blocker.await.unwrap().unwrap();
    for filler in waiting {
        filler.await.unwrap().unwrap();
    }
    let kinds = [next_kind(&mut notices).await, next_kind(&mut notices).await, next_kind(&mut notices).await];
    assert_eq!(kinds, ["spend.posted", "spend.posted", "hold.committed"]);
    let left = &home.bursar.ledger().remaining("room").await.unwrap()[0];
    assert_eq!((left.posted, left.held), (9, 0));
}
