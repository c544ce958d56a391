//! Schedules: which ticks enqueue a job.
//!
//! | line | meaning |
//! | --- | --- |
//! | `schedule s 0_*_*_*_* zone=Z missed=all overlap=skip flow=k paused` | defines `s`; answered with its next tick |
//! | `tick s` | fires due ticks; the answer lists the new jobs `s1`, `s2`, … with their ticks |
//! | `run s`, `pause s`, `unpause s`, `remove s` | runs, pauses, resumes or removes `s` |
//! | `at 12:10`, `at 2027-03-28T00:59:00Z` | sets the time of the next transaction |
//! | `show s`, `ticks` | reads a schedule, or the due schedules |

use bursar_core::answer::Outcome;
use bursar_core::bounds::{DELAY_MAX, PRIORITY_MAX, SCHEDULE_PAYLOAD_BYTES_MAX, TICKS_MAX};
use bursar_core::cron::Cron;
use bursar_core::decide::{Decided, Rules, decide};
use bursar_core::event::Event;
use bursar_core::id::BatchId;
use bursar_core::job::{FlowScopes, JobSpec, Schedule, ScheduleSpec};
use bursar_core::name::{FlowKey, IdempotencyKey, JobKind, Queue, ScheduleName, Tenant};
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::request::{CheckedRequest, Op, Request};
use bursar_core::state::{ScheduleKey, Workspace};
use bursar_core::time::{Span, Time};
use bursar_core::window::Zone;
use bursar_store::prelude::*;
use futures_util::FutureExt;
use serde::de::DeserializeOwned;

use crate::story::{Counter, NOON, World, story};

#[test]
fn missed_ticks_are_enqueued_by_policy() {
    let late = "12:35";
    let on_time = "12:30:20";
    let (none, last) = ("skipped, next 12:40", "s1 for 12:30, next 12:40");
    let all = "s1 for 12:10, s2 for 12:20, s3 for 12:30, next 12:40";
    for (missed, noticed, expected) in [
        ("skip", late, none),
        ("skip", on_time, last),
        ("one", late, last),
        ("one", on_time, last),
        ("all", late, all),
        ("all", on_time, all),
    ] {
        story(&format!(
            "schedule s */10_*_*_*_* missed={missed} => next 12:10
             tick s                                  => nothing
             at {noticed}                            =>
             ticks                                   => s due
             tick s                                  => {expected}
             tick s                                  => nothing
             ticks                                   => next 12:40
             at 12:40                                =>
             tick s                                  => {}",
            match expected {
                _ if expected == none => "s1 for 12:40, next 12:50",
                _ if expected == last => "s2 for 12:40, next 12:50",
                _ => "s4 for 12:40, next 12:50",
            }
        ));
    }
}

#[test]
fn a_tick_is_on_time_for_up_to_a_minute() {
    story(
        "schedule s 0_*_*_*_* missed=skip           => next 13:00
         at 13:01                                   =>
         tick s                                     => s1 for 13:00, next 14:00
         at 14:01:01                                =>
         tick s                                     => skipped, next 15:00
         schedule f */20_*_*_*_*_* missed=skip      => next 14:01:20
         at 14:01:59                                =>
         tick f                                     => f1 for 14:01:40, next 14:02",
    );
}

#[test]
fn a_tick_enqueues_exactly_one_job() {
    story(
        "schedule s 0_*_*_*_*   => next 13:00
         at 13:00               =>
         tick s                 => s1 for 13:00, next 14:00
         + tick s               => nothing
         + tick s               => nothing
         tick s                 => nothing
         tick other             => nothing
         figures q              => 1 queued, 1 came
         events                 => schedule.defined, job.enqueued, schedule.ticked",
    );
}

