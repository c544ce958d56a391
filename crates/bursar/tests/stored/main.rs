//! Databases of earlier schema versions: they open, have their contents, and can be used. `make` is the script that created
//! them. The tests of version 1 are here.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod known;
mod moved;
mod opened;
mod version_4;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::known::{OPEN_TOKEN, REVOKED_KEY_TOKEN, WORKER_TOKEN};
use crate::opened::{Known, Opened, on_both_engines};
use bursar::{
    Budget, Bursar, CredentialClass, CredentialToken, Event, GrantFault, GrantId, GrantState, HeartbeatItem, Hold,
    HoldState, Job, JobFilter, JobId, JobKind, JobSpec, JobState, KeyId, LeaseRequest, Limit, Order, Payload, Queue,
    Span, Time, Usage, Window, WorkerName,
};

/// The fence of all current leases and of the expired one: each is the first lease of its job.
const FENCE: u64 = 1;
/// The number of events of each tenant.
const EVENTS: [(&str, usize); 3] = [("default", 232), ("acme", 13), ("old-names", 12)];
/// Names that version 1 accepted: one that is not in Unicode normalization form C, and one with an invisible character.
const CAFE: &str = "cafe\u{301}";
const HIDDEN: &str = "a\u{200b}b";

on_both_engines! { 1:
    a_database_of_version_1_opens_with_its_contents,
    a_database_of_version_1_is_rebuilt_from_its_journal,
    a_database_of_version_1_can_be_used,
    a_database_of_version_1_is_maintained_half_a_year_later,
    names_accepted_by_version_1_are_kept_as_written,
}

/// Returns the units posted and held in each window of a scope, as text.
async fn balances(bursar: &Bursar, scope: &str) -> String {
    shown_balances(&bursar.ledger().budget(scope).await.unwrap().unwrap())
}

fn shown_balances(view: &bursar::BudgetView) -> String {
    let mut balances: Vec<_> = view.balances.iter().collect();
    balances.sort_by(|a, b| a.window.cmp(&b.window));
    let shown = balances.iter().map(|balance| format!("{} {}+{}", balance.window, balance.posted, balance.held));
    shown.collect::<Vec<_>>().join(", ")
}

async fn job(bursar: &Bursar, id: JobId) -> Job {
    bursar.jobs().find(id).await.unwrap().unwrap()
}

/// Leases all ready jobs of a kind.
async fn lease(bursar: &Bursar, queue: &str, kind: &str) -> Vec<Job> {
    let (queues, kinds) = (vec![Queue::new(queue).unwrap()], vec![JobKind::new(kind).unwrap()]);
    let ask = LeaseRequest { queues, kinds, capacity: 10, lease: None, worker: WorkerName::new("w").unwrap() };
    bursar.jobs().lease(ask).await.unwrap().jobs
}

fn spent(amount: i64) -> Option<Vec<Usage>> {
    Some(vec![Usage { scope: None, amount }])
}

/// Returns the text in a payload of the form `{"text": …}`.
fn text(payload: &Payload) -> String {
    let value: serde_json::Value = serde_json::from_str(payload.as_str()).unwrap();
    value["text"].as_str().unwrap().to_owned()
}

async fn assert_sound(bursar: &Bursar) {
    assert_eq!(bursar.verify().await.unwrap().violations, Vec::<String>::new());
}

async fn a_database_of_version_1_opens_with_its_contents(opened: Opened) {
    let (bursar, known) = (&opened.bursar, opened.known);
    let report = bursar.verify().await.unwrap();
    assert_eq!(report.violations, Vec::<String>::new());
    assert_eq!((report.scopes, report.holds, report.jobs), (25, 51, 37));
    for (tenant, events) in EVENTS {
        let read = bursar.tenant(tenant).unwrap().journal().read(0, 1_000).await.unwrap().0;
        assert_eq!(read.len(), events, "{tenant}");
    }
    budgets_are_there(bursar).await;
    holds_are_there(bursar, known).await;
    grants_are_there(bursar, known).await;
    jobs_are_there(bursar, known).await;
    queues_and_schedules_are_there(bursar, known).await;
    opened.bursar.close().await;
}

