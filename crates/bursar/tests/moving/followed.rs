//! Moves of databases in use: no acknowledged write is lost, and the switch can be taken back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use bursar::{Bursar, Error, JobId, JobSpec, MoveStep, Payload};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::kept::{fill, job, lease};
use crate::place::{Place, complete, define, from_both_engines, quiet, relocate};
use crate::refused::stopped;

from_both_engines! {
    no_acknowledged_write_is_lost,
    a_switch_can_be_taken_back,
    a_used_target_keeps_its_writes,
    what_is_erased_during_a_move_is_not_in_the_target,
    a_move_is_resumed_after_an_erasure,
}

/// Posts one unit at a time until that fails, and returns how many posts were acknowledged, and the error.
async fn post_until_refused(bursar: Bursar, acknowledged: Arc<AtomicI64>) -> Error {
    loop {
        match bursar.ledger().post("busy", 1).await {
            Ok(_) => acknowledged.fetch_add(1, Ordering::SeqCst),
            Err(error) if error.is_busy() => continue,
            Err(error) => return error,
        };
    }
}

async fn no_acknowledged_write_is_lost(from: Place) {
    let to = from.other();
    let bursar = Bursar::open(&from.url).await.unwrap();
    fill(&bursar).await;
    define(&bursar, "busy").await;
    let acknowledged = Arc::new(AtomicI64::new(0));
    let writers: Vec<_> =
        (0..8).map(|_| tokio::spawn(post_until_refused(bursar.clone(), acknowledged.clone()))).collect();
    let switched = Arc::new(AtomicBool::new(false));
    let seen = switched.clone();
    let progress = Arc::new(move |step: &MoveStep| {
        seen.fetch_or(matches!(step, MoveStep::Switched { .. }), Ordering::SeqCst);
    });
    let moved = complete(Bursar::relocate(&from.url, &to.url, true, progress).await.unwrap());
    assert!(switched.load(Ordering::SeqCst) && moved.pause.is_some());
    for writer in writers {
        let refused = writer.await.unwrap();
        let text = refused.to_string();
        assert!(text.contains("was moved to") && text.contains(&moved.to) && refused.is_transient(), "{text}");
    }
    assert!(bursar.ready().await.is_err(), "the old server is not ready");
    // Reads of the source still work, and nothing changes it any more: neither maintenance nor a rebuild.
    let posted = bursar.ledger().budget("busy").await.unwrap().unwrap().balances[0].posted;
    assert_eq!(posted, acknowledged.load(Ordering::SeqCst));
    assert!(posted > 0);
    bursar.rebuild().await.unwrap_err();
    bursar.close().await;
    assert!(from.refusal().await.contains("was moved to"));

    let bursar = Bursar::open(&to.url).await.unwrap();
    assert_eq!(bursar.ledger().budget("busy").await.unwrap().unwrap().balances[0].posted, posted);
    bursar.ledger().post("busy", 1).await.unwrap();
    bursar.close().await;
}

async fn a_switch_can_be_taken_back(from: Place) {
    let to = from.other();
    let source = from.open().await;
    define(&source, "team").await;
    source.ledger().post("team", 5).await.unwrap();
    complete(Bursar::relocate(&from.url, &to.url, true, quiet()).await.unwrap());
    source.ledger().post("team", 1).await.unwrap_err();
    let other = from.other();
    let refused = Bursar::abandon_move(&from.url, Some(&other.url)).await.unwrap_err().to_string();
    assert!(refused.contains("was moved to"), "{refused}");

    assert_eq!(Bursar::abandon_move(&from.url, Some(&to.url)).await.unwrap(), 2);
    source.ledger().post("team", 1).await.unwrap();
    source.close().await;
    let refused = to.refusal().await;
    assert!(refused.contains("the move into this database was abandoned"), "{refused}");
    let nothing = Bursar::abandon_move(&from.url, Some(&to.url)).await.unwrap_err().to_string();
    assert!(nothing.contains("was not moved"), "{nothing}");
    // Another database can be the target of the next move.
    complete(Bursar::relocate(&from.url, &other.url, true, quiet()).await.unwrap());
    assert_eq!(Bursar::abandon_move(&from.url, None).await.unwrap(), 3);
    from.open().await.close().await;
}

async fn a_used_target_keeps_its_writes(from: Place) {
    let to = from.other();
    let source = from.open().await;
    define(&source, "team").await;
    source.ledger().post("team", 5).await.unwrap();
    source.close().await;
    complete(Bursar::relocate(&from.url, &to.url, true, quiet()).await.unwrap());
    let target = to.open().await;
    target.ledger().post("team", 1).await.unwrap();
    let refused = Bursar::abandon_move(&from.url, Some(&to.url)).await.unwrap_err().to_string();
    assert!(refused.contains("was written after the move"), "{refused}");
    target.ledger().post("team", 1).await.unwrap();
    // It can be moved back instead.
    let back = to.other();
    complete(Bursar::relocate(&to.url, &back.url, true, quiet()).await.unwrap());
    target.close().await;
    let bursar = back.open().await;
    assert_eq!(bursar.ledger().budget("team").await.unwrap().unwrap().balances[0].posted, 7);
    bursar.close().await;
}

/// Enqueues a job with a secret in its payload, and completes it with a secret in its result.
async fn succeed(bursar: &Bursar) -> JobId {
    let secret = || Payload::of(&"a secret").unwrap();
    let job = bursar.jobs().enqueue(JobSpec { payload: secret(), ..job("q", "work") }).await.unwrap().id;
    let leased = lease(bursar, "q").await;
    bursar.jobs().complete(job, leased.life.fence, secret(), None).await.unwrap();
    job
}

/// Returns how many events of a database have a secret.
async fn secrets(place: &Place) -> usize {
    let bursar = place.open().await;
    let (events, _) = bursar.journal().read(0, 1_000).await.unwrap();
    bursar.close().await;
    assert!(!events.is_empty());
    events.iter().filter(|event| serde_json::to_string(&event.event).unwrap().contains("a secret")).count()
}

async fn what_is_erased_during_a_move_is_not_in_the_target(from: Place) {
    let to = from.other();
    let bursar = from.open().await;
    let job = succeed(&bursar).await;
    assert_eq!(secrets(&from).await, 2);
    let source = bursar.clone();
    let progress = Arc::new(move |step: &MoveStep| {
        if let MoveStep::Passed { pass: 1, .. } = step {
            block_in_place(|| Handle::current().block_on(source.jobs().erase(job))).unwrap();
        }
    });
    complete(Bursar::relocate(&from.url, &to.url, true, progress).await.unwrap());
    bursar.close().await;
    assert_eq!(secrets(&to).await, 0);
}

async fn a_move_is_resumed_after_an_erasure(from: Place) {
    let to = from.other();
    let bursar = from.open().await;
    let job = succeed(&bursar).await;
    bursar.close().await;
    stopped(&from, &to, false, MoveStep::Compared).await;
    let bursar = from.open().await;
    bursar.jobs().erase(job).await.unwrap();
    bursar.close().await;
    relocate(&from, &to).await;
    assert_eq!(secrets(&to).await, 0);
}