#[test]
fn the_overlap_policy_applies_while_the_last_job_runs() {
    story(
        "schedule a 0_*_*_*_*                  => next 13:00
         schedule s 0_*_*_*_* overlap=skip      => next 13:00
         schedule c 0_*_*_*_* overlap=cancel    => next 13:00
         at 13:00                               =>
         tick a                                 => a1 for 13:00, next 14:00
         + tick s                               => s1 for 13:00, next 14:00
         + tick c                               => c1 for 13:00, next 14:00
         at 14:00                               =>
         tick a                                 => a2 for 14:00, next 15:00
         + tick s                               => skipped, next 15:00
         + tick c                               => c1 cancelled, c2 for 14:00, next 15:00
         job a1                                 => queued
         job s1                                 => queued
         lease 9                                => a1#1 s1#1 a2#1 c2#1
         complete s1#1                          => succeeded
         fail a2#1 final                        => dead
         at 15:00                               =>
         tick s                                 => s2 for 15:00, next 16:00
         + tick c                               => c2 cancelling, c3 for 15:00, next 16:00
         job c2                                 => leased, attempt 1, cancelling
         show s                                 => last 15:00, next 16:00",
    );
}

#[test]
fn the_overlap_policy_applies_to_missed_ticks() {
    story(
        "schedule s 0_*_*_*_* missed=all overlap=skip               => next 13:00
         schedule c 0_*_*_*_* missed=all overlap=cancel flow=k      => next 13:00
         at 15:30                                                   =>
         tick s                                                     => s1 for 13:00, next 16:00
         tick c                                                     => c1 for 13:00, c1 cancelled, c2 for 14:00, c2 cancelled, c3 for 15:00, next 16:00
         lease 9                                                    => s1#1 c3#1
         figures q                                                  => 2 leased, 2 cancelled, 4 came, 2 became cancelled",
    );
}

#[test]
fn jobs_of_a_schedule_use_their_flow_key() {
    story(
        "queue q key_concurrency=1                      => done
         schedule c 0_*_*_*_* overlap=cancel flow=k     => next 13:00
         + run c                                        => c1 now
         enqueue x flow=k                               => x
         job c1                                         => queued, first
         at 13:00                                       =>
         tick c                                         => c1 cancelled, c2 for 13:00, next 14:00
         job x                                          => queued, first
         lease 9                                        => x#1
         job c2                                         => queued, barred
         complete x#1                                   => succeeded
         lease 9                                        => c2#1",
    );
}

#[test]
fn a_paused_schedule_skips_its_ticks() {
    story(
        "schedule s 0_*_*_*_* missed=all    => next 13:00
         at 14:30                           =>
         pause s                            => paused
         pause s                            => paused
         tick s                             => nothing
         ticks                              =>
         at 15:30                           =>
         run s                              => s1 now
         unpause s                          => next 16:00
         unpause s                          => next 16:00
         at 16:00                           =>
         tick s                             => s2 for 16:00, next 17:00
         schedule p 0_*_*_*_* paused        => paused
         pause missing                       => there is no schedule missing
         unpause missing                     => there is no schedule missing
         events                             => schedule.defined, schedule.defined, job.enqueued, schedule.ticked, schedule.defined, job.enqueued, schedule.ticked, schedule.defined",
    );
}

#[test]
fn a_definition_with_the_same_times_keeps_the_next_tick() {
    story(
        "schedule s 0_*_*_*_* missed=all            => next 13:00
         at 14:30                                   =>
         schedule s 0_*_*_*_* missed=one q=other    => next 13:00
         tick s                                     => s1 for 14:00, next 15:00
         lease 9                                    => nothing
         lease 9 q=other                            => s1#1
         at 16:30                                   =>
         schedule s 30_*_*_*_* missed=all           => next 17:30
         tick s                                     => nothing
         schedule s 30_*_*_*_* zone=Asia/Kolkata    => next 17:00
         show s                                     => last 14:00, next 17:00
         at 18:30                                   =>
         schedule s 30_*_*_*_* zone=Asia/Kolkata paused => paused
         schedule s 30_*_*_*_* zone=Asia/Kolkata    => next 19:00",
    );
}

