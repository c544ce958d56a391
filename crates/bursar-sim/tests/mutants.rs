//! Every fault that can be turned on is caught.
//!
//! A fault is on for the whole process, so that this program has only one test.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bursar_core::cron::Cron;
use bursar_core::decide::Rules;
use bursar_core::job::{JobSpec, Missed, Overlap, ScheduleSpec};
use bursar_core::mutant::Mutant;
use bursar_core::name::{JobKind, Queue, ScheduleName, Tenant};
use bursar_core::payload::Payload;
use bursar_core::request::{CheckedRequest, Op};
use bursar_core::time::{Span, Time};
use bursar_core::window::Zone;
use bursar_sim::sim::mutation::{caught_elsewhere, hunt};
use bursar_sim::sim::run;
use bursar_store::prelude::*;
use bursar_store::{JobFilter, LockPolicy, ManualClock, MemoryStore, Setup};
use bursar_testkit::SeqIds;
use futures_util::FutureExt;

#[test]
fn every_fault_is_caught_and_correct_worlds_pass() {
    assert_eq!(jobs_per_tick(), 1);
    Mutant::switch(Some(Mutant::TickTwice));
    let jobs = jobs_per_tick();
    Mutant::switch(None);
    assert_eq!(jobs, 4, "each of the four tick requests enqueues a job, even the early one");
    let mut caught_by = Vec::new();
    for mutant in Mutant::ALL.iter().copied().filter(|mutant| caught_elsewhere(*mutant).is_none()) {
        assert!(is_consulted(mutant), "no source checks whether {mutant:?} is on");
        let hunt = hunt(mutant, 400, 600);
        let caught = hunt.caught.unwrap_or_else(|| panic!("{} survived {} worlds", mutant.name(), hunt.runs));
        caught_by.push((mutant, caught.1.check.to_string()));
    }
    for seed in 0..3 {
        assert!(run(seed, 600).failure.is_none(), "seed {seed} fails with all faults off");
    }
    let elsewhere = Mutant::ALL.iter().filter_map(|mutant| Some((*mutant, caught_elsewhere(*mutant)?.to_owned())));
    let document = read(&root().join("docs/simulation.md"));
    let lines: BTreeSet<&str> = document.lines().collect();
    let rows = caught_by.into_iter().chain(elsewhere);
    let rows = rows.map(|(mutant, by)| format!("| `{}` | {} | {by} |", mutant.name(), mutant.about().trim()));
    let missing: Vec<String> = rows.filter(|row| !lines.contains(row.as_str())).collect();
    assert!(missing.is_empty(), "docs/simulation.md lacks these rows:\n{}", missing.join("\n"));
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
