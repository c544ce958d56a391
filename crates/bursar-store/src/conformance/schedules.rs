//! Schedules: ticks, definitions and lists.

use bursar_core::context::Context;
use bursar_core::cron::Cron;
use bursar_core::event::Event;
use bursar_core::id::JobId;
use bursar_core::job::{JobSpec, JobState, Missed, Overlap, Schedule, ScheduleSpec};
use bursar_core::name::{ScheduleName, Tenant};
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Op, Request};
use bursar_core::time::Time;
use bursar_core::window::Zone;

use super::work::{complete, keyed, work};
use super::world::{World, secs, submitted};

fn name(name: &str) -> ScheduleName {
    ScheduleName::new(name).expect("a valid name")
}

fn every(cron: &str, job: JobSpec) -> ScheduleSpec {
    let cron = Cron::new(cron).expect("a valid expression");
    ScheduleSpec::new(cron, Zone::new("Europe/Berlin").expect("a known zone"), job)
}

fn time(text: &str) -> Time {
    text.parse().expect("a time")
}

impl World {
    async fn schedule(&self, schedule: &str, spec: ScheduleSpec) {
        self.apply(Op::DefineSchedule { schedule: name(schedule), spec }).await;
    }

    async fn tick(&self, schedule: &str) {
        self.apply(Op::Tick { schedule: name(schedule) }).await;
    }

    async fn stored(&self, schedule: &str) -> Option<Schedule> {
        self.store.schedule(&(Tenant::built_in(), name(schedule))).await.expect("works")
    }

    /// Returns the jobs that a schedule has enqueued, with their ticks.
    async fn ticks(&self, of: &str) -> Vec<(Time, JobId)> {
        let ticked = |event: Event| match event {
            Event::ScheduleTicked { schedule, tick, job, .. } if schedule == name(of) => Some((tick, job)),
            _ => None,
        };
        self.events().await.into_iter().filter_map(ticked).collect()
    }

    /// Checks that a rebuild from the journal restores the schedules.
    async fn assert_rebuilt(&self, schedules: &[&str]) {
        let mut before = Vec::new();
        for schedule in schedules {
            before.push(self.stored(schedule).await);
        }
        self.store.rebuild().await.expect("works");
        for (schedule, before) in schedules.iter().zip(before) {
            assert_eq!(self.stored(schedule).await, before, "{schedule}");
        }
        self.assert_verified().await;
    }
}

pub(super) async fn missed_ticks_follow_the_policy(world: World) {
    // On 28 March 2027 there is no 02:30 in Berlin.
    world.at(time("2027-03-26T12:00:00Z"));
    let policies = [("skip", Missed::Skip), ("one", Missed::One), ("all", Missed::All)];
    for (schedule, missed) in policies {
        let spec = ScheduleSpec { missed, ..every("30 2 * * *", work("q", schedule)) };
        world.schedule(schedule, ScheduleSpec { overlap: Overlap::Skip, ..spec.clone() }).await;
        world.schedule(schedule, spec).await;
    }
    world.at(time("2027-03-29T12:00:00Z"));
    let days = ["2027-03-27T01:30:00Z", "2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"].map(time);
    for (schedule, expected) in [("skip", &days[..0]), ("one", &days[2..]), ("all", &days[..])] {
        let twice = vec![Op::Tick { schedule: name(schedule) }.into(), Op::Tick { schedule: name(schedule) }.into()];
        world.batch(twice).await.into_iter().for_each(|answer| drop(answer.expect("done")));
        world.tick(schedule).await;
        let ticks = world.ticks(schedule).await;
        assert_eq!(ticks.iter().map(|(tick, _)| *tick).collect::<Vec<_>>(), expected, "{schedule}");
        let stored = world.stored(schedule).await.expect("it exists");
        assert_eq!(stored.next_at, time("2027-03-30T00:30:00Z"));
        assert_eq!((stored.last_tick, stored.last_job), ticks.last().map(|(tick, job)| (*tick, *job)).unzip());
        for (_, job) in ticks {
            assert_eq!(world.job(job).await.kind.as_str(), schedule);
        }
    }
    assert_eq!(world.lease("q", 9).await.len(), 4);
    world.assert_rebuilt(&["skip", "one", "all"]).await;
}

