//! Schedules: their API, the maintenance that ticks them, and two nodes that tick at the same time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar::{
    Bursar, Clock, Cron, Event, JobFilter, ManualClock, MissedTicks, Op, Overlap, Refusal, Request, Rules,
    ScheduleName, ScheduleSpec, Time, Zone,
};
use bursar_store::{MemoryStore, Setup};
use bursar_testkit::{SeqIds, fresh_database};
use tokio::time::Instant;

use crate::home::{ENGINES, ask, job, lease_one, open, open_live};

fn every(cron: &str, zone: &str, kind: &str) -> ScheduleSpec {
    ScheduleSpec::new(Cron::new(cron).unwrap(), Zone::new(zone).unwrap(), job("q", kind))
}

fn time(text: &str) -> Time {
    text.parse().unwrap()
}

fn name(name: &str) -> ScheduleName {
    name.try_into().unwrap()
}

#[tokio::test]
async fn a_schedule_is_defined_ticked_run_paused_listed_and_removed() {
    for engine in ENGINES {
        let (bursar, clock) = open(engine).await;
        clock.set(time("2027-06-01T12:00:00Z"));
        let schedules = bursar.schedules();
        let hourly = ScheduleSpec { overlap: Overlap::Skip, ..every("0 * * * *", "UTC", "work") };
        schedules.define("hourly", hourly.clone()).await.unwrap();
        schedules.define("daily", every("@daily", "Asia/Tokyo", "work")).await.unwrap();
        assert_eq!(bursar.tick(10).await.unwrap(), 0);
        clock.set(time("2027-06-01T13:00:00Z"));
        assert_eq!(bursar.tick(10).await.unwrap(), 1);
        assert_eq!(bursar.tick(10).await.unwrap(), 0);
        let leased = lease_one(&bursar, "q").await;
        let found = schedules.find("hourly").await.unwrap().unwrap();
        assert_eq!((found.last_tick, found.last_job), (Some(time("2027-06-01T13:00:00Z")), Some(leased.id)));
        assert_eq!(found.next_at, time("2027-06-01T14:00:00Z"));
        let refused = schedules.run("hourly").await.unwrap_err();
        assert!(refused.is_wrong_state(), "{refused}");
        bursar.jobs().complete(leased.id, leased.life.fence, bursar::Payload::default(), None).await.unwrap();
        let ran = schedules.run("hourly").await.unwrap();
        assert_eq!(lease_one(&bursar, "q").await.id, ran);

        schedules.pause("hourly").await.unwrap();
        assert_eq!(schedules.find("hourly").await.unwrap().unwrap().next_at, Time::NEVER);
        clock.set(time("2027-06-01T15:30:00Z"));
        schedules.resume("hourly").await.unwrap();
        let listed = schedules.list(None, 1).await.unwrap();
        let rest = schedules.list(Some(&listed[0].0), 10).await.unwrap();
        assert_eq!((&listed[0].0, &rest[0].0, rest.len()), (&name("daily"), &name("hourly"), 1));
        assert_eq!(rest[0].1.next_at, time("2027-06-01T16:00:00Z"));
        assert!(bursar.tenant("other").unwrap().schedules().list(None, 10).await.unwrap().is_empty());
        schedules.remove("hourly").await.unwrap();
        assert!(schedules.find("hourly").await.unwrap().is_none());
        let unknown = schedules.run("hourly").await.unwrap_err();
        assert_eq!(unknown.refusal(), Some(&Refusal::UnknownSchedule { schedule: name("hourly") }));
        bursar.close().await;
    }
}

#[tokio::test]
async fn background_ticks_wake_waiting_workers() {
    for engine in ENGINES {
        let bursar = open_live(engine).await;
        let other = bursar.tenant("other").unwrap();
        other.schedules().define("s", every("* * * * * *", "UTC", "work")).await.unwrap();
        for _ in 0..2 {
            let leased = other.jobs().lease_wait(ask("q", 1), Duration::from_secs(50)).await.unwrap();
            assert_eq!(leased.jobs[0].kind.as_str(), "work");
        }
        bursar.close().await;
    }
}

/// A clock that follows the runtime's time, which a test can pause.
struct RuntimeClock(Time, Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Time {
        self.0.after(self.1.elapsed().into())
    }
}

#[tokio::test(start_paused = true)]
async fn background_maintenance_runs_when_the_next_tick_is_due() {
    let clock = Arc::new(RuntimeClock(time("2027-06-01T12:00:00Z"), Instant::now()));
    let ids = Arc::new(Mutex::new(SeqIds::new(7)));
    let setup = Setup { rules: Rules::default(), clock: Some(clock.clone()), ids: ids.clone(), migrate: true };
    let store = Arc::new(MemoryStore::new(setup));
    let maker = Bursar::options("memory").ids(ids.clone()).upkeep(None).open_on(store.clone());
    maker.schedules().define("s", every("*/7 * * * *", "UTC", "work")).await.unwrap();
    // Maintenance runs every ten hours here, so only the tick's own timer can be in time.
    let seldom = Duration::from_secs(36_000);
    let bursar = Bursar::options("memory").ids(ids).upkeep(Some(seldom)).rescue(seldom).open_on(store);
    tokio::time::sleep(Duration::from_secs(22 * 60)).await;
    let jobs = bursar.jobs().list(&JobFilter::default(), None, 100).await.unwrap();
    let due = ["2027-06-01T12:07:00Z", "2027-06-01T12:14:00Z", "2027-06-01T12:21:00Z"].map(time);
    assert_eq!(jobs.len(), due.len());
    for (job, due) in jobs.iter().zip(due) {
        let late = job.enqueued_at.since(due);
        assert!(job.enqueued_at >= due && late <= bursar::Span::from_millis(2), "{late:?} after {due}");
    }
    bursar.close().await;
}