async fn budgets_are_there(bursar: &Bursar) {
    for (scope, expected) in [
        ("org:north", "lifetime 2370+13400"),
        ("team:video", "lifetime 1470+13400, rolling:30d 1470+13400"),
        ("agent:7", "lifetime 1470+13400"),
        ("api", "lifetime 41+0, bucket:100:1/30d 41+0"),
        ("alarm", "lifetime 600+0"),
        ("closed", "lifetime 10+0"),
        ("fused", "lifetime 600+0, rolling:30d 600+0"),
        ("crowd", "lifetime 0+210"),
        ("media", "lifetime 8625+510"),
        ("tight", "lifetime 60+0"),
        ("room:sales", "lifetime 15+0, rolling:30d 15+0"),
        ("agent:agent:the-agent", "lifetime 5+0, year@UTC 5+0"),
        (
            "calendar",
            "lifetime 250+0, day@Asia/Kolkata 250+0, week@America/New_York:sunday 250+0, \
             month@Europe/Berlin 250+0, year@UTC 250+0",
        ),
    ] {
        assert_eq!(balances(bursar, scope).await, expected, "{scope}");
    }
    assert_eq!(balances(&bursar.tenant("acme").unwrap(), "agent:7").await, "lifetime 11+55");
    let ledger = bursar.ledger();
    assert_eq!(ledger.remaining("api").await.unwrap()[0].remaining, Some(59));
    assert_eq!(ledger.remaining("agent:agent:the-agent").await.unwrap()[0].limit, Some(50_000), "own limit");
    for (scope, frozen) in [("closed", true), ("fused", true), ("tight", false)] {
        assert_eq!(ledger.budget(scope).await.unwrap().unwrap().frozen.is_some(), frozen, "{scope}");
    }
    let agent = ledger.budget("agent:7").await.unwrap().unwrap().budget.unwrap();
    assert_eq!(agent.parent.unwrap().as_str(), "team:video");
    let by_default = ledger.budget("agent:user:the-user").await.unwrap().unwrap().budget.unwrap().by_default;
    assert!(by_default, "a charge registered it as its default");
}

async fn holds_are_there(bursar: &Bursar, known: Known) {
    let now = bursar.now().await.unwrap();
    for (id, state, days, actual) in [
        (known.id("live_hold"), HoldState::Held, 30, None),
        (known.id("extended_hold"), HoldState::Held, 11, None),
        (known.id("overrun_hold"), HoldState::Committed, 1, Some(1_250)),
        (known.id("released_hold"), HoldState::Released, 1, None),
    ] {
        let hold = bursar.ledger().find(id).await.unwrap().unwrap();
        assert_eq!((hold.state_at(now), hold.charges[0].actual), (state, actual), "{id}");
        assert_eq!(hold.expires_at, hold.placed_at.after(Span::from_days(days)), "{id}");
        let scopes: Vec<&str> = hold.charges[0].scopes().map(|scope| scope.as_str()).collect();
        assert_eq!(scopes, ["agent:7", "team:video", "org:north"]);
    }
    let expired = bursar.ledger().find(known.id("expired_hold")).await.unwrap().unwrap();
    assert_eq!((expired.state, expired.charges[0].amount), (HoldState::Expired, 700));
    let crowd = bursar.ledger().live("crowd", None, 100).await.unwrap();
    assert_eq!(crowd.len(), 20, "the holds in the row of the scope, and those in a table of their own");
    let of_agent: Vec<i64> =
        bursar.ledger().live("agent:7", None, 100).await.unwrap().iter().map(|hold| hold.charges[0].amount).collect();
    assert_eq!(of_agent, [400, 5_000, 8_000], "soonest to expire first");
    let of_acme = bursar.tenant("acme").unwrap().ledger().find(known.id("live_hold")).await.unwrap();
    assert_eq!(of_acme, None, "tenants are isolated");
}