#[test]
fn removing_a_schedule_keeps_its_jobs() {
    story(
        "schedule s 0_*_*_*_*   => next 13:00
         run s                  => s1 now
         remove s               => done
         remove s               => there is no schedule s
         run s                  => there is no schedule s
         at 13:00               =>
         tick s                 => nothing
         ticks                  =>
         show s                 => gone
         lease 9                => s1#1
         schedule s 0_*_*_*_*   => next 14:00
         show s                 => next 14:00
         run s tenant=other     => there is no schedule s",
    );
}

#[test]
fn a_manual_run_keeps_the_ticks_and_respects_overlap() {
    story(
        "schedule s 0_*_*_*_* overlap=skip      => next 13:00
         run s                                  => s1 now
         show s                                 => last 12:00, next 13:00
         run s                                  => s1 is queued: the schedule skips runs until this job has ended
         at 13:00                               =>
         tick s                                 => skipped, next 14:00
         lease 9                                => s1#1
         run s                                  => s1 is leased: the schedule skips runs until this job has ended
         complete s1#1                          => succeeded
         run s                                  => s2 now
         schedule c 0_*_*_*_* overlap=cancel    => next 14:00
         run c                                  => c1 now
         run c                                  => c1 cancelled, c2 now
         schedule a 0_*_*_*_*                   => next 14:00
         run a                                  => a1 now
         + run a                                => a2 now",
    );
}

#[test]
fn many_missed_ticks_are_handled_in_steps() {
    assert_eq!(TICKS_MAX, 1_000);
    story(
        "schedule a *_*_*_*_*_* missed=all      => next 12:00:01
         schedule o *_*_*_*_*_* missed=one      => next 12:00:01
         schedule s *_*_*_*_*_* missed=skip     => next 12:00:01
         at 12:41:40                            =>
         tick a                                 => 1000 jobs from 12:00:01 to 12:16:40, next 12:16:41
         + tick o                               => skipped, next 12:16:41
         + tick s                               => skipped, next 12:16:41
         at 12:41:40                            =>
         ticks                                  => a due, o due, s due
         tick a                                 => 1000 jobs from 12:16:41 to 12:33:20, next 12:33:21
         + tick o                               => skipped, next 12:33:21
         + tick s                               => skipped, next 12:33:21
         at 12:41:40                            =>
         tick a                                 => 500 jobs from 12:33:21 to 12:41:40, next 12:41:41
         + tick o                               => o1 for 12:41:40, next 12:41:41
         + tick s                               => s1 for 12:41:40, next 12:41:41
         figures q                              => 2502 queued, 2502 came",
    );
}

#[test]
fn a_daily_tick_fires_once_when_the_clocks_change() {
    // In Berlin there is no 02:30 on 28 March 2027, and there are two on 31 October 2027.
    for (begin, end, expected) in [
        (
            "2027-03-26T12:00:00Z",
            "2027-03-29T12:00:00Z",
            "s1 for 03-27 01:30, s2 for 03-28 01:00, s3 for 03-29 00:30, next 03-30 00:30",
        ),
        (
            "2027-10-29T12:00:00Z",
            "2027-11-01T12:00:00Z",
            "s1 for 10-30 00:30, s2 for 10-31 00:30, s3 for 11-01 01:30, next 11-02 01:30",
        ),
    ] {
        let first = expected.split([',']).next().unwrap().trim_start_matches("s1 for ");
        story(&format!(
            "at {begin}                                             =>
             schedule s 30_2_*_*_* zone=Europe/Berlin missed=all    => next {first}
             at {end}                                               =>
             tick s                                                 => {expected}"
        ));
    }
    // A schedule that fires in every hour also fires in the hour that occurs twice.
    story(
        "at 2027-10-30T23:45:00Z                                =>
         schedule s */30_*_*_*_* zone=Europe/Berlin missed=all  => next 10-31 00:00
         at 2027-10-31T01:59:00Z                                =>
         tick s                                                 => s1 for 10-31 00:00, s2 for 10-31 00:30, s3 for 10-31 01:00, s4 for 10-31 01:30, next 10-31 02:00",
    );
}