/// Opens two instances on one database with a shared clock, like two processes.
async fn two(url: &str, clock: &Arc<ManualClock>) -> [Bursar; 2] {
    let open = async |seed| {
        let ids = Arc::new(Mutex::new(SeqIds::new(seed)));
        Bursar::options(url).ids(ids).clock(clock.clone()).upkeep(None).open().await.unwrap()
    };
    [open(1).await, open(2).await]
}

/// Makes both nodes tick at the same time, each several times: all that is due, and every schedule by name.
async fn tick_at_once(nodes: &[Bursar; 2], schedules: &[&str]) {
    let mut running = Vec::new();
    for index in 0..6 {
        let node = nodes[index % 2].clone();
        let names: Vec<ScheduleName> = schedules.iter().map(|schedule| name(schedule)).collect();
        running.push(tokio::spawn(async move {
            for schedule in names {
                node.request(Request::from(Op::Tick { schedule })).await.unwrap();
            }
            node.tick(100).await.unwrap();
        }));
    }
    for task in running {
        task.await.unwrap();
    }
}

/// Returns the ticks that jobs were enqueued for, in the order of the journal.
async fn ticks(node: &Bursar, schedule: &str) -> Vec<String> {
    let (events, _) = node.journal().read(0, 1_000).await.unwrap();
    let ticked = events.iter().filter_map(|event| match &event.event {
        Event::ScheduleTicked { schedule: of, tick, .. } if *of == name(schedule) => {
            Some(tick.to_string().replace(":00.000000Z", ""))
        }
        _ => None,
    });
    ticked.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_enqueue_each_tick_once_over_a_dst_change() {
    let folder = tempfile::tempdir().unwrap();
    for url in [format!("sqlite://{}", folder.path().join("b.db").display()), fresh_database()] {
        // In Berlin half past two does not exist on 28 March 2027; every half hour follows the clock.
        let clock = Arc::new(ManualClock::at(time("2027-03-26T00:00:00Z")));
        let nodes = two(&url, &clock).await;
        let policies = [("skip", MissedTicks::Skip), ("one", MissedTicks::One), ("all", MissedTicks::All)];
        for (schedule, missed) in policies {
            let spec = ScheduleSpec { missed, ..every("30 2 * * *", "Europe/Berlin", schedule) };
            // Both define it at the same time, like nodes that start together.
            let [one, other] = nodes.each_ref().map(|node| {
                let (node, spec) = (node.clone(), spec.clone());
                tokio::spawn(async move { node.schedules().define(schedule, spec).await })
            });
            one.await.unwrap().unwrap();
            other.await.unwrap().unwrap();
        }
        let spec = ScheduleSpec { missed: MissedTicks::All, ..every("*/30 * * * *", "Europe/Berlin", "half") };
        nodes[0].schedules().define("half", spec).await.unwrap();
        nodes[1].schedules().pause("half").await.unwrap();
        let names = ["skip", "one", "all", "half"];

        // On time, then down for three ticks, one of which falls into the skipped hour, then on time again.
        for now in ["2027-03-26T01:30:00Z", "2027-03-29T12:00:00Z", "2027-03-30T00:30:01Z"] {
            clock.set(time(now));
            tick_at_once(&nodes, &names).await;
        }
        let (first, gap) = ("2027-03-26T01:30", "2027-03-28T01:00");
        let (missed, last) = (["2027-03-27T01:30", gap, "2027-03-29T00:30"], "2027-03-30T00:30");
        assert_eq!(ticks(&nodes[0], "skip").await, [first, last]);
        assert_eq!(ticks(&nodes[0], "one").await, [first, missed[2], last]);
        assert_eq!(ticks(&nodes[1], "all").await, [first, missed[0], missed[1], missed[2], last]);

        for (schedule, _) in policies {
            nodes[1].schedules().pause(schedule).await.unwrap();
        }
        // In autumn the hour from two to three comes twice.
        clock.set(time("2027-10-30T23:45:00Z"));
        nodes[0].schedules().resume("half").await.unwrap();
        for now in ["2027-10-31T00:00:00Z", "2027-10-31T01:40:00Z", "2027-10-31T02:00:30Z"] {
            clock.set(time(now));
            tick_at_once(&nodes, &["half"]).await;
        }
        let half = ["00:00", "00:30", "01:00", "01:30", "02:00"].map(|time| format!("2027-10-31T{time}"));
        assert_eq!(ticks(&nodes[1], "half").await, half);

        // There are as many jobs as ticks.
        for (schedule, count) in [("skip", 2), ("one", 3), ("all", 5), ("half", 5)] {
            let filter = JobFilter { kind: Some(schedule.try_into().unwrap()), ..JobFilter::default() };
            let jobs = nodes[0].jobs().list(&filter, None, 100).await.unwrap();
            assert_eq!(jobs.len(), count, "{schedule}");
        }
        assert!(nodes[0].verify().await.unwrap().is_ok());
        for node in nodes {
            node.close().await;
        }
    }
}