pub(super) async fn schedule_is_changed_paused_and_removed(world: World) {
    world.at(time("2027-06-01T12:00:00Z"));
    let hourly = ScheduleSpec { overlap: Overlap::Cancel, ..every("0 * * * *", keyed("q", "k")) };
    let first = vec![
        Request::from(Op::DefineSchedule { schedule: name("s"), spec: hourly.clone() }),
        Request::from(Op::RunSchedule { schedule: name("s") }),
    ];
    let ran = world.batch(first).await.remove(1).expect("done");
    let ran = submitted(ran).jobs[0].id;
    world.enqueue(vec![keyed("q", "k")]).await;
    world.at(time("2027-06-01T13:00:00Z"));
    world.tick("s").await;
    assert_eq!(world.job_state(ran).await, JobState::Cancelled);
    world.assert_verified().await;
    world.apply(Op::PauseSchedule { schedule: name("s"), paused: true }).await;
    world.at(time("2027-06-01T15:30:00Z"));
    world.tick("s").await;
    let paused = world.stored("s").await.expect("it exists");
    assert_eq!((paused.next_at, paused.spec.paused, world.ticks("s").await.len()), (Time::NEVER, true, 2));
    world.assert_rebuilt(&["s"]).await;
    world.apply(Op::PauseSchedule { schedule: name("s"), paused: false }).await;
    assert_eq!(world.stored("s").await.expect("it exists").next_at, time("2027-06-01T16:00:00Z"));
    // With `Overlap::Cancel`, a run cancels the last job while it is leased.
    let leased = world.lease("q", 1).await.remove(0);
    world.finish(leased.id, 1, complete(None)).await.expect("the lease is current");
    let leased = world.lease("q", 1).await.remove(0);
    world.apply(Op::RunSchedule { schedule: name("s") }).await;
    assert!(world.job(leased.id).await.life.cancelling);
    world.assert_verified().await;
    world.apply(Op::RemoveSchedule { schedule: name("s") }).await;
    assert_eq!(world.stored("s").await, None);
    let gone = Refusal::UnknownSchedule { schedule: name("s") };
    for op in [
        Op::RemoveSchedule { schedule: name("s") },
        Op::RunSchedule { schedule: name("s") },
        Op::PauseSchedule { schedule: name("s"), paused: true },
    ] {
        assert_eq!(world.submit(op).await.expect_err("it was removed"), gone);
    }
    world.tick("s").await;
    world.assert_rebuilt(&["s"]).await;
    world.schedule("s", hourly).await;
    assert_eq!(world.stored("s").await.expect("it exists").last_job, None);
    world.assert_rebuilt(&["s"]).await;
}

pub(super) async fn schedules_are_listed_and_due_ones_found(world: World) {
    world.at(time("2027-06-01T12:00:00Z"));
    let (here, other) = (Tenant::built_in(), Tenant::new("other").expect("a valid name"));
    for (schedule, cron) in [("c", "30 * * * *"), ("a", "10 * * * *"), ("b", "20 * * * *"), ("A", "40 * * * *")] {
        world.schedule(schedule, every(cron, work("q", "work"))).await;
    }
    let op = Op::DefineSchedule { schedule: name("a"), spec: every("15 * * * *", work("q", "work")) };
    world.request(Request::from(op).in_context(Context::of(other.clone()))).await.expect("done");
    let (mut names, mut after) = (Vec::new(), None);
    while let Some((name, _)) = world.store.list_schedules(&here, after.as_ref(), 1).await.expect("works").pop() {
        names.push(name.to_string());
        after = Some(name);
    }
    assert_eq!(names, ["A", "a", "b", "c"]);
    assert_eq!(world.store.list_schedules(&other, None, 9).await.expect("works").len(), 1);
    let due = async |limit| world.store.due_schedules(limit).await.expect("works");
    assert_eq!(due(9).await, (Vec::new(), Some(time("2027-06-01T12:10:00Z"))));
    world.clock.set(time("2027-06-01T12:20:00Z"));
    let first = [(here.clone(), name("a")), (other.clone(), name("a")), (here.clone(), name("b"))];
    let next = Some(time("2027-06-01T12:30:00Z"));
    assert_eq!(due(9).await, (first.to_vec(), next));
    assert_eq!(due(2).await, (first[..2].to_vec(), next));
    for (tenant, schedule) in first {
        let tick = Request::from(Op::Tick { schedule }).in_context(Context::of(tenant));
        world.request(tick).await.expect("done");
    }
    assert_eq!(due(9).await, (Vec::new(), next));
    for schedule in ["A", "a", "b", "c"] {
        world.apply(Op::PauseSchedule { schedule: name(schedule), paused: true }).await;
    }
    let tick = Op::RemoveSchedule { schedule: name("a") };
    world.request(Request::from(tick).in_context(Context::of(other))).await.expect("done");
    assert_eq!(due(9).await, (Vec::new(), None), "a paused schedule is never due");
}

pub(super) async fn every_job_of_a_schedule_has_its_payload(world: World) {
    let large = Payload::of(&"x".repeat(50_000)).expect("JSON");
    let job = JobSpec { payload: large.clone(), delay: secs(5), ..work("q", "work") };
    world.schedule("s", every("0 * * * *", job)).await;
    for _ in 0..2 {
        let ran = submitted(world.apply(Op::RunSchedule { schedule: name("s") }).await).jobs[0].id;
        let job = world.job(ran).await;
        assert_eq!((job.payload, job.life.state), (large.clone(), JobState::Scheduled));
        world.assert_rebuilt(&["s"]).await;
        assert_eq!(world.stored("s").await.expect("it exists").spec.job.payload, large);
        assert_eq!(world.job(ran).await.payload, large);
    }
}

pub(super) async fn invalid_schedules_change_nothing(world: World) {
    let nowhere: Zone = serde_json::from_str("\"Mars/Olympus\"").expect("a stored zone is not checked");
    let spec = ScheduleSpec { zone: nowhere, ..every("0 * * * *", work("q", "work")) };
    let refused = world.submit(Op::DefineSchedule { schedule: name("s"), spec }).await.expect_err("refused");
    assert!(matches!(&refused, Refusal::Invalid(invalid) if invalid.field == "zone"), "{refused:?}");
    world.clock.set(time("9999-12-30T21:00:00Z"));
    let spec = every("0 0 1 1 *", work("q", "work"));
    let refused = world.submit(Op::DefineSchedule { schedule: name("s"), spec }).await.expect_err("refused");
    assert!(matches!(&refused, Refusal::Invalid(invalid) if invalid.field == "cron"), "{refused:?}");
    assert_eq!((world.stored("s").await, world.kinds().await.len()), (None, 0));
}
