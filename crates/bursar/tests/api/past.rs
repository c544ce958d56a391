//! Rows as they were: what was read at each moment of a life is read again at its end, from the events alone.

use std::time::Duration;

use bursar::{
    ArchiveOptions, Budget, BudgetView, Bursar, Cron, Error, Failure, Grant, GrantId, Hold, HoldId, Job, JobId,
    JobSpec, Limit, MemoryPlace, Moment, NamespaceConfig, Past, Payload, QueueConfig, Schedule, ScheduleSpec, Span,
    Time, Usage, Window, Zone,
};

use crate::home::{Home, Place, on_both_engines};

on_both_engines! {
    every_row_is_read_as_it_was,
    moments_that_cannot_be_read_are_refused,
}

/// Everything that can be read of the things of this test.
#[derive(Debug, PartialEq)]
struct Seen {
    budgets: Vec<Option<BudgetView>>,
    holds: Vec<Option<Hold>>,
    job: Option<Job>,
    grant: Option<Grant>,
    queue: Option<QueueConfig>,
    schedule: Option<Schedule>,
    namespace: Option<NamespaceConfig>,
}

/// The ids of what this test makes, as far as it is made.
#[derive(Clone, Default)]
struct Made {
    holds: Vec<HoldId>,
    job: Option<JobId>,
    grant: Option<GrantId>,
}

const SCOPES: [&str; 3] = ["org", "team", "hall"];

impl Seen {
    async fn now(bursar: &Bursar, made: &Made) -> Seen {
        let ledger = bursar.ledger();
        let mut seen = Seen::nothing();
        for scope in SCOPES {
            seen.budgets.push(ledger.budget(scope).await.unwrap());
        }
        for hold in &made.holds {
            seen.holds.push(ledger.find(*hold).await.unwrap());
        }
        if let Some(job) = made.job {
            seen.job = bursar.jobs().find(job).await.unwrap();
        }
        if let Some(grant) = made.grant {
            seen.grant = bursar.grants().find(grant).await.unwrap();
        }
        seen.queue = Some(bursar.queues().get("q").await.unwrap());
        seen.schedule = bursar.schedules().find("nightly").await.unwrap();
        seen.namespace = Some(bursar.blob_records().namespace(&"media".parse().unwrap()).await.unwrap());
        seen.comparable()
    }

    async fn then(past: Past<'_>, made: &Made) -> Seen {
        let mut seen = Seen::nothing();
        for scope in SCOPES {
            seen.budgets.push(past.budget(scope).await.unwrap());
        }
        for hold in &made.holds {
            seen.holds.push(past.hold(*hold).await.unwrap());
        }
        if let Some(job) = made.job {
            seen.job = past.job(job).await.unwrap();
        }
        if let Some(grant) = made.grant {
            seen.grant = past.grant(grant).await.unwrap();
        }
        seen.queue = Some(past.queue("q").await.unwrap().unwrap_or_default());
        seen.schedule = past.schedule("nightly").await.unwrap();
        seen.namespace = Some(past.namespace("media").await.unwrap().unwrap_or_default());
        seen.comparable()
    }

    fn nothing() -> Seen {
        Seen {
            budgets: Vec::new(),
            holds: Vec::new(),
            job: None,
            grant: None,
            queue: None,
            schedule: None,
            namespace: None,
        }
    }

    /// Leaves out of holds what credits to their scopes change, and of jobs what follows from time and what only sums of queues need.
    fn comparable(mut self) -> Seen {
        self.holds.iter_mut().flatten().for_each(|hold| hold.beyond = None);
        self.job = self.job.map(|job| job.lasting(Time::NEVER));
        if let Some(job) = &mut self.job {
            job.life.held.clear();
        }
        self
    }
}

/// What was read at one moment.
struct Moments {
    seen: Vec<(Time, u64, Made, Seen)>,
    made: Made,
}

