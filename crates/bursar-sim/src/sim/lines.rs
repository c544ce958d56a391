//! Checks the waiting lines of flow keys: each line has one first job, and the stored counts are right.

use std::collections::BTreeMap;

use bursar_core::job::{Job, JobState, Place};
use bursar_core::state::LineKey;
use bursar_store::memory::Tables;

use super::judge::Judge;

/// Fails if a job waits in a line without a first job: such a job would never be leased.
pub(crate) fn check(judge: &mut Judge, tables: &Tables) {
    if judge.failure.is_none()
        && let Err(what) = check_lines(tables)
    {
        judge.fail("no lost wake", what);
    }
}

fn check_lines(tables: &Tables) -> Result<(), String> {
    let mut lines: BTreeMap<LineKey, Vec<&Job>> = BTreeMap::new();
    for job in tables.jobs.values() {
        let in_line = job.life.place != Place::Out;
        if in_line != (job.life.state == JobState::Queued && job.key.is_some()) {
            return Err(format!("{} is {} and has the place {:?} in its line", job.id, job.life.state, job.life.place));
        }
        if let Some(key) = job.key.clone().filter(|_| in_line) {
            let line = (job.tenant.clone(), job.queue.clone(), key, job.kind.clone());
            lines.entry(line).or_default().push(job);
        }
    }
    for (line, jobs) in &lines {
        let firsts = jobs.iter().filter(|job| job.life.place != Place::Behind).count();
        let scope = jobs[0].line().ok_or("a line has a scope")?;
        let stored = tables.scopes.get(&(line.0.clone(), scope)).map_or(0, |row| row.line.len(&line.3));
        if firsts != 1 || stored != jobs.len() as u64 {
            let places: Vec<_> = jobs.iter().map(|job| (job.id, job.life.place)).collect();
            return Err(format!("the line {line:?} has the stored length {stored} and these jobs: {places:?}"));
        }
    }
    for (key, row) in tables.scopes.iter().filter(|(_, row)| !row.line.is_empty() || row.line.barred > 0) {
        let in_line =
            |job: &&Job| job.tenant == key.0 && job.life.place != Place::Out && job.line() == Some(key.1.clone());
        let jobs: Vec<&Job> = tables.jobs.values().filter(in_line).collect();
        let barred = jobs.iter().filter(|job| job.life.place == Place::Barred).count() as u64;
        let waiting: u64 = row.line.waiting.iter().map(|(_, count)| count).sum();
        if (waiting, row.line.barred) != (jobs.len() as u64, barred) {
            return Err(format!(
                "{key:?} stores {:?} for a line of {} jobs with {barred} barred",
                row.line,
                jobs.len()
            ));
        }
        let running = row.balances[0].held;
        if barred > 0 && running == 0 {
            return Err(format!("{key:?} has {barred} barred jobs but no running job whose end frees them"));
        }
    }
    Ok(())
}
