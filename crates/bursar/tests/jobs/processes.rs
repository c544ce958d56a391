//! Two instances on one database file. Like two processes, they share nothing but the file.

use std::collections::BTreeSet;
use std::time::Duration;

use bursar::{Bursar, HandlerError, JobContext, JobState};
use tokio::sync::mpsc;

use crate::home::{ask, job, soon};

async fn two(folder: &tempfile::TempDir) -> [Bursar; 2] {
    let url = format!("sqlite://{}", folder.path().join("b.db").display());
    [Bursar::open(&url).await.unwrap(), Bursar::open(&url).await.unwrap()]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_of_another_process_is_noticed_by_the_change_counter() {
    let folder = tempfile::tempdir().unwrap();
    let [here, there] = two(&folder).await;
    let begun = here.counters();
    for _ in 0..20 {
        let waiter = tokio::spawn({
            let here = here.clone();
            async move { here.jobs().lease_wait(ask("q", 1), Duration::from_secs(50)).await.unwrap() }
        });
        // The waiting call has found no job and polls the change counter.
        let before = here.counters().polls;
        soon(async {
            while here.counters().polls < before + 20 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let id = there.jobs().enqueue(job("q", "work")).await.unwrap().id;
        assert_eq!(waiter.await.unwrap().jobs[0].id, id);
    }
    // The worker requests jobs at first, when the counter changes, and sometimes as a fallback. A poll is not a request.
    let (requests, polls) = (here.counters().done - begun.done, here.counters().polls - begun.polls);
    assert!(requests * 2 <= polls, "{requests} lease requests and {polls} polls");
    here.close().await;
    there.close().await;
}

/// On Linux the write-ahead log is watched; other systems poll.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_worker_does_not_poll_until_another_process_writes() {
    let folder = tempfile::tempdir().unwrap();
    let [here, there] = two(&folder).await;
    for _ in 0..2 {
        let waiter = tokio::spawn({
            let here = here.clone();
            async move { here.jobs().lease_wait(ask("q", 1), Duration::from_secs(300)).await.unwrap() }
        });
        soon(quiet(&here)).await;
        let hints = here.counters().notifications_received;
        let id = there.jobs().enqueue(job("q", "work")).await.unwrap().id;
        assert_eq!(waiter.await.unwrap().jobs[0].id, id);
        assert_eq!(here.counters().notifications_received, hints, "SQLite sends no notifications");
    }
    here.close().await;
    there.close().await;
}

/// Returns once the change counter was polled, and then not polled for half a second.
#[cfg(target_os = "linux")]
async fn quiet(bursar: &Bursar) {
    let mut last = 0;
    loop {
        let polls = bursar.counters().polls;
        if polls == last && polls > 0 {
            return;
        }
        last = polls;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_job_runs_in_one_of_two_processes() {
    let folder = tempfile::tempdir().unwrap();
    let both = two(&folder).await;
    let (seen, mut runs) = mpsc::unbounded_channel();
    let workers: Vec<_> = both
        .iter()
        .map(|bursar| {
            let seen = seen.clone();
            let handler = move |(): (), context: JobContext| {
                let seen = seen.clone();
                async move {
                    seen.send(context.id())?;
                    Ok::<_, HandlerError>(())
                }
            };
            bursar.worker().queue("q").concurrency(4).on("work", handler).start().unwrap()
        })
        .collect();
    both[0].jobs().enqueue_all((0..500).map(|_| job("q", "work"))).await.unwrap();
    let mut ids = BTreeSet::new();
    for _ in 0..500 {
        assert!(ids.insert(soon(runs.recv()).await.unwrap()), "no job runs twice");
    }
    let mut completed = 0;
    for worker in workers {
        completed += worker.drain().await.unwrap().completed;
    }
    assert_eq!(completed, 500);
    assert_eq!(both[1].queues().figures("q", 1).await.unwrap().count(JobState::Succeeded), 500);
    for bursar in both {
        assert!(bursar.verify().await.unwrap().violations.is_empty());
        bursar.close().await;
    }
}