#[test]
fn invalid_schedules_are_refused_and_change_nothing() {
    for cron in ["0 0 30 2 *", "0 0 31 4,6 *", "", "* * * *", "61 * * * *", "@fortnightly"] {
        assert_eq!(Cron::new(cron).unwrap_err().field, "cron", "{cron}");
    }
    assert_eq!(Zone::new("Mars/Olympus").unwrap_err().field, "zone");
    let nowhere: Zone = serde_json::from_str("\"Mars/Olympus\"").unwrap();
    let plain = || JobSpec::new(Queue::new("q").unwrap(), JobKind::new("work").unwrap(), Payload::default());
    let good = |job| ScheduleSpec::new(Cron::new("@hourly").unwrap(), Zone::utc(), job);
    let key = IdempotencyKey::new("k").unwrap();
    let large = Payload::of(&"x".repeat(SCHEDULE_PAYLOAD_BYTES_MAX)).unwrap();
    let mut world = World::default();
    for (spec, field) in [
        (ScheduleSpec { zone: nowhere, ..good(plain()) }, "zone"),
        (good(JobSpec { idempotency_key: Some(key.clone()), ..plain() }), "idempotency_key"),
        (good(JobSpec { priority: PRIORITY_MAX + 1, ..plain() }), "priority"),
        (good(JobSpec { delay: Span::from_micros(DELAY_MAX.micros() + 1), ..plain() }), "delay_ms"),
        (good(JobSpec { max_attempts: Some(0), ..plain() }), "max_attempts"),
        (good(JobSpec { payload: large, ..plain() }), "payload"),
        (good(JobSpec { payload_from_grant: true, ..plain() }), "payload_from_grant"),
    ] {
        let refused = world.commit(vec![Op::DefineSchedule { schedule: named("s"), spec }.into()]).remove(0);
        assert!(matches!(&refused, Err(Refusal::Invalid(invalid)) if invalid.field == field), "{field}: {refused:?}");
    }
    let keyed = Request::from(Op::RunSchedule { schedule: named("s") }).with_key(key);
    let refused = world.commit(vec![keyed]).remove(0);
    assert!(matches!(refused, Err(Refusal::UnknownSchedule { .. })), "a key is accepted: {refused:?}");
    // The calendar ends before the next first of January.
    world.clock.set("9999-12-30T21:00:00Z".parse().unwrap());
    let spec = ScheduleSpec { cron: Cron::new("@yearly").unwrap(), ..good(plain()) };
    let refused = world.commit(vec![Op::DefineSchedule { schedule: named("s"), spec }.into()]).remove(0);
    assert!(matches!(refused, Err(Refusal::Invalid(invalid)) if invalid.field == "cron"));
    assert_eq!(world.events(), "");
    assert_eq!(world.store.schedule(&key_of("s")).now_or_never().unwrap().unwrap(), None);
}

