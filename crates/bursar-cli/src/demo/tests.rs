//! The fleet at twenty times its usual speed, on a SQLite file.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bursar::{
    Budget, Bursar, CredentialClass, Event, JobFilter, JobId, JobState, Limit, ManualClock, Payload, Span, Subject,
    Window,
};
use tempfile::TempDir;
use tokio::sync::watch;

use super::company::{ECHO, EMBED, INDEXER, MAIL, MEDIA, PIXEL, REEL, SAGE, SCOUT};
use super::dice::Dice;
use super::orders::{Orders, WAITING_MAX};
use super::pace::Pace;
use super::workers::{BUSY, GREYLISTED, NO_MAILBOX, POLICY, TIMEOUT};
use super::*;

const FAST: Speed = Speed(20);
/// Longer than the fleet takes to show everything.
const PATIENCE: Duration = Duration::from_secs(120);

fn url(folder: &TempDir) -> String {
    format!("sqlite://{}", folder.path().join("bursar.db").display())
}

/// What the fleet has shown, read from the journal.
#[derive(Default)]
struct Seen {
    position: u64,
    facts: BTreeSet<String>,
    errors: HashMap<JobId, String>,
}

impl Seen {
    async fn read_on(&mut self, bursar: &Bursar) {
        loop {
            let (events, position) = bursar.journal().read(self.position, 1_000).await.unwrap();
            if position == self.position {
                return;
            }
            self.position = position;
            events.into_iter().for_each(|event| self.note(event.event));
        }
    }

    fn note(&mut self, event: Event) {
        let fact = match event {
            Event::HoldCommitted { late: true, .. } => "late commit".to_owned(),
            Event::HoldCommitted { overrun: 1.., .. } => "overrun".to_owned(),
            Event::HoldReleased { .. } => "release".to_owned(),
            Event::BudgetCrossed { scope, percent, .. } => format!("{scope} crossed {percent} %"),
            Event::GrantRedeemed { .. } => "redeemed grant".to_owned(),
            Event::GrantRevoked { .. } => "revoked grant".to_owned(),
            Event::ScheduleTicked { schedule, .. } => format!("tick of {schedule}"),
            Event::JobSucceeded { .. } => "success".to_owned(),
            Event::JobFailed { job, error, run_at, .. } => {
                let retried = run_at.map(|_| format!("retry after {}", error.kind));
                self.errors.insert(job, error.kind);
                retried.unwrap_or_else(|| "last failure".to_owned())
            }
            Event::JobDied { job } => format!("death of {}", self.errors[&job]),
            _ => return,
        };
        self.facts.insert(fact);
    }

    /// Returns what was promised and has not been seen yet.
    fn missing(&self) -> Vec<String> {
        let retries = [BUSY.0, TIMEOUT.0, GREYLISTED.0, NO_MAILBOX.0].map(|kind| format!("retry after {kind}"));
        let deaths = [POLICY.0, TIMEOUT.0, NO_MAILBOX.0].map(|kind| format!("death of {kind}"));
        let crossed = [50, 80, 100].map(|percent| format!("{SCOUT} crossed {percent} %"));
        let others =
            ["late commit", "overrun", "release", "redeemed grant", "revoked grant", "tick of digest", "success"];
        let promised = retries.into_iter().chain(deaths).chain(crossed).chain(others.map(str::to_owned));
        promised.filter(|fact| !self.facts.contains(fact)).collect()
    }
}

