//! The lines of stories about jobs.
//!
//! | line | meaning |
//! | --- | --- |
//! | `enqueue a b q=q kind=k flow=k prio=1 delay=5s attempts=2 retry=5s deadline=9s unique=u hold=room:30,x:5` | jobs `a`, `b` |
//! | `lease 2 q=q,r kinds=a,b* for=5s` | takes up to two jobs; answered with names and fences: `a#1` |
//! | `complete a#1`, `fail a#1 boom final after=5s`, `snooze a#1 5s`, `return a#1`, `beat a#1` | reports of a worker |
//! | … `room=5`, `=5`, `none` | the reported usage |
//! | `enqueue a uses=x,y`, `complete a#1 makes=x,y` | the blobs that a job uses, or has made |
//! | `cancel a`, `retry`, `discard`, `rescue`, `resume`, `forget`, `move a r`, `edit a prio=1 delay=5s` | operations on jobs |
//! | `queue q paused concurrency=1 rate=2/10s key_concurrency=1 key_rate=2/10s keep=1d` | defines a queue |
//! | `job a`, `due`, `figures q`, `dead`, `line q key` | reads |

use bursar_core::answer::{Answer, Finished, Submitted};
use bursar_core::id::JobId;
use bursar_core::job::{
    Backoff, End, Finish, FlowScopes, HeartbeatItem, Job, JobError, JobSpec, LeaseRequest, Place, Progress,
    QueueConfig, Rate, Retention, Retry, Usage,
};
use bursar_core::name::{FlowKey, IdempotencyKey, JobKind, Queue, Tenant, WorkerName};
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Act, Charge, Command, Op, Settle};
use bursar_core::state::Counted;
use bursar_core::time::Span;
use bursar_store::prelude::*;
use bursar_store::{Clock, DeadGroup, Figures};
use futures_util::FutureExt;

use crate::story::{World, scope, span};

fn queue(name: &str) -> Queue {
    Queue::new(name).unwrap()
}

