//! The metrics of jobs and queues.

use bursar::{AllQueues, JobState, QueueLoad, Span};

use super::Page;

/// The label of all queues that have no metrics of their own. A queue of this name is one of them.
const OTHER: &str = "(other)";

/// Writes the metrics of jobs and queues.
pub(super) fn write(queues: &AllQueues, page: &mut Page) {
    page.family("bursar_jobs");
    for state in JobState::ALL {
        page.sample("bursar_jobs", &format!("state=\"{state}\""), count(&queues.states, state));
    }
    page.value("bursar_queues", queues.count);
    page.value("bursar_queues_without_figures", queues.without_figures);
    let mut others = queues.others.clone();
    let mut loads: Vec<(String, &QueueLoad)> = Vec::new();
    for (name, load) in &queues.named {
        match name.as_str() {
            OTHER => merge(&mut others, load),
            name => loads.push((escaped(name), load)),
        }
    }
    loads.push((OTHER.to_owned(), &others));
    page.family("bursar_queue_jobs");
    for (queue, load) in &loads {
        for state in JobState::ALL {
            let labels = format!("queue=\"{queue}\",state=\"{state}\"");
            page.sample("bursar_queue_jobs", &labels, count(&load.states, state));
        }
    }
    let mut each = |name: &str, value: fn(&QueueLoad) -> String| {
        page.family(name);
        for (queue, load) in &loads {
            page.sample(name, &format!("queue=\"{queue}\""), value(load));
        }
    };
    each("bursar_queue_failed_attempts", |load| load.failed_attempts.to_string());
    each("bursar_queue_oldest_ready_seconds", |load| seconds(load.oldest_waiting));
    each("bursar_queue_oldest_lease_seconds", |load| seconds(load.oldest_lease));
}

fn count(states: &std::collections::BTreeMap<JobState, i64>, state: JobState) -> i64 {
    states.get(&state).copied().unwrap_or(0)
}

fn merge(into: &mut QueueLoad, load: &QueueLoad) {
    for (state, count) in &load.states {
        *into.states.entry(*state).or_default() += count;
    }
    into.failed_attempts += load.failed_attempts;
    into.oldest_waiting = into.oldest_waiting.max(load.oldest_waiting);
    into.oldest_lease = into.oldest_lease.max(load.oldest_lease);
}

fn seconds(age: Option<Span>) -> String {
    format!("{:.3}", age.map_or(0.0, |age| age.micros() as f64 / 1e6))
}

/// Returns a name as the value of a label. Names have no control characters.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use bursar::Queue;

    use super::*;

    #[test]
    fn names_are_escaped_and_the_name_of_the_others_is_not_repeated() {
        let load = |queued: i64| QueueLoad { states: [(JobState::Queued, queued)].into(), ..QueueLoad::default() };
        let queues = AllQueues {
            named: [("(other)", 2), (r#"a"b\c"#, 3)].map(|(name, n)| (Queue::new(name).unwrap(), load(n))).into(),
            others: load(40),
            ..AllQueues::default()
        };
        let mut page = Page::default();
        write(&queues, &mut page);
        let queued: Vec<&str> = page.0.lines().filter(|line| line.contains("state=\"queued\"")).skip(1).collect();
        let expected = [
            r#"bursar_queue_jobs{queue="a\"b\\c",state="queued"} 3"#,
            r#"bursar_queue_jobs{queue="(other)",state="queued"} 42"#,
        ];
        assert_eq!(queued, expected);
    }
}