/// Runs the fleet until it has shown everything, and stops it.
async fn run_until_all_is_shown(bursar: &Bursar) {
    let (mut commits, mut progress) = (bursar.watch_commits(), bursar.jobs().listen_progress());
    let fleet = Fleet::start(bursar, FAST).await.unwrap();
    let mut seen = Seen::default();
    let shown = async {
        loop {
            seen.read_on(bursar).await;
            if seen.missing().is_empty() && bursar.counters().refused >= 3 {
                return;
            }
            commits.changed().await.unwrap();
        }
    };
    let done = tokio::time::timeout(PATIENCE, shown).await;
    assert!(done.is_ok(), "missing: {:?}, refused: {}", seen.missing(), bursar.counters().refused);
    assert!(progress.next().await.unwrap().unwrap().progress.percent.is_some(), "handlers report progress");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fleet_shows_what_it_promises_and_leaves_nothing_running() {
    let folder = tempfile::tempdir().unwrap();
    let bursar = Bursar::open(&url(&folder)).await.unwrap();
    run_until_all_is_shown(&bursar).await;
    let leased = JobFilter { state: Some(JobState::Leased), ..JobFilter::default() };
    assert_eq!(bursar.jobs().list(&leased, None, 100).await.unwrap(), [], "a stopped fleet has no leases");
    for scope in [SCOUT, SAGE, REEL, ECHO] {
        assert_eq!(bursar.ledger().live(scope, None, 100).await.unwrap(), [], "{scope} has no holds");
    }
    let report = bursar.verify().await.unwrap();
    assert_eq!(report.violations, [""; 0]);
    // Every limit held, although some calls cost more than they had held.
    let mut limits = 0;
    for scope in ["acme", "acme/research", "acme/media", "acme/support", SCOUT, SAGE, REEL, PIXEL, ECHO, INDEXER] {
        for balance in bursar.ledger().remaining(scope).await.unwrap() {
            assert!(balance.remaining >= Some(0), "{scope}: {balance:?}");
            limits += 1;
        }
    }
    assert_eq!(limits, 16);
    let scout = &bursar.ledger().remaining(SCOUT).await.unwrap()[0];
    assert_eq!((scout.remaining, scout.posted), (Some(0), 600_000), "its limit is used to the last unit");
    bursar.close().await;
    everything_finished_is_deleted_in_time(&folder).await;
}

/// Opens the database a day later: nothing that has ended is left but the journal.
async fn everything_finished_is_deleted_in_time(folder: &TempDir) {
    let today = Bursar::options(&url(folder)).upkeep(None).open().await.unwrap();
    let tomorrow = today.now().await.unwrap().after(Span::from_days(1));
    today.close().await;
    let clock = Arc::new(ManualClock::at(tomorrow));
    let bursar = Bursar::options(&url(folder)).upkeep(None).clock(clock).open().await.unwrap();
    bursar.grants().purge_expired().await.unwrap();
    assert_eq!(bursar.grants().list(None, 100).await.unwrap(), []);
    while bursar.tend(1_000).await.unwrap().ended > 0 {}
    for state in [JobState::Succeeded, JobState::Cancelled, JobState::Dead] {
        let filter = JobFilter { state: Some(state), ..JobFilter::default() };
        assert_eq!(bursar.jobs().list(&filter, None, 100).await.unwrap(), [], "{state:?}");
    }
    bursar.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_leaves_what_is_defined_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let bursar = Bursar::open(&url(&folder)).await.unwrap();
    Fleet::start(&bursar, FAST).await.unwrap().stop().await;
    let limit = Limit::new(9_000_000, "day".parse::<Window>().unwrap());
    bursar.ledger().define(SCOUT, Budget::new([limit.clone()]).under("acme".try_into().unwrap())).await.unwrap();
    bursar.queues().pause(MAIL).await.unwrap();
    bursar.schedules().pause("digest").await.unwrap();
    bursar.close().await;

    let bursar = Bursar::open(&url(&folder)).await.unwrap();
    assert!(may_write_to(&bursar).await.unwrap());
    let before = bursar.health().await.unwrap().position;
    Fleet::start(&bursar, FAST).await.unwrap().stop().await;
    let budget = bursar.ledger().budget(SCOUT).await.unwrap().unwrap().budget.unwrap();
    assert_eq!(budget.limits, [limit]);
    assert!(bursar.queues().get(MAIL).await.unwrap().paused);
    assert!(bursar.schedules().find("digest").await.unwrap().unwrap().spec.paused);
    let (events, _) = bursar.journal().read(before, 1_000).await.unwrap();
    let defined = events.iter().filter(|event| event.context.reason.as_deref() == Some(REASON));
    assert_eq!(defined.count(), 0, "nothing is defined again");
    bursar.close().await;
}

#[tokio::test]
async fn a_queue_without_workers_stops_growing() {
    let bursar = Bursar::open("sqlite::memory:").await.unwrap();
    let (_stop, stopped) = watch::channel(false);
    let (pace, mut dice) = (Pace::new(FAST, stopped), Dice::of("test"));
    company::define(&bursar, FAST).await.unwrap();
    for (orders, queue) in [(Orders::Mails, MAIL), (Orders::Images, MEDIA), (Orders::Documents, EMBED)] {
        for number in 1..=100 {
            orders.enqueue(&bursar, &pace, &mut dice, number).await.unwrap();
        }
        let figures = bursar.queues().figures(queue, 60).await.unwrap();
        assert_eq!((figures.count(JobState::Queued), figures.enqueued), (WAITING_MAX, WAITING_MAX), "{queue}");
    }
    bursar.close().await;
}

#[tokio::test]
async fn only_an_empty_database_or_one_of_the_demo_is_written_to() {
    let empty = async || Bursar::open("sqlite::memory:").await.unwrap();
    let demo = empty().await;
    assert!(may_write_to(&demo).await.unwrap(), "an empty database");
    company::define(&demo.because(REASON), FAST).await.unwrap();
    assert!(may_write_to(&demo).await.unwrap(), "a database of the demo");
    demo.close().await;

    let with_budget = empty().await;
    let budget = Budget::new([Limit::new(1, Window::Lifetime)]);
    with_budget.ledger().define("acme", budget.clone()).await.unwrap();
    assert!(!may_write_to(&with_budget).await.unwrap(), "a database with a budget of its user");
    with_budget.close().await;

    let with_tenant = empty().await;
    with_tenant.tenant("other").unwrap().ledger().define("acme", budget).await.unwrap();
    assert!(!may_write_to(&with_tenant).await.unwrap(), "a database with data of another tenant");
    with_tenant.close().await;

    // `bursar serve` and `bursar dev --quiet` create a token first.
    let with_token = empty().await;
    let subject = Subject::new("operator").unwrap();
    let issued =
        with_token.credentials().issue(CredentialClass::Operator, subject, Payload::default(), None, None).await;
    issued.unwrap();
    assert!(!may_write_to(&with_token).await.unwrap(), "a database of a server");
    with_token.close().await;
}

#[test]
fn the_same_name_gives_the_same_numbers() {
    let draw = |name| {
        let mut dice = Dice::of(name);
        (0..1_000).map(|_| dice.draw(&(3..=7))).collect::<Vec<_>>()
    };
    assert_eq!(draw("scout"), draw("scout"));
    assert_ne!(draw("scout"), draw("sage"));
    assert_eq!(draw("scout").into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([3, 4, 5, 6, 7]));
}