#[test]
fn a_cancelling_tick_without_the_jobs_line_changes_nothing() {
    let mut world = World::default();
    world.tell(
        "schedule c 0_*_*_*_* overlap=cancel flow=k     => next 13:00
         run c                                          => c1 now
         enqueue x flow=k                               => x",
    );
    let (tenant, queue, job) = (Tenant::built_in(), Queue::new("q").unwrap(), world.names["c1"]);
    let line = (tenant.clone(), FlowScopes::of_key(&queue, &FlowKey::new("k").unwrap()).slots);
    for op in [Op::Tick { schedule: named("c") }, Op::RunSchedule { schedule: named("c") }] {
        // The job behind it in the line is not loaded, as if another transaction had locked it.
        let mut ws = Workspace::new("2026-11-15T13:00:00Z".parse().unwrap(), BatchId(9));
        ws.schedules.load(key_of("c"), world.store.schedule(&key_of("c")).now_or_never().unwrap().unwrap());
        ws.jobs.load(job, world.store.job(&Tenant::built_in(), job).now_or_never().unwrap().unwrap());
        ws.scopes.load(line.clone(), world.store.scope(&line).now_or_never().unwrap().unwrap());
        ws.queues.load((tenant.clone(), queue.clone()), None);
        let Decided::Answered(refused) =
            decide(&mut ws, &CheckedRequest::new(op.into()).unwrap(), &Rules::default(), &mut Counter(99))
        else {
            panic!("expected an answer");
        };
        assert!(matches!(refused, Err(Refusal::WrongState { job: of, .. }) if of == job), "{refused:?}");
        assert_eq!((ws.schedules.changes().count(), ws.jobs.changes().count()), (0, 0));
    }
}

#[test]
fn a_schedule_in_an_unknown_zone_is_not_ticked() {
    let zone: Zone = serde_json::from_str("\"Mars/Olympus\"").unwrap();
    let job = JobSpec::new(Queue::new("q").unwrap(), JobKind::new("work").unwrap(), Payload::default());
    let spec = ScheduleSpec::new(Cron::new("@hourly").unwrap(), zone, job);
    let schedule = Schedule { spec, next_at: NOON, last_tick: None, last_job: None, version: 1, last: None };
    let mut ws = Workspace::new(NOON, BatchId(1));
    ws.schedules.load(key_of("s"), Some(schedule));
    let tick = Request::from(Op::Tick { schedule: named("s") });
    let Decided::Answered(refused) =
        decide(&mut ws, &CheckedRequest::new(tick).unwrap(), &Rules::default(), &mut Counter(0))
    else {
        panic!("expected an answer");
    };
    assert!(matches!(refused, Err(Refusal::Invalid(invalid)) if invalid.field == "zone"));
    assert_eq!(ws.schedules.changes().count(), 0);
}

fn named(name: &str) -> ScheduleName {
    ScheduleName::new(name).unwrap()
}

fn key_of(name: &str) -> ScheduleKey {
    (Tenant::built_in(), named(name))
}

fn word<T: DeserializeOwned + Default>(value: Option<&str>) -> T {
    value.map(|value| serde_json::from_value(value.into()).unwrap()).unwrap_or_default()
}

impl World {
    /// Parses a line about a schedule.
    pub(crate) fn schedule_op(&self, verb: &str, words: &[&str]) -> Option<Op> {
        let value = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let schedule = named(words.first()?);
        Some(match verb {
            "schedule" => {
                let cron = Cron::new(words[1].replace('_', " ")).unwrap();
                let zone = value("zone").map_or_else(Zone::utc, |zone| Zone::new(zone).unwrap());
                let queue = Queue::new(value("q").unwrap_or("q")).unwrap();
                let mut job = JobSpec::new(queue, JobKind::new("work").unwrap(), Payload::default());
                job.key = value("flow").map(|key| FlowKey::new(key).unwrap());
                let spec = ScheduleSpec {
                    missed: word(value("missed")),
                    overlap: word(value("overlap")),
                    paused: words.contains(&"paused"),
                    ..ScheduleSpec::new(cron, zone, job)
                };
                Op::DefineSchedule { schedule, spec }
            }
            "tick" => Op::Tick { schedule },
            "run" => Op::RunSchedule { schedule },
            "pause" => Op::PauseSchedule { schedule, paused: true },
            "unpause" => Op::PauseSchedule { schedule, paused: false },
            "remove" => Op::RemoveSchedule { schedule },
            _ => return None,
        })
    }

