//! Moves that are refused, and databases that may not be used.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar::{ArchiveOptions, Bursar, ManualClock, MemoryPlace, MoveStep, Span};

use crate::kept::fill;
use crate::place::{NOW, Place, define, from_both_engines, quiet, relocate};

from_both_engines! {
    a_source_in_use_is_refused,
    a_source_with_an_archive_is_refused,
    a_target_with_rows_is_refused,
    an_incomplete_target_cannot_be_opened,
    a_target_belongs_to_one_source,
}

async fn refusal(from: &Place, to: &Place) -> String {
    Bursar::relocate(&from.url, &to.url, false, quiet()).await.map(drop).expect_err("it is refused").to_string()
}

async fn a_source_in_use_is_refused(from: Place) {
    let to = from.other();
    let bursar = from.open().await;
    define(&bursar, "team").await;
    let refused = refusal(&from, &to).await;
    assert!(refused.contains("in use") && refused.contains("--follow"), "{refused}");
    bursar.ledger().post("team", 1).await.unwrap();
    bursar.close().await;
    relocate(&from, &to).await;
}

async fn a_source_with_an_archive_is_refused(from: Place) {
    let clock = Arc::new(ManualClock::at(NOW));
    let archive = ArchiveOptions::at(MemoryPlace::default()).after(Duration::from_secs(60));
    let bursar = Bursar::options(&from.url).clock(clock.clone()).upkeep(None).archive(archive).open().await.unwrap();
    define(&bursar, "team").await;
    define(&bursar, "crew").await;
    clock.advance(Span::from_days(1));
    bursar.journal().archive().await.unwrap();
    bursar.close().await;
    let refused = refusal(&from, &from.other()).await;
    assert!(refused.contains("in an archive") && refused.contains("nothing was changed"), "{refused}");
}

async fn a_target_with_rows_is_refused(from: Place) {
    let to = from.other();
    for place in [&from, &to] {
        let bursar = place.open().await;
        define(&bursar, "team").await;
        bursar.close().await;
    }
    let refused = refusal(&from, &to).await;
    assert!(refused.contains("is not empty; nothing was changed"), "{refused}");
    let bursar = to.open().await;
    bursar.ledger().post("team", 1).await.unwrap();
    bursar.close().await;
    let refused = refusal(&from, &from).await;
    assert!(refused.contains("both the source and the target"), "{refused}");
}

/// Stops a move after a step by a panic, which leaves the databases as they are.
pub(crate) async fn stopped(from: &Place, to: &Place, follow: bool, at: MoveStep) {
    let (from, to) = (from.url.clone(), to.url.clone());
    let stop = Arc::new(Mutex::new(Some(at)));
    let progress = Arc::new(move |step: &MoveStep| {
        let stopped = stop.lock().unwrap().take_if(|at| at == step);
        assert!(stopped.is_none(), "stopped");
    });
    let run = tokio::spawn(async move { Bursar::relocate(&from, &to, follow, progress).await });
    assert!(run.await.unwrap_err().is_panic());
}

async fn an_incomplete_target_cannot_be_opened(from: Place) {
    let to = from.other();
    let bursar = from.open().await;
    fill(&bursar).await;
    bursar.close().await;
    stopped(&from, &to, false, MoveStep::Claimed).await;
    let refused = to.refusal().await;
    assert!(refused.contains("has not ended") && refused.contains("`bursar move`"), "{refused}");
    stopped(&from, &to, false, MoveStep::Verified).await;
    to.refusal().await;
    let moved = relocate(&from, &to).await;
    assert_eq!((moved.changed, moved.ended_before), (0, false), "the earlier run had copied everything");
    to.open().await.close().await;
}

async fn a_target_belongs_to_one_source(from: Place) {
    let (to, other) = (from.other(), from.other().other());
    for place in [&from, &other] {
        let bursar = place.open().await;
        fill(&bursar).await;
        bursar.close().await;
    }
    stopped(&from, &to, false, MoveStep::Passed { pass: 1, changed: changed(&from).await }).await;
    let refused = refusal(&other, &to).await;
    assert!(refused.contains("another source"), "{refused}");
    relocate(&from, &to).await;
}

/// Returns how many rows a move of a database writes.
async fn changed(from: &Place) -> u64 {
    relocate(from, &from.other()).await.changed
}
