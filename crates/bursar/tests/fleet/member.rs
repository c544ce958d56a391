//! The code of a process of the fleet.

use std::io::Write;
use std::time::Duration;

use bursar::{Bursar, End, Error, Finish, Job, LeaseRequest, Payload, Refusal, Span, Usage};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::process::{PATIENCE, ask, runtime};

/// The actual cost of a job.
pub(crate) const COST: i64 = 7;
/// The usage that a worker reports after it has lost the lease.
pub(crate) const LATE: i64 = 3;
/// Short, so that many leases expire, and long compared to the time that ending a job takes.
const LEASE: Span = Span::from_secs(2);
/// One of this many jobs is kept until another worker has leased it.
const STALLS: usize = 10;

/// Runs a process until its stdin is closed.
pub(crate) fn live(args: &[String]) {
    let [role, url, listen] = args else { panic!("expected role, URL and whether it listens, not {args:?}") };
    let runtime = runtime();
    let (over, ends) = oneshot::channel();
    std::thread::spawn(move || {
        std::io::stdin().lines().for_each(drop);
        let _ = over.send(());
    });
    runtime.block_on(async {
        let options =
            Bursar::options(url).listen(listen == "listens").rescue(Duration::from_millis(50)).patience(PATIENCE);
        let bursar = options.open().await.unwrap();
        say("ready");
        match role.as_str() {
            "waiter" => tokio::select! {
                () = wait(&bursar) => {}
                _ = ends => {}
            },
            "worker" => work(&bursar, ends).await,
            other => panic!("there is no role {other}"),
        }
        bursar.close().await;
    });
}

/// Waits for one job after the other, and prints each start with the number of notifications received so far.
async fn wait(bursar: &Bursar) {
    loop {
        let leased = bursar.jobs().lease_wait(ask(1), Duration::from_secs(50)).await.unwrap();
        for job in leased.jobs {
            say(&format!("started {} {}", job.id, bursar.counters().notifications_received));
            bursar.jobs().complete(job.id, job.life.fence, Payload::default(), None).await.unwrap();
        }
    }
}

/// Completes jobs, except some that it keeps until another worker has leased them. Prints the answer for each.
async fn work(bursar: &Bursar, mut ends: oneshot::Receiver<()>) {
    let (mut stalled, mut count) = (JoinSet::new(), 0);
    while ends.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
        let ask = LeaseRequest { lease: Some(LEASE), ..ask(20) };
        let leased = bursar.jobs().lease_wait(ask, Duration::from_millis(100)).await.unwrap();
        let mut done = Vec::new();
        for job in leased.jobs {
            count += 1;
            if count % STALLS == 0 {
                let bursar = bursar.clone();
                stalled.spawn(async move { stall(&bursar, job).await });
            } else {
                done.push(job);
            }
        }
        end(bursar, &done, COST).await;
    }
    while let Some(done) = stalled.join_next().await {
        done.unwrap();
    }
}

/// Keeps a job until it has another fence, and then reports its end.
async fn stall(bursar: &Bursar, job: Job) {
    loop {
        let now = bursar.jobs().find(job.id).await.unwrap().unwrap();
        if now.life.fence > job.life.fence {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    end(bursar, &[job], LATE).await;
}

async fn end(bursar: &Bursar, jobs: &[Job], amount: i64) {
    let end = || End::Complete {
        result: Payload::default(),
        usage: Some(vec![Usage { scope: None, amount }]),
        blobs: Vec::new(),
    };
    let items = jobs.iter().map(|job| Finish { job: job.id, fence: job.life.fence, end: end() }).collect();
    let answers = bursar.jobs().finish_all(items).await.unwrap();
    for (Job { id, life, .. }, answer) in jobs.iter().zip(answers) {
        match answer {
            Ok(_) => say(&format!("completed {id} {}", life.fence)),
            Err(Error::Refused(Refusal::LeaseLost { billed, .. })) => {
                say(&format!("lost {id} {} {billed}", life.fence));
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// Prints a line in one write.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}
