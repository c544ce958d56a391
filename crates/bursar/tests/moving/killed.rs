//! A process that moves a database is killed at a step. Running the move again ends it with the same result.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bursar::{Bursar, MoveStep};

use crate::kept::fill;
use crate::place::{Place, complete, define, from_both_engines, quiet};

from_both_engines! {
    a_kill_at_any_step_loses_nothing,
    a_kill_after_the_switch_can_be_taken_back,
}

/// The variable that makes [`child`] move a database: source, target, `follow` or `copy`, and the step at which it dies.
const CHILD: &str = "BURSAR_TEST_MOVE";

/// Counts the steps of a move. Those of tables are counted as well, so that a process dies between any two tables.
async fn steps(from: &Place, to: &Place, follow: bool) -> Vec<MoveStep> {
    let steps = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = steps.clone();
    let progress = Arc::new(move |step: &MoveStep| seen.lock().unwrap().push(step.clone()));
    complete(Bursar::relocate(&from.url, &to.url, follow, progress).await.unwrap());
    steps.lock().unwrap().clone()
}

/// Moves in a process of its own that kills itself after a step, numbered from 1.
fn run_and_die(from: &Place, to: &Place, follow: bool, at: usize) {
    let how = if follow { "follow" } else { "copy" };
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "killed::child", "--nocapture"]);
    child.env(CHILD, format!("{}\n{}\n{how}\n{at}", from.url, to.url));
    let status = child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), None, "it is killed by a signal: {status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn child() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let task: Vec<&str> = task.lines().collect();
    let [from, to, how, at] = task.as_slice() else { panic!("{task:?}") };
    let (at, count) = (at.parse::<usize>().unwrap(), AtomicUsize::new(0));
    let progress = Arc::new(move |_: &MoveStep| {
        if count.fetch_add(1, Ordering::SeqCst) + 1 == at {
            // SIGABRT is as sudden as SIGKILL: nothing is unwound or closed.
            std::process::abort();
        }
    });
    Bursar::relocate(from, to, *how == "follow", progress).await.unwrap();
}

async fn a_kill_at_any_step_loses_nothing(from: Place) {
    let bursar = from.open().await;
    fill(&bursar).await;
    bursar.close().await;
    let expected = steps(&from, &from.other(), false).await;
    let to = from.other();
    // One target survives a kill after the claim, in the middle, after the pass, and after each later step.
    let (middle, last) = (expected.len() / 2, expected.len());
    for at in [1, 2, middle, middle + 1, last - 3, last - 2, last - 1] {
        run_and_die(&from, &to, false, at);
        to.refusal().await;
    }
    run_and_die(&from, &to, false, last);
    let again = complete(Bursar::relocate(&from.url, &to.url, false, quiet()).await.unwrap());
    assert!(again.ended_before, "the last step opens the target");

    // With a switch.
    let to = from.other();
    for at in [1, middle] {
        run_and_die(&from, &to, true, at);
        from.open().await.close().await;
    }
    // From here on nothing is left to write, so one pass is followed by the switch.
    let switch = expected.iter().position(|step| matches!(step, MoveStep::Passed { .. })).unwrap() + 2;
    run_and_die(&from, &to, true, switch);
    assert!(from.refusal().await.contains("was moved to"));
    to.refusal().await;
    // The source is switched already, so the steps are those of a copy.
    for at in [1, middle, last - 1] {
        run_and_die(&from, &to, true, at);
        assert!(from.refusal().await.contains("was moved to"));
        to.refusal().await;
    }
    let moved = complete(Bursar::relocate(&from.url, &to.url, true, quiet()).await.unwrap());
    assert!(!moved.ended_before);
    to.open().await.close().await;
}

async fn a_kill_after_the_switch_can_be_taken_back(from: Place) {
    let bursar = from.open().await;
    define(&bursar, "team").await;
    bursar.ledger().post("team", 5).await.unwrap();
    bursar.close().await;
    let to = from.other();
    let pass = steps(&from, &to, false).await;
    let to = from.other();
    let switch = pass.iter().position(|step| matches!(step, MoveStep::Passed { .. })).unwrap() + 2;
    run_and_die(&from, &to, true, switch);
    assert!(from.refusal().await.contains("was moved to"));
    assert_eq!(Bursar::abandon_move(&from.url, Some(&to.url)).await.unwrap(), 2);
    let bursar = from.open().await;
    bursar.ledger().post("team", 5).await.unwrap();
    bursar.close().await;
    // The incomplete target still belongs to this source.
    complete(Bursar::relocate(&from.url, &to.url, true, quiet()).await.unwrap());
    let bursar = to.open().await;
    assert_eq!(bursar.ledger().budget("team").await.unwrap().unwrap().balances[0].posted, 10);
    bursar.close().await;
}