async fn grants_are_there(bursar: &Bursar, known: Known) {
    let (grants, credentials) = (bursar.grants(), bursar.credentials());
    let now = bursar.now().await.unwrap();
    for (id, state, expired) in [
        (known.id("open_grant"), GrantState::Open, false),
        (known.id("large_grant"), GrantState::Open, false),
        (known.id("redeemed_grant"), GrantState::Redeemed, false),
        (known.id("revoked_grant"), GrantState::Revoked, false),
        (known.id("expired_grant"), GrantState::Open, true),
    ] {
        let grant = grants.find(id).await.unwrap().unwrap();
        assert_eq!((grant.state, grant.expires_at <= now), (state, expired), "{id}");
    }
    let large = grants.find(known.id("large_grant")).await.unwrap().unwrap();
    assert_eq!(text(&large.payload), "g".repeat(2_000));
    assert_eq!(grants.list(None, 100).await.unwrap().len(), 5);

    for (class, count) in [(CredentialClass::Operator, 1), (CredentialClass::Key, 6), (CredentialClass::Worker, 1)] {
        assert_eq!(credentials.list(class, None, 100).await.unwrap().len(), count, "{class:?}");
    }
    let worker = CredentialToken::parse(WORKER_TOKEN[known as usize]).unwrap();
    assert_eq!(credentials.admit(&worker).await.unwrap().unwrap().subject.as_str(), "encoder");
    let revoked = CredentialToken::parse(REVOKED_KEY_TOKEN[known as usize]).unwrap();
    assert_eq!(credentials.admit(&revoked).await.unwrap().unwrap_err(), GrantFault::Revoked);
    let rotated: KeyId = known.id("rotated_key");
    let rotated = credentials.find(CredentialClass::Key, GrantId(rotated.0)).await.unwrap().unwrap();
    assert!(rotated.expires_at > now && rotated.expires_at < now.after(Span::from_secs(3_600)), "an hour of overlap");
}