impl Moments {
    /// Reads everything, and lets a second pass.
    async fn mark(&mut self, home: &Home) {
        let bursar = &home.bursar;
        // Two decisions about a scope never have the same instant, so the last one may be later than the clock.
        home.clock.advance(Span::from_millis(1));
        let (now, position) = (bursar.now().await.unwrap(), bursar.health().await.unwrap().position);
        self.seen.push((now, position, self.made.clone(), Seen::now(bursar, &self.made).await));
        home.clock.advance(Span::from_secs(1));
    }
}

fn limits(amount: i64) -> [Limit; 2] {
    [Limit::new(amount, Window::Lifetime), Limit::new(amount, Window::Rolling { length: Span::from_secs(30) })]
}

async fn every_row_is_read_as_it_was(place: Place) {
    let files = MemoryPlace::default();
    let archive = ArchiveOptions::at(files.clone()).after(Duration::from_secs(86_400));
    let home = place.open_with(|options| options.archive(archive)).await;
    let mut moments = Moments { seen: Vec::new(), made: Made::default() };
    moments.mark(&home).await;
    budgets_and_holds(&home, &mut moments).await;
    jobs(&home, &mut moments).await;
    others(&home, &mut moments).await;
    compare(&home, &moments).await;

    // The same from the archive.
    home.clock.advance(Span::from_days(3));
    home.bursar.ledger().post("hall", 1).await.unwrap();
    home.bursar.journal().archive().await.unwrap();
    let status = home.bursar.journal().archive_status().await.unwrap();
    assert!(status.last.is_some_and(|last| last.last + 2 >= status.position), "all but the last row is archived");
    compare(&home, &moments).await;
    home.bursar.close().await;
}

async fn compare(home: &Home, moments: &Moments) {
    let mut before = None;
    for (at, position, made, seen) in &moments.seen {
        // Where only time has passed, the position tells the moment before.
        let position = Some(*position).filter(|position| before.replace(*position) != Some(*position));
        for moment in position.map(Moment::After).into_iter().chain([Moment::At(*at)]) {
            let past = home.bursar.past(moment).await.unwrap();
            assert_eq!(Seen::then(past, made).await, *seen, "{moment:?}");
        }
    }
}

async fn budgets_and_holds(home: &Home, moments: &mut Moments) {
    let (bursar, clock) = (&home.bursar, &home.clock);
    let ledger = bursar.ledger();
    for (scope, parent) in [("org", None), ("team", Some("org")), ("hall", None)] {
        let mut budget = Budget::new(limits(10_000));
        budget.parent = parent.map(|parent| parent.try_into().unwrap());
        ledger.define(scope, budget).await.unwrap();
        moments.mark(home).await;
    }
    ledger.post("team", 7).await.unwrap();
    moments.mark(home).await;
    for amount in [100, 200, 300, 400] {
        moments.made.holds.push(ledger.hold("team", amount, Duration::from_secs(60)).await.unwrap().detach());
        moments.mark(home).await;
    }
    let [committed, released, extended, expired] = moments.made.holds[..] else { panic!("four holds") };
    ledger.commit(committed, 150).await.unwrap();
    moments.mark(home).await;
    ledger.credit("team", 40, Some(committed)).await.unwrap();
    moments.mark(home).await;
    ledger.release(released, "unused").await.unwrap();
    moments.mark(home).await;
    ledger.extend(extended, Duration::from_secs(3_600)).await.unwrap();
    moments.mark(home).await;
    clock.advance(Span::from_secs(70));
    moments.mark(home).await;
    bursar.sweep(100).await.unwrap();
    moments.mark(home).await;
    ledger.commit(expired, 390).await.unwrap();
    moments.mark(home).await;
    ledger.freeze("hall").await.unwrap();
    moments.mark(home).await;
    ledger.unfreeze("hall").await.unwrap();
    ledger.define("hall", Budget::new(limits(50))).await.unwrap();
    moments.mark(home).await;
}