    /// Formats the answer to a line about a schedule, and names the jobs it enqueued.
    pub(crate) fn schedule_answer(&mut self, line: &str, outcome: &Outcome) -> Option<String> {
        let (verb, rest) = line.split_once(' ')?;
        let name = rest.split_whitespace().next()?;
        match verb {
            "schedule" | "pause" | "unpause" => return Some(self.show_schedule(name, false)),
            "tick" | "run" => {}
            _ => return None,
        }
        let Some(entry) = &outcome.entry else { return Some("nothing".to_owned()) };
        let (mut said, mut ticks, mut next) = (Vec::new(), Vec::new(), None);
        for recorded in &entry.events {
            match &recorded.e {
                Event::JobEnqueued { job, .. } => {
                    let number = self.names.keys().filter(|known| known.trim_end_matches(char::is_numeric) == name);
                    let number = number.count() + 1;
                    self.names.insert(format!("{name}{number}"), *job);
                    self.jobs.push(*job);
                }
                Event::JobCancelled { job } => said.push(format!("{} cancelled", self.name(*job))),
                Event::JobCancelling { job } => said.push(format!("{} cancelling", self.name(*job))),
                Event::ScheduleTicked { job, .. } if verb == "run" => said.push(format!("{} now", self.name(*job))),
                Event::ScheduleTicked { tick, job, next_at, .. } => {
                    said.push(format!("{} for {}", self.name(*job), clock_words(*tick)));
                    ticks.push(*tick);
                    next = Some(*next_at);
                }
                Event::ScheduleSkipped { next_at, .. } => {
                    said.push("skipped".to_owned());
                    next = Some(*next_at);
                }
                other => panic!("{other:?} is not an event of a schedule"),
            }
        }
        if let [first, .., last] = ticks[..]
            && ticks.len() > 5
        {
            said = vec![format!("{} jobs from {} to {}", ticks.len(), clock_words(first), clock_words(last))];
        }
        said.extend(next.map(|next| format!("next {}", clock_words(next))));
        Some(said.join(", "))
    }

    /// Reads of schedules, or a move of the clock.
    pub(crate) fn schedule_look(&self, words: &[&str]) -> Option<String> {
        Some(match words {
            ["at", time] => {
                let time = match time.len() {
                    5 => format!("2026-11-15T{time}:00Z"),
                    8 => format!("2026-11-15T{time}Z"),
                    _ => (*time).to_owned(),
                };
                let time: Time = time.parse().unwrap();
                // Every transaction advances the clock by a microsecond.
                self.clock.set(time.before(Span::from_micros(1)));
                String::new()
            }
            ["show", name] => self.show_schedule(name, true),
            ["ticks"] => {
                let (due, next) = self.store.due_schedules(100).now_or_never().unwrap().unwrap();
                let due = due.iter().map(|(_, name)| format!("{name} due"));
                due.chain(next.map(|next| format!("next {}", clock_words(next)))).collect::<Vec<_>>().join(", ")
            }
            _ => return None,
        })
    }

    fn show_schedule(&self, name: &str, last: bool) -> String {
        let Some(schedule) = self.store.schedule(&key_of(name)).now_or_never().unwrap().unwrap() else {
            return "gone".to_owned();
        };
        let mut said = Vec::new();
        said.extend(schedule.last_tick.filter(|_| last).map(|tick| format!("last {}", clock_words(tick))));
        said.push(match schedule.next_at {
            Time::NEVER => "paused".to_owned(),
            next => format!("next {}", clock_words(next)),
        });
        said.join(", ")
    }
}

/// Formats a time in UTC, with the date if it is not the date of the stories.
fn clock_words(time: Time) -> String {
    let text = time.to_string();
    let (day, time) = (&text[5..10], &text[11..19]);
    let time = time.strip_suffix(":00").unwrap_or(time);
    if day == "11-15" { time.to_owned() } else { format!("{day} {time}") }
}