async fn jobs_are_there(bursar: &Bursar, known: Known) {
    let now = bursar.now().await.unwrap();
    for (state, expected) in [
        (JobState::Scheduled, "scheduled failed lapsed snoozed"),
        (
            JobState::Queued,
            "upload queued follows revived moved returned edited bulk bulk resumed line line line slow report tick",
        ),
        (JobState::AwaitingBudget, "awaiting"),
        (JobState::Leased, "leased cancelling line video.cut"),
        (JobState::Succeeded, "succeeded retried slow"),
        (JobState::Cancelled, "cancelled discarded bulk bulk"),
        (JobState::Dead, "dead"),
    ] {
        let filter = JobFilter { state: Some(state), ..JobFilter::default() };
        let found = bursar.jobs().list(&filter, None, 100).await.unwrap();
        let kinds: Vec<&str> = found.iter().map(|job| job.kind.as_str()).collect();
        assert_eq!(kinds.join(" "), expected, "{state}");
    }
    assert!(bursar.jobs().find(known.id("forgotten_job")).await.unwrap().is_none());

    let queued = job(bursar, known.id("queued_job")).await;
    let tags: Vec<&str> = queued.tags.iter().map(|tag| tag.as_str()).collect();
    assert_eq!((tags, queued.priority, queued.max_attempts), (vec!["trial", "blue"], 10, Some(7)));
    assert_eq!(queued.idempotency_key.unwrap().as_str(), "gen-1");
    assert_eq!(queued.deadline, Some(Span::from_secs(3_600)));
    assert!(queued.retry.is_some() && queued.traceparent.is_some());
    let succeeded = job(bursar, known.id("succeeded_job")).await;
    assert_eq!((text(&succeeded.payload), text(&succeeded.life.result)), ("p".repeat(5_000), "r".repeat(5_000)));
    assert_eq!(job(bursar, known.id("upload_job")).await.payload.as_str(), r#"{"asset": "a-3"}"#, "of its grant");
    assert!(job(bursar, known.id("cancelling_job")).await.life.cancelling);
    assert_eq!(job(bursar, known.id("awaiting_job")).await.life.awaits.unwrap().as_str(), "tight");
    assert_eq!(job(bursar, known.id("lapsed_job")).await.life.error.unwrap().kind, "lease expired");
    assert_eq!(job(bursar, known.id("moved_job")).await.home.unwrap().as_str(), "media");
    let lease = job(bursar, known.id("leased_job")).await.life.lease.unwrap();
    assert_eq!((lease.worker.as_str(), lease.length), ("crew", Span::from_secs(12 * 3_600)));
    let retried = job(bursar, known.id("retried_job")).await;
    assert_eq!((retried.life.attempts, retried.total_cost()), (2, 3_500));
    assert_eq!(bursar.jobs().attempts(retried.id).await.unwrap().len(), 2);

    let day = now.micros().div_euclid(86_400_000_000);
    let costs = bursar.jobs().costs(day..=day, None, 100).await.unwrap();
    assert_eq!((costs.len(), costs.iter().map(|cost| cost.amount).sum::<i64>()), (6, 8_295));
    let held = bursar.jobs().held(None, None, 100).await.unwrap();
    assert_eq!((held.len(), held.iter().map(|held| held.amount).sum::<i64>()), (8, 8_570));
}

async fn queues_and_schedules_are_there(bursar: &Bursar, known: Known) {
    let queues = bursar.queues();
    let media = queues.get("media").await.unwrap();
    assert_eq!((media.concurrency, media.key_concurrency, media.retry.max_attempts), (Some(20), Some(1), 3));
    assert_eq!(queues.get("slow").await.unwrap().rate.unwrap().amount, 1);
    assert!(queues.get("stopped").await.unwrap().paused);
    let figures = queues.figures("media", 1).await.unwrap();
    let states = [JobState::Queued, JobState::Scheduled, JobState::Leased, JobState::AwaitingBudget, JobState::Dead];
    assert_eq!(states.map(|state| figures.count(state)), [5, 3, 3, 1, 1]);
    let groups = bursar.jobs().dead_groups(None, None, 10).await.unwrap();
    assert_eq!(groups.iter().map(|group| group.count).collect::<Vec<_>>(), [1], "grouped by the migration");

    let schedules = bursar.schedules();
    assert_eq!(schedules.list(None, 10).await.unwrap().len(), 2);
    let yearly = schedules.find("yearly").await.unwrap().unwrap();
    assert_eq!((yearly.next_at, yearly.spec.paused), (in_july(), false));
    assert_eq!(yearly.last_job, Some(known.id::<JobId>("run_job")));
    let ticking = schedules.find("ticking").await.unwrap().unwrap();
    assert_eq!((ticking.next_at, ticking.spec.paused), (Time::NEVER, true));
    assert_eq!(ticking.last_job, Some(known.id::<JobId>("tick_job")));
}

/// Returns the next tick of the schedule `yearly`: half past seven in Berlin.
fn in_july() -> Time {
    "2027-07-01T05:30:00Z".parse().unwrap()
}

async fn a_database_of_version_1_is_rebuilt_from_its_journal(opened: Opened) {
    let (bursar, known) = (&opened.bursar, opened.known);
    let acme = bursar.tenant("acme").unwrap();
    let before = [rows(bursar).await, rows(&acme).await].concat();
    let events: usize = EVENTS.iter().map(|(_, events)| events).sum();
    assert_eq!(bursar.rebuild().await.unwrap(), events as u64);
    let after = [rows(bursar).await, rows(&acme).await].concat();
    let gone: Vec<&String> = before.iter().filter(|row| !after.contains(row)).collect();
    let new: Vec<&String> = after.iter().filter(|row| !before.contains(row)).collect();
    assert!(gone.is_empty() && new.is_empty(), "gone: {gone:#?}\nnew: {new:#?}");
    assert_sound(bursar).await;
    // Secrets and idempotency keys still work.
    let worker = CredentialToken::parse(WORKER_TOKEN[known as usize]).unwrap();
    assert!(bursar.credentials().admit(&worker).await.unwrap().is_ok());
    assert!(bursar.command().charge("api", 40).key("order-7").submit().await.unwrap().replayed);
    opened.bursar.close().await;
}

/// Returns every readable row of a tenant as text.
async fn rows(bursar: &Bursar) -> Vec<String> {
    let (ledger, jobs, now) = (bursar.ledger(), bursar.jobs(), bursar.now().await.unwrap());
    let mut rows = Vec::new();
    for view in ledger.budgets("", None, 1_000).await.unwrap() {
        let spent = ledger.spent(&view.scope, Time::MIN, Time::NEVER).await.unwrap();
        let live = ledger.live(&view.scope, None, 1_000).await.unwrap();
        let live: Vec<_> = live.iter().map(|hold| hold.id).collect();
        rows.push(format!("{view:?} {spent} {live:?}"));
    }
    for event in bursar.journal().read(0, 1_000).await.unwrap().0 {
        if let Event::HoldPlaced { hold, .. } = event.event {
            // A rebuild also records when holds have ended, which version 1 did not.
            let hold = Hold { ended_at: None, ..ledger.find(hold).await.unwrap().unwrap() };
            rows.push(format!("{hold:?}"));
        }
    }
    let mut grants = bursar.grants().list(None, 1_000).await.unwrap();
    grants.extend(bursar.credentials().list_of(&CredentialClass::ALL, None, 1_000).await.unwrap());
    for grant in grants {
        rows.push(format!("{grant:?} {}", grant.payload.as_str()));
    }
    for job in jobs.list(&JobFilter::default(), None, 1_000).await.unwrap() {
        rows.push(shown_job(job, now));
    }
    for (queue, config) in bursar.queues().list(None, 1_000).await.unwrap() {
        let figures = bursar.queues().figures(&queue, 60).await.unwrap();
        let past = (figures.enqueued, figures.succeeded, figures.cancelled, figures.dead, figures.failed_attempts);
        rows.push(format!("{queue} {config:?} {past:?}"));
    }
    let schedules = bursar.schedules().list(None, 1_000).await.unwrap();
    rows.extend(schedules.iter().map(|schedule| format!("{schedule:?}")));
    rows.extend(jobs.costs(0..=100_000, None, 1_000).await.unwrap().iter().map(|cost| format!("{cost:?}")));
    rows.extend(jobs.dead_groups(None, None, 1_000).await.unwrap().iter().map(|group| format!("{group:?}")));
    rows.extend(jobs.held(None, None, 1_000).await.unwrap().iter().map(|held| format!("{held:?}")));
    rows
}

/// Returns what version 1 stored of a job. Fields that a rebuild of a later version derives from the journal are left out.
fn shown_job(job: Job, now: Time) -> String {
    let job = job.lasting(now);
    let life = &job.life;
    let what = (&job.tenant, &job.queue, &job.home, &job.kind, &job.idempotency_key, &job.key, &job.tags, &job.parent);
    let how = (job.priority, job.max_attempts, &job.retry, job.deadline, &job.traceparent, job.hold);
    let since = (job.enqueued_at, job.version, job.last);
    let payloads = [job.payload.as_str(), job.metadata.as_str(), life.result.as_str()];
    let state = (life.state, life.run_at, life.rank, life.attempts, life.fence, &life.lease, life.ended);
    let rest = (life.cancelling, &life.awaits, &life.error, &life.cost, &life.held);
    let lapsed: Vec<_> = life.lapsed.iter().map(|lapsed| (lapsed.fence, lapsed.billed)).collect();
    format!("{} {what:?} {how:?} {since:?} {payloads:?} {state:?} {rest:?} {lapsed:?}", job.id)
}

async fn a_database_of_version_1_can_be_used(opened: Opened) {
    let (bursar, known) = (&opened.bursar, opened.known);
    let (ledger, jobs) = (bursar.ledger(), bursar.jobs());

    // Repeated requests return their first answers.
    let again = bursar.command().charge("api", 40).key("order-7").submit().await.unwrap();
    assert_eq!((again.replayed, again.remaining("api")), (true, Some(60)));
    bursar.command().charge("api", 39).key("order-7").submit().await.expect_err("the key was another request's");
    let spec = JobSpec {
        idempotency_key: Some("gen-1".try_into().unwrap()),
        ..JobSpec::new("plain".try_into().unwrap(), "queued".try_into().unwrap(), Payload::default())
    };
    let found = jobs.enqueue(spec).await.unwrap();
    assert_eq!((found.created, found.id), (false, known.id::<JobId>("queued_job")));
    for scope in ["closed", "fused"] {
        ledger.post(scope, 1).await.expect_err("the scope is frozen");
    }

    // Holds and grants.
    let settled = ledger.commit(known.id("live_hold"), 4_200).await.unwrap();
    assert_eq!((settled.state, settled.late, settled.overrun), (HoldState::Committed, false, 0));
    assert_eq!(balances(bursar, "agent:7").await, "lifetime 5670+8400");
    let grants = bursar.grants();
    let redeemed = grants.redeem("upload", "session-1", OPEN_TOKEN[known as usize]).await.unwrap();
    assert_eq!(redeemed.as_str(), r#"{"asset": "a-1"}"#);
    grants.redeem("upload", "session-1", OPEN_TOKEN[known as usize]).await.expect_err("the token is redeemed");

    // Leased jobs.
    let done = jobs.complete(known.id("leased_job"), FENCE, Payload::default(), spent(7_500)).await.unwrap();
    assert_eq!((done.state, done.total_cost()), (JobState::Succeeded, 7_500));
    let again = jobs.complete(known.id("leased_job"), FENCE, Payload::default(), spent(7_500));
    assert_eq!(again.await.unwrap().state, JobState::Succeeded, "repeating the end of a lease returns the same answer");
    for (scope, expected) in [
        ("agent:7", "lifetime 13170+400"),
        ("team:video", "lifetime 13170+400, rolling:30d 13170+400"),
        ("org:north", "lifetime 14070+400"),
    ] {
        assert_eq!(balances(bursar, scope).await, expected, "{scope}");
    }
    let cancelling = known.id("cancelling_job");
    assert_eq!(jobs.heartbeat(HeartbeatItem::new(cancelling, FENCE)).await.unwrap().order, Order::Cancel);
    assert_eq!(jobs.hand_back(cancelling, FENCE).await.unwrap().state, JobState::Cancelled);
    let lost = jobs.complete(known.id("lapsed_job"), FENCE, Payload::default(), spent(25));
    assert!(lost.await.unwrap_err().is_lease_lost());
    assert_eq!(balances(bursar, "media").await, "lifetime 8625+430", "the usage is charged once");

    // Flow keys and rates.
    assert!(lease(bursar, "slow", "slow").await.is_empty(), "the rate is used up");
    assert!(lease(bursar, "stopped", "bulk").await.is_empty(), "the queue is paused");
    jobs.complete(known.id("first_in_line"), FENCE, Payload::default(), None).await.unwrap();
    let leased: BTreeSet<JobId> = lease(bursar, "media", "line").await.iter().map(|job| job.id).collect();
    let expected = ["second_in_line", "other_in_line"].map(|name| known.id::<JobId>(name));
    assert_eq!(leased, BTreeSet::from(expected), "one job of each customer");

    // Jobs that wait for a budget.
    let revived = jobs.retry(known.id("dead_job")).await.unwrap();
    assert_eq!(revived.state, JobState::Queued);
    let mut notices = bursar.listen();
    ledger.define("tight", Budget::new([Limit::new(1_000, Window::Lifetime)])).await.unwrap();
    let resumed = async { while notices.next().await.unwrap().unwrap().event().kind() != "job.resumed" {} };
    tokio::time::timeout(Duration::from_secs(120), resumed).await.expect("the job is resumed within two minutes");
    assert_eq!(job(bursar, known.id("awaiting_job")).await.life.state, JobState::Queued);
    assert_eq!(balances(bursar, "tight").await, "lifetime 60+60");

    // New jobs and runs.
    let spec = JobSpec::new("plain".try_into().unwrap(), "new".try_into().unwrap(), Payload::default());
    let command = bursar.command().charge("agent:7", 100).settle_with_job().job(spec);
    let made = command.submit().await.unwrap().done.jobs[0].id;
    let leased = lease(bursar, "plain", "new").await.remove(0);
    assert_eq!(leased.id, made);
    let done = jobs.complete(made, leased.life.fence, Payload::default(), spent(120)).await.unwrap();
    assert_eq!((done.state, done.total_cost()), (JobState::Succeeded, 120));
    assert_eq!(balances(bursar, "agent:7").await, "lifetime 13290+400");
    let run = bursar.schedules().run("yearly").await.unwrap();
    assert_eq!(lease(bursar, "plain", "report").await.len(), 2, "the earlier one, and {run}");

    let acme = bursar.tenant("acme").unwrap();
    assert!(lease(&acme, "media", "leased").await.is_empty(), "one at a time");
    let done = acme.jobs().complete(known.id("acme_job"), FENCE, Payload::default(), None).await;
    assert_eq!(done.unwrap().total_cost(), 33);
    assert_eq!(lease(&acme, "media", "leased").await[0].id, known.id::<JobId>("acme_waiting"));
    assert_eq!(balances(&acme, "agent:7").await, "lifetime 44+22");
    assert_sound(bursar).await;
    opened.bursar.close().await;
}

async fn a_database_of_version_1_is_maintained_half_a_year_later(opened: Opened) {
    let (bursar, clock, known) = (&opened.bursar, &opened.clock, opened.known);
    clock.set(in_july().after(Span::from_secs(1)));
    assert_eq!(bursar.sweep(1_000).await.unwrap().expired_count, 25);
    let tended = bursar.tend(100).await.unwrap();
    assert_eq!((tended.rescued, tended.looked_at), (6, 1));
    bursar.tick(100).await.unwrap();
    bursar.tidy().await.unwrap();
    assert_sound(bursar).await;

    for (scope, expected) in [
        ("agent:7", "lifetime 1470+8000"),
        ("team:video", "lifetime 1470+8000, rolling:30d 0+8000"),
        ("crowd", "lifetime 0+0"),
        ("media", "lifetime 8625+430"),
    ] {
        assert_eq!(balances(bursar, scope).await, expected, "{scope}");
    }
    let turned = bursar.ledger().remaining("calendar").await.unwrap();
    assert!(turned.iter().all(|balance| balance.posted == 0), "{turned:?}");
    assert_eq!(bursar.ledger().remaining("api").await.unwrap()[0].remaining, Some(66), "7 came back");
    bursar.ledger().post("fused", 1).await.expect("spend has fallen back below the trip limit");
    bursar.ledger().post("closed", 1).await.expect_err("only an order ends that freeze");
    assert_eq!(job(bursar, known.id("cancelling_job")).await.life.state, JobState::Cancelled);
    for tenant in ["default", "acme"] {
        let schedules = bursar.tenant(tenant).unwrap();
        let yearly = schedules.schedules().find("yearly").await.unwrap().unwrap();
        let (last, next) = (yearly.last_job.unwrap(), yearly.next_at);
        assert!(next > in_july() && next != Time::NEVER, "{tenant}: {next}");
        assert_ne!(last, known.id::<JobId>("run_job"), "{tenant}");
        assert!(schedules.jobs().find(last).await.unwrap().is_some(), "{tenant}");
    }
    assert_sound(bursar).await;
    opened.bursar.close().await;
}

async fn names_accepted_by_version_1_are_kept_as_written(opened: Opened) {
    let (bursar, clock, known) = (&opened.bursar, &opened.clock, opened.known);
    let old = bursar.tenant("old-names").unwrap();
    let budgets = async || -> Vec<(String, String)> {
        let all = old.ledger().budgets("", None, 10).await.unwrap();
        let own = all.iter().filter(|view| view.budget.is_some());
        own.map(|view| (view.scope.to_string(), shown_balances(view))).collect()
    };
    let expected = |balances: &str| [HIDDEN, CAFE].map(|scope| (scope.to_owned(), balances.to_owned()));
    assert_eq!(budgets().await, expected("lifetime 7+50"));
    let job = job(&old, known.id("old_name_job")).await;
    assert_eq!((job.queue.as_str(), job.kind.as_str(), job.tags[0].as_str()), (CAFE, HIDDEN, HIDDEN));
    assert_eq!((job.key.unwrap().as_str(), job.idempotency_key.unwrap().as_str()), (CAFE, CAFE));
    assert_eq!(job.life.lease.unwrap().worker.as_str(), HIDDEN);

    // The end of the job settles a hold on a budget and its parent, and frees its slot.
    let done = old.jobs().complete(job.id, FENCE, Payload::default(), spent(25)).await.unwrap();
    assert_eq!((done.state, done.total_cost()), (JobState::Succeeded, 25));
    assert_eq!(budgets().await, expected("lifetime 32+20"));
    assert_sound(bursar).await;

    // Maintenance handles them like all others.
    clock.set(in_july().after(Span::from_secs(1)));
    bursar.sweep(1_000).await.unwrap();
    bursar.tend(100).await.unwrap();
    bursar.tick(100).await.unwrap();
    bursar.tidy().await.unwrap();
    assert_eq!(budgets().await, expected("lifetime 32+0"));
    let schedules = old.schedules().list(None, 10).await.unwrap();
    let ticked: Vec<(&str, bool)> =
        schedules.iter().map(|(name, schedule)| (name.as_str(), schedule.last_job.is_some())).collect();
    assert_eq!(ticked, [(HIDDEN, true), (CAFE, true)]);
    assert_sound(bursar).await;
    bursar.rebuild().await.unwrap();
    assert_sound(bursar).await;
    opened.bursar.close().await;
}