async fn jobs(home: &Home, moments: &mut Moments) {
    let bursar = &home.bursar;
    let spec = JobSpec::new("q".parse().unwrap(), "k".parse().unwrap(), Payload::new("[1]").unwrap());
    let command = bursar.command().charge("team", 500).settle_with_job().job(spec);
    let made = command.submit().await.unwrap().done.jobs[0].id;
    moments.made.job = Some(made);
    moments.mark(home).await;
    let fence = lease(bursar).await;
    moments.mark(home).await;
    bursar.jobs().fail(made, fence, Failure::new("flaky", "try again")).await.unwrap();
    moments.mark(home).await;
    home.clock.advance(Span::from_secs(3_600));
    let fence = lease(bursar).await;
    moments.mark(home).await;
    let usage = Some(vec![Usage { scope: None, amount: 450 }]);
    bursar.jobs().complete(made, fence, Payload::new("{}").unwrap(), usage).await.unwrap();
    moments.mark(home).await;
}

async fn lease(bursar: &Bursar) -> u64 {
    let ask = bursar::LeaseRequest {
        queues: vec!["q".parse().unwrap()],
        kinds: Vec::new(),
        capacity: 1,
        lease: None,
        worker: "w".parse().unwrap(),
    };
    bursar.jobs().lease(ask).await.unwrap().jobs[0].life.fence
}

async fn others(home: &Home, moments: &mut Moments) {
    let bursar = &home.bursar;
    let minted =
        bursar.grants().mint("upload", "s", Payload::new("9").unwrap(), Duration::from_secs(600)).await.unwrap();
    moments.made.grant = Some(minted.id);
    moments.mark(home).await;
    bursar.grants().redeem("upload", "s", &minted.token.unwrap()).await.unwrap();
    moments.mark(home).await;
    for concurrency in [3, 4] {
        let config = QueueConfig { concurrency: Some(concurrency), ..QueueConfig::default() };
        bursar.queues().define("q", config).await.unwrap();
        moments.mark(home).await;
    }
    let job = JobSpec::new("other".parse().unwrap(), "k".parse().unwrap(), Payload::default());
    bursar
        .schedules()
        .define("nightly", ScheduleSpec::new(Cron::new("0 3 * * *").unwrap(), Zone::utc(), job))
        .await
        .unwrap();
    moments.mark(home).await;
    bursar.schedules().run("nightly").await.unwrap();
    moments.mark(home).await;
    for bytes in [10, 20] {
        let config = NamespaceConfig { bytes_max: bytes, ..NamespaceConfig::default() };
        bursar.blob_records().define_namespace("media", config).await.unwrap();
        moments.mark(home).await;
    }
}

async fn moments_that_cannot_be_read_are_refused(place: Place) {
    let home = place.open().await;
    home.budgets(&["room"]).await;
    let bursar = &home.bursar;
    let (now, last) = (bursar.now().await.unwrap(), bursar.health().await.unwrap().position);
    let refused = |error: Error| error.to_string();
    let future = bursar.past(Moment::At(now.after(Span::from_secs(1)))).await.map(drop).map_err(refused);
    assert!(future.unwrap_err().contains("is in the future"));
    let beyond = bursar.past(Moment::After(last + 1)).await.map(drop).map_err(refused);
    assert!(beyond.unwrap_err().contains(&format!("beyond the last position of the journal, {last}")));
    let before = bursar.past(Moment::After(0)).await.unwrap();
    assert_eq!(before.budget("room").await.unwrap(), None, "nothing had happened");
    let other = bursar.tenant("other").unwrap();
    assert_eq!(other.past(Moment::At(now)).await.unwrap().budget("room").await.unwrap(), None, "tenants are isolated");
    let slots = bursar.past(Moment::At(now)).await.unwrap().budget("bursar:slots").await;
    assert!(slots.is_err(), "internal scopes have no past");
    home.bursar.close().await;
}
