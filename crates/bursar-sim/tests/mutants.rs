//! Every fault that can be turned on is caught.
//!
//! A fault is on for the whole process, so that this program has only one test, and each hunt is a process of its own.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use bursar_core::cron::Cron;
use bursar_core::decide::Rules;
use bursar_core::job::{JobSpec, Missed, Overlap, ScheduleSpec};
use bursar_core::mutant::Mutant;
use bursar_core::name::{JobKind, Queue, ScheduleName, Tenant};
use bursar_core::payload::Payload;
use bursar_core::request::{CheckedRequest, Op};
use bursar_core::slice::Slice;
use bursar_core::time::{Span, Time};
use bursar_core::window::Zone;
use bursar_sim::sim::mutation::caught_elsewhere;
use bursar_store::prelude::*;
use bursar_store::{JobFilter, LockPolicy, ManualClock, MemoryStore, Setup};
use bursar_testkit::SeqIds;
use futures_util::FutureExt;

/// The most worlds to run per fault.
const WORLDS_MAX: u64 = 400;

#[test]
fn every_fault_is_caught_and_correct_worlds_pass() {
    assert_eq!(jobs_per_tick(), 1);
    Mutant::switch(Some(Mutant::TickTwice));
    let jobs = jobs_per_tick();
    Mutant::switch(None);
    assert_eq!(jobs, 4, "each of the four tick requests enqueues a job, even the early one");
    assert_eq!(admitted_by_an_old_slice(), 10);
    for (fault, admitted) in [(Mutant::SpendOldSlice, 12), (Mutant::OverspendSlice, 15)] {
        Mutant::switch(Some(fault));
        let with_fault = admitted_by_an_old_slice();
        Mutant::switch(None);
        assert_eq!(with_fault, admitted, "{fault:?} admits units that the slice does not have");
    }
    let hunted = Mutant::ALL.iter().copied().filter(|mutant| caught_elsewhere(*mutant).is_none());
    let worlds = hunted.map(Some).chain([None]).collect();
    let mut caught_by = Vec::new();
    for (mutant, check) in run_all(worlds) {
        match (mutant, check) {
            (Some(mutant), Some(check)) => {
                assert!(is_consulted(mutant), "no source checks whether {mutant:?} is on");
                caught_by.push((mutant, check));
            }
            (Some(mutant), None) => panic!("{} survived {WORLDS_MAX} worlds", mutant.name()),
            (None, Some(check)) => panic!("with all faults off, a world fails: {check}"),
            (None, None) => {}
        }
    }
    let elsewhere = Mutant::ALL.iter().filter_map(|mutant| Some((*mutant, caught_elsewhere(*mutant)?.to_owned())));
    let document = read(&root().join("docs/simulation.md"));
    let lines: BTreeSet<&str> = document.lines().collect();
    let rows = caught_by.into_iter().chain(elsewhere);
    let rows = rows.map(|(mutant, by)| format!("| `{}` | {} | {by} |", mutant.name(), mutant.about().trim()));
    let missing: Vec<String> = rows.filter(|row| !lines.contains(row.as_str())).collect();
    assert!(missing.is_empty(), "docs/simulation.md lacks these rows:\n{}", missing.join("\n"));
}

/// Runs worlds with each of these faults, as many at once as there are processors. Returns for each the check that failed.
fn run_all(mut faults: Vec<Option<Mutant>>) -> Vec<(Option<Mutant>, Option<String>)> {
    faults.reverse();
    let (waiting, results) = (Mutex::new(faults), Mutex::new(Vec::new()));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(fault) = next() {
                    let check = failed_check(fault);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((fault, check));
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs worlds until one fails, and returns the check that failed; `None` if none does.
fn failed_check(fault: Option<Mutant>) -> Option<String> {
    let mut sim = Command::new(env!("CARGO_BIN_EXE_sim"));
    let worlds = fault.map_or(3, |_| WORLDS_MAX).to_string();
    sim.args(["--seed", "0", "--commands", "600", "--seeds", &worlds]);
    sim.args(fault.into_iter().flat_map(|fault| ["--mutant", fault.name()]));
    let output = sim.output().expect("the simulator starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let check = text.lines().find_map(|line| line.strip_prefix("FAILED")).map(|check| check.trim().to_owned());
    assert_eq!(
        output.status.success(),
        check.is_none(),
        "{fault:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    check
}

/// Returns how many units one slice of 12 admits by requests of 5 units, and by one of 2 units when its life has ended.
fn admitted_by_an_old_slice() -> i64 {
    let mut slice = Slice::new(12, Span::from_secs(10));
    for _ in 0..3 {
        slice.take(5, Span::from_secs(9));
    }
    slice.take(2, Span::from_secs(10));
    slice.spent()
}

/// Returns how many jobs one tick of a schedule enqueues when one request comes early and three come in time, two of them in
/// one transaction.
fn jobs_per_tick() -> usize {
    let clock = Arc::new(ManualClock::at(Time::from_micros(1_794_744_000_000_000)));
    let ids = Arc::new(Mutex::new(SeqIds::new(1)));
    let store = MemoryStore::new(Setup { rules: Rules::default(), clock: Some(clock.clone()), ids, migrate: true });
    let commit = |ops: Vec<Op>| {
        let checked = |op: Op| Arc::new(CheckedRequest::new(op.into()).expect("a valid request"));
        let requests: Vec<_> = ops.into_iter().map(checked).collect();
        let outcomes = store.commit(&requests, LockPolicy::Skip).now_or_never().expect("memory never waits");
        outcomes.expect("memory never fails")
    };
    let queue = Queue::new("q").expect("a name");
    let kind = JobKind::new("report").expect("a name");
    let spec = ScheduleSpec {
        cron: Cron::new("0 * * * *").expect("every hour"),
        zone: Zone::new("UTC").expect("a zone"),
        job: JobSpec::new(queue, kind, Payload::default()),
        missed: Missed::One,
        overlap: Overlap::Allow,
        paused: false,
    };
    let schedule = ScheduleName::new("hourly").expect("a name");
    let tick = || Op::Tick { schedule: schedule.clone() };
    commit(vec![Op::DefineSchedule { schedule: schedule.clone(), spec }]);
    commit(vec![tick()]);
    clock.advance(Span::from_secs(3_600));
    commit(vec![tick(), tick()]);
    commit(vec![tick()]);
    let jobs = store.list_jobs(&Tenant::built_in(), &JobFilter::default(), None, 100).now_or_never();
    jobs.expect("memory never waits").expect("memory never fails").len()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate is in the workspace")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns whether a source file checks for the fault.
fn is_consulted(mutant: Mutant) -> bool {
    let question = format!("Mutant::{mutant:?}.on()");
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") && read(&path).contains(&question) {
                return true;
            }
        }
    }
    false
}
