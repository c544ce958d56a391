//! Lines of flow keys, looked at as a whole: whoever waits in one has a first before it, and the counts are right.

use std::collections::BTreeMap;

use bursar_core::job::{Job, JobState, Place};
use bursar_core::state::LineKey;

use super::judge::Judge;
use super::tables::Tables;

/// Nobody may wait behind nobody: it would never be found.
pub(crate) fn check(judge: &mut Judge, tables: &Tables) {
    if judge.failure.is_none()
        && let Err(what) = look(tables)
    {
        judge.fail("no lost wake", what);
    }
}

fn look(tables: &Tables) -> Result<(), String> {
    let mut lines: BTreeMap<LineKey, Vec<&Job>> = BTreeMap::new();
    for job in tables.jobs.values() {
        let lined = job.life.place != Place::Out;
        if lined != (job.life.state == JobState::Queued && job.key.is_some()) {
            return Err(format!("{} is {} and stands {:?} in a line", job.id, job.life.state, job.life.place));
        }
        if let Some(key) = job.key.clone().filter(|_| lined) {
            let line = (job.tenant.clone(), job.queue.clone(), key, job.kind.clone());
            lines.entry(line).or_default().push(job);
        }
    }
    for (line, jobs) in &lines {
        let firsts = jobs.iter().filter(|job| job.life.place != Place::Behind).count();
        let scope = jobs[0].line().ok_or("a line has a scope")?;
        let kept = tables.scopes.get(&(line.0.clone(), scope)).map_or(0, |row| row.line.len(&line.3));
        if firsts != 1 || kept != jobs.len() as u64 {
            let places: Vec<_> = jobs.iter().map(|job| (job.id, job.life.place)).collect();
            return Err(format!("the line {line:?} is kept as {kept} long, and stands so: {places:?}"));
        }
    }
    for (key, row) in tables.scopes.iter().filter(|(_, row)| !row.line.is_empty() || row.line.barred > 0) {
        let in_line =
            |job: &&Job| job.tenant == key.0 && job.life.place != Place::Out && job.line() == Some(key.1.clone());
        let jobs: Vec<&Job> = tables.jobs.values().filter(in_line).collect();
        let barred = jobs.iter().filter(|job| job.life.place == Place::Barred).count() as u64;
        let waiting: u64 = row.line.waiting.iter().map(|(_, count)| count).sum();
        if (waiting, row.line.barred) != (jobs.len() as u64, barred) {
            return Err(format!("{key:?} keeps {:?} of a line of {} with {barred} barred", row.line, jobs.len()));
        }
        let running = row.balances[0].held;
        if barred > 0 && running == 0 {
            return Err(format!("{key:?} has {barred} barred, and nobody whose end would free them"));
        }
    }
    Ok(())
}