pub(crate) struct Words<'a>(pub(crate) &'a [&'a str]);

impl<'a> Words<'a> {
    pub(crate) fn value(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    pub(crate) fn span(&self, name: &str) -> Option<Span> {
        self.value(name).map(span)
    }

    pub(crate) fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(&self, name: &str) -> Option<T> {
        self.value(name).map(|text| text.parse().unwrap())
    }

    fn plain(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.0.iter().copied().filter(|word| !word.contains('='))
    }

    fn rate(&self, name: &str) -> Option<Rate> {
        let (amount, per) = self.value(name)?.split_once('/').unwrap();
        Some(Rate { amount: amount.parse().unwrap(), per: span(per) })
    }
}

impl World {
    /// Parses a line about jobs.
    pub(crate) fn work(&self, verb: &str, words: &[&str]) -> Op {
        let said = Words(words);
        let act = |act: Act| Op::Act { act, jobs: said.plain().map(|name| self.id(name)).collect() };
        match verb {
            "enqueue" => {
                let mut command = enqueue(&said);
                command.jobs.iter_mut().for_each(|job| job.blobs = self.blobs_named(said.value("uses")));
                Op::Submit(command)
            }
            "lease" => Op::Lease(LeaseRequest {
                queues: said.value("q").unwrap_or("q").split(',').map(queue).collect(),
                kinds: said
                    .value("kinds")
                    .iter()
                    .flat_map(|k| k.split(','))
                    .map(|k| JobKind::new(k).unwrap())
                    .collect(),
                capacity: words[0].parse().unwrap(),
                lease: said.span("for"),
                worker: WorkerName::new("w").unwrap(),
            }),
            "complete" | "fail" | "snooze" | "return" => {
                let (job, fence) = self.leased(words[0]);
                let mut end = end(verb, &Words(&words[1..]));
                if let End::Complete { blobs, .. } = &mut end {
                    *blobs = self.blobs_named(said.value("makes"));
                }
                Op::Finish { items: vec![Finish { job, fence, end }] }
            }
            "beat" => {
                let (job, fence) = self.leased(words[0]);
                let mut progress = Progress { percent: said.number("percent"), ..Progress::default() };
                progress.checkpoint = said.value("saves").map(|json| Payload::new(json).unwrap());
                let progress = Some(progress).filter(|progress| *progress != Progress::default());
                Op::Heartbeat { beats: vec![HeartbeatItem { job, fence, progress }] }
            }
            "cancel" => act(Act::Cancel),
            "retry" => act(Act::Retry),
            "discard" => act(Act::Discard),
            "rescue" => act(Act::Rescue),
            "resume" => act(Act::Resume),
            "forget" => act(Act::Forget),
            "unbar" => act(Act::Unbar),
            "move" => Op::Act { act: Act::Move { queue: queue(words[1]) }, jobs: vec![self.id(words[0])] },
            "edit" => act(Act::Edit { priority: said.number("prio"), delay: said.span("delay") }),
            "queue" => Op::DefineQueue { queue: queue(words[0]), config: config(&said) },
            other => {
                let op = self.blob_op(other, words).or_else(|| self.schedule_op(other, words));
                op.unwrap_or_else(|| panic!("unknown request {other:?}"))
            }
        }
    }

    fn id(&self, name: &str) -> JobId {
        self.names.get(name).copied().unwrap_or(JobId(u128::MAX >> 1))
    }

    fn leased(&self, text: &str) -> (JobId, u64) {
        let (name, fence) = text.split_once('#').unwrap();
        (self.id(name), fence.parse().unwrap())
    }

    pub(crate) fn name(&self, id: JobId) -> String {
        let known = self.names.iter().find(|(_, known)| **known == id).map(|(name, _)| name.clone());
        known.unwrap_or_else(|| "a stranger".to_owned())
    }

    pub(crate) fn enqueued(&mut self, line: &str, submitted: &Submitted) -> String {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let each = Words(&words).plain().zip(&submitted.jobs).map(|(name, job)| {
            if job.created {
                self.jobs.push(job.id);
                self.names.insert(name.to_owned(), job.id);
                return name.to_owned();
            }
            format!("{} found", self.name(job.id))
        });
        each.collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn work_answer(&self, answer: &Answer) -> String {
        match answer {
            Answer::Leased(leased) => {
                let each = leased.jobs.iter().map(|job| format!("{}#{}", self.name(job.id), job.life.fence));
                let mut said = each.collect::<Vec<_>>().join(" ");
                if said.is_empty() {
                    said.push_str("nothing");
                }
                if let Some(at) = leased.next_at {
                    said.push_str(&format!(", next in {}", self.how_long(at)));
                }
                said
            }
            Answer::Renewed(each) => self.each(each, |beaten| {
                let order = serde_json::to_string(&beaten.order).unwrap();
                format!("{}, for {}", order.trim_matches('"'), self.how_long(beaten.until))
            }),
            Answer::Finished(each) | Answer::Acted { each, .. } => self.each(each, |finished| self.finished(finished)),
            other => panic!("{other:?} is not an answer about jobs"),
        }
    }

    fn each<T>(&self, each: &[Result<T, Refusal>], said: impl Fn(&T) -> String) -> String {
        let each = each.iter().map(|one| match one {
            Ok(done) => said(done),
            Err(refusal) => self.refusal(refusal),
        });
        each.collect::<Vec<_>>().join("; ")
    }

    fn finished(&self, finished: &Finished) -> String {
        let mut said = finished.state.to_string();
        if let Some(at) = finished.run_at.filter(|at| *at > self.clock.now()) {
            said.push_str(&format!(" in {}", self.how_long(at)));
        }
        if finished.total_cost() != 0 {
            said.push_str(&format!(", cost {}", finished.total_cost()));
        }
        for warning in finished.warnings() {
            said.push_str(&format!(", {warning} {}", finished.overrun));
        }
        said
    }

    fn stored(&self, name: &str) -> Option<Job> {
        self.store.job(&Tenant::built_in(), self.id(name)).now_or_never().unwrap().unwrap()
    }

    pub(crate) fn job_words(&self, name: &str) -> String {
        let Some(job) = self.stored(name) else { return "gone".to_owned() };
        let mut said = vec![job.state_at(self.clock.now()).to_string()];
        said.extend((job.life.attempts > 0).then(|| format!("attempt {}", job.life.attempts)));
        said.extend(match job.life.place {
            Place::Out => None,
            Place::First => Some("first".to_owned()),
            Place::Barred => Some("barred".to_owned()),
            Place::Until(at) => Some(format!("delayed for {}", self.how_long(at))),
            Place::Behind => Some("behind".to_owned()),
        });
        said.extend(job.life.cancelling.then(|| "cancelling".to_owned()));
        said.extend(job.life.awaits.as_ref().map(|scope| format!("awaits {scope}")));
        said.extend(job.hold.map(|hold| {
            let hold = self.store.hold(&Tenant::built_in(), hold).now_or_never().unwrap().unwrap().unwrap();
            format!("hold {}", hold.state)
        }));
        said.extend(job.life.error.as_ref().map(|error| error.kind.clone()));
        said.extend((job.total_cost() != 0).then(|| format!("cost {}", job.total_cost())));
        said.extend(job.life.progress.as_ref().map(|report| {
            let percent = report.percent.map(|percent| format!(" {percent} %")).unwrap_or_default();
            format!("report {} of lease {}{percent}", report.number, report.fence)
        }));
        said.extend(job.life.checkpoint.as_ref().map(|checkpoint| format!("at {}", checkpoint.as_str())));
        said.join(", ")
    }

    pub(crate) fn due_words(&self) -> String {
        let due = self.store.due_jobs(100).now_or_never().unwrap().unwrap();
        let mut said = Vec::new();
        for (what, jobs) in [("lapsed", due.lapsed), ("awaiting", due.awaiting), ("ended", due.ended)] {
            said.extend(jobs.iter().map(|(_, job)| format!("{} {what}", self.name(*job))));
        }
        said.join(", ")
    }

    pub(crate) fn figure_words(&self, name: &str) -> String {
        let figures = self.figures(&queue(name));
        let mut sums: Vec<(String, i64)> = Vec::new();
        for (what, count) in figures.counts {
            let what = match what {
                Counted::In(state) => state.to_string(),
                Counted::Enqueued(_) => "came".to_owned(),
                Counted::Ended(state, _) => format!("became {state}"),
                Counted::Failed(_) => "failed".to_owned(),
            };
            match sums.iter_mut().find(|(known, _)| *known == what) {
                Some((_, sum)) => *sum += count,
                None => sums.push((what, count)),
            }
        }
        sums.iter().map(|(what, sum)| format!("{sum} {what}")).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn figures(&self, queue: &Queue) -> Figures {
        let key = (Tenant::built_in(), queue.clone());
        self.store.figures(&[key], i64::MIN).now_or_never().unwrap().unwrap().remove(0)
    }

    pub(crate) fn dead_groups(&self) -> Vec<DeadGroup> {
        self.store.list_dead_groups(&Tenant::built_in(), None, None, 1_000).now_or_never().unwrap().unwrap()
    }

    pub(crate) fn dead_words(&self) -> String {
        let mut groups = self.dead_groups();
        groups.sort_by_key(|group| (group.queue.clone(), group.kind.clone(), group.first_at));
        let words = |group: &DeadGroup| {
            let DeadGroup { queue, kind, count, error, first_at, last_at, .. } = group;
            let over = last_at.micros() - first_at.micros();
            format!("{count} {kind} of {queue}: {}, over {} s", error.kind, over / 1_000_000)
        };
        groups.iter().map(words).collect::<Vec<_>>().join("; ")
    }

    pub(crate) fn line_words(&self, name: &str, key: &str) -> String {
        let row = self.scope_row(FlowScopes::of_key(&queue(name), &FlowKey::new(key).unwrap()).slots.as_str());
        let each = row.line.waiting.iter().map(|(kind, count)| format!("{count} {kind}"));
        let line = each.collect::<Vec<_>>().join(", ");
        format!("{line}; {} barred; {} leased", row.line.barred, row.balances[0].held)
    }
}

fn enqueue(said: &Words<'_>) -> Command {
    let spec = |_| {
        let kind = JobKind::new(said.value("kind").unwrap_or("work")).unwrap();
        let mut spec = JobSpec::new(queue(said.value("q").unwrap_or("q")), kind, Payload::default());
        spec.idempotency_key = said.value("unique").map(|key| IdempotencyKey::new(key).unwrap());
        spec.key = said.value("flow").map(|key| FlowKey::new(key).unwrap());
        spec.priority = said.number("prio").unwrap_or(0);
        spec.delay = said.span("delay").unwrap_or(Span::ZERO);
        spec.max_attempts = said.number("attempts");
        // A fixed delay, because the default has a random part.
        let backoff = Backoff::Fixed { delay: said.span("retry").unwrap_or(Span::from_secs(10)) };
        spec.retry = Some(Retry { backoff, ..Retry::default() });
        spec.deadline = said.span("deadline");
        spec
    };
    let charges = said.value("hold").into_iter().flat_map(|text| text.split(',')).map(|text| {
        let (name, amount) = text.split_once(':').unwrap();
        Charge::new(scope(name), amount.parse().unwrap())
    });
    let charges: Vec<Charge> = charges.collect();
    let settle = if charges.is_empty() { Settle::Now } else { Settle::Job };
    Command { charges, settle, jobs: said.plain().map(spec).collect(), ..Command::default() }
}

fn end(verb: &str, said: &Words<'_>) -> End {
    let is_option = |word: &&&str| ["after=", "makes=", "as="].iter().any(|option| word.starts_with(option));
    let spent = said.0.iter().filter(|word| !is_option(word)).filter_map(|word| {
        let (name, amount) = word.split_once('=')?;
        Some(Usage { scope: (!name.is_empty()).then(|| scope(name)), amount: amount.parse().unwrap() })
    });
    let spent: Vec<Usage> = spent.collect();
    let usage = (!spent.is_empty() || said.0.contains(&"none")).then_some(spent);
    match verb {
        "complete" => End::Complete { result: Payload::new("{\"ok\":true}").unwrap(), usage, blobs: Vec::new() },
        "fail" => End::Fail {
            error: JobError::new(said.plain().next().unwrap_or("boom"), ""),
            retryable: !said.0.contains(&"final"),
            retry_after: said.span("after"),
            usage,
        },
        "snooze" => End::Snooze { delay: span(said.0[0]) },
        _ => End::Return,
    }
}

fn config(said: &Words<'_>) -> QueueConfig {
    let kept = said.span("keep");
    let retention = kept.map_or(Retention::default(), |kept| Retention {
        succeeded: Some(kept),
        cancelled: Some(kept),
        dead: None,
    });
    QueueConfig {
        paused: said.0.contains(&"paused"),
        concurrency: said.number("concurrency"),
        rate: said.rate("rate"),
        key_concurrency: said.number("key_concurrency"),
        key_rate: said.rate("key_rate"),
        lease: said.span("lease").unwrap_or(Span::from_secs(30)),
        deadline: said.span("deadline"),
        retention,
        ..QueueConfig::default()
    }
}
