//! What a moved database has: work that began before the move goes on after it.

use std::time::Duration;

use bursar::{
    BlobId, BlobSpec, BlobState, Budget, Bursar, CredentialClass, CredentialToken, Failure, Hold, HoldId, HoldState,
    Job, JobId, JobKind, JobSpec, JobState, LeaseRequest, Limit, NamespaceConfig, Payload, Queue, QueueConfig,
    Sha256Digest, Span, Stream, Usage, Window, WorkerName,
};

use crate::place::{NOW, Place, define, from_both_engines, relocate};

from_both_engines! {
    work_goes_on_after_a_move_there_and_back,
    the_source_of_a_move_is_not_changed,
}

const HOUR: Duration = Duration::from_secs(3_600);

/// What the tests need of what [`fill`] wrote.
pub(crate) struct World {
    hold: HoldId,
    charging: HoldId,
    leased: Job,
    dead: JobId,
    token: String,
    blob: BlobId,
    deleted: BlobId,
    /// The position of the last event before the last ones.
    cursor: u64,
}

/// Writes holds, jobs and blobs in every state, for two tenants.
pub(crate) async fn fill(bursar: &Bursar) -> World {
    let ledger = bursar.ledger();
    let mut budget =
        Budget::new([Limit::new(1_000_000, Window::Lifetime), Limit::new(900_000, Window::rolling(HOUR).unwrap())]);
    budget.hold.ttl_min = Span::from_millis(1);
    ledger.define("team", budget).await.unwrap();
    ledger.define("tight", Budget::new([Limit::new(50, Window::Lifetime)])).await.unwrap();
    bursar.command().charge("team", 40).key("order-7").submit().await.unwrap();
    let acme = bursar.tenant("acme").unwrap();
    define(&acme, "team").await;
    acme.ledger().post("team", 11).await.unwrap();
    acme.ledger().hold("team", 22, HOUR).await.unwrap().detach();
    define(bursar, "crowd").await;
    // More live holds than a row of a scope has room for.
    for _ in 0..20 {
        ledger.hold("crowd", 3, HOUR).await.unwrap().detach();
    }
    let hold = ledger.hold("team", 100, HOUR).await.unwrap().detach();
    let ended = ledger.hold("team", 10, HOUR).await.unwrap().detach();
    ledger.commit(ended, 9).await.unwrap();
    let ended = ledger.hold("team", 10, HOUR).await.unwrap().detach();
    ledger.release(ended, "not needed").await.unwrap();
    let charging = bursar.command().charge("team", 60).charge_on_expiry(25).hold_for(HOUR);
    let charging = charging.submit_held().await.unwrap().0.detach();

    let config = QueueConfig { concurrency: Some(20), key_concurrency: Some(1), ..QueueConfig::default() };
    bursar.queues().define("media", config).await.unwrap();
    let (leased, dead) = fill_jobs(bursar).await;
    let cursor = bursar.journal().read(0, 10_000).await.unwrap().1;
    let (blob, deleted) = fill_blobs(bursar).await;
    let subject = "encoder".try_into().unwrap();
    let issued =
        bursar.credentials().issue(CredentialClass::Worker, subject, Payload::default(), None, None).await.unwrap();
    World { hold, charging, leased, dead, token: issued.token.unwrap(), blob, deleted, cursor }
}

async fn fill_jobs(bursar: &Bursar) -> (Job, JobId) {
    let jobs = bursar.jobs();
    let large = Payload::of(&"p".repeat(3_000)).unwrap();
    for key in ["a", "a", "b"] {
        let spec = JobSpec { key: Some(key.try_into().unwrap()), payload: large.clone(), ..job("media", "line") };
        jobs.enqueue(spec).await.unwrap();
    }
    let later = JobSpec { delay: Span::from_secs(600), ..job("media", "later") };
    jobs.enqueue(later).await.unwrap();
    let cancelled = jobs.enqueue(job("media", "cancelled")).await.unwrap().id;
    jobs.cancel(cancelled).await.unwrap();
    jobs.enqueue(job("plain", "done")).await.unwrap();
    let done = lease(bursar, "plain").await;
    jobs.complete(done.id, done.life.fence, large, None).await.unwrap();
    jobs.enqueue(job("plain", "dead")).await.unwrap();
    let dead = lease(bursar, "plain").await;
    jobs.fail(dead.id, dead.life.fence, Failure::new("broken", "it is broken").for_good()).await.unwrap();
    // A job that fails and cannot pay for another attempt waits for its budget.
    bursar.command().charge("tight", 40).settle_with_job().job(job("poor", "poor")).submit().await.unwrap();
    let poor = lease(bursar, "poor").await;
    let failure = Failure::new("slow", "it took too long").spent([Usage { scope: None, amount: 30 }]);
    jobs.fail(poor.id, poor.life.fence, failure).await.unwrap();
    bursar.command().charge("team", 500).settle_with_job().job(job("work", "paid")).submit().await.unwrap();
    (lease(bursar, "work").await, dead.id)
}

async fn fill_blobs(bursar: &Bursar) -> (BlobId, BlobId) {
    let records = bursar.blob_records();
    records.define_namespace("media", NamespaceConfig::default()).await.unwrap();
    let mut blobs = Vec::new();
    for byte in 1..=4 {
        let spec = BlobSpec::new("media".try_into().unwrap(), "local".try_into().unwrap());
        let blob = records.start(spec, HOUR, None).await.unwrap().blob;
        if byte < 3 {
            records.store(blob, 10, Sha256Digest([byte; 32])).await.unwrap();
        }
        blobs.push(blob);
    }
    records.reference(blobs[0], "asset:7").await.unwrap();
    records.delete(blobs[1]).await.unwrap();
    records.abandon(blobs[3]).await.unwrap();
    (blobs[0], blobs[1])
}

pub(crate) fn job(queue: &str, kind: &str) -> JobSpec {
    JobSpec::new(Queue::new(queue).unwrap(), JobKind::new(kind).unwrap(), Payload::default())
}

pub(crate) async fn lease(bursar: &Bursar, queue: &str) -> Job {
    let (queues, worker) = (vec![Queue::new(queue).unwrap()], WorkerName::new("w").unwrap());
    let ask = LeaseRequest { queues, kinds: Vec::new(), capacity: 1, lease: None, worker };
    bursar.jobs().lease(ask).await.unwrap().jobs.remove(0)
}

/// Uses what [`fill`] wrote.
async fn use_world(bursar: &Bursar, world: &World) {
    let (ledger, jobs) = (bursar.ledger(), bursar.jobs());
    let again = bursar.command().charge("team", 40).key("order-7").submit().await.unwrap();
    assert!(again.replayed, "the idempotency key is kept with its answer");
    let settled = ledger.commit(world.hold, 70).await.unwrap();
    assert_eq!((settled.state, settled.late), (HoldState::Committed, false));
    let (id, fence) = (world.leased.id, world.leased.life.fence);
    let spent = Some(vec![Usage { scope: None, amount: 450 }]);
    let done = jobs.complete(id, fence, Payload::default(), spent).await.unwrap();
    assert_eq!((done.state, done.total_cost()), (JobState::Succeeded, 450), "the lease and its fence are kept");
    assert_eq!(jobs.retry(world.dead).await.unwrap().state, JobState::Queued);
    let token = CredentialToken::parse(&world.token).unwrap();
    assert_eq!(bursar.credentials().admit(&token).await.unwrap().unwrap().subject.as_str(), "encoder");
    let records = bursar.blob_records();
    records.release(world.blob, "asset:7").await.unwrap();
    records.restore(world.deleted).await.unwrap();
    assert_eq!(records.find(world.deleted).await.unwrap().unwrap().state, BlobState::Live);
    // The history of a scope follows links from one journal row to the one before.
    let stream = Stream::Scope("default".try_into().unwrap(), "team".try_into().unwrap());
    let mut history = bursar.journal().history(&stream, 1_000).await.unwrap();
    let defined = history.pop().unwrap();
    assert_eq!(defined.event.kind(), "budget.defined");
    assert_eq!(lease(bursar, "media").await.kind.as_str(), "line");
}

async fn work_goes_on_after_a_move_there_and_back(first: Place) {
    let (second, third) = (first.other(), first.other().other());
    let bursar = first.open().await;
    let world = fill(&bursar).await;
    let events = bursar.journal().read(world.cursor, 1_000).await.unwrap();
    assert!(events.0.len() >= 7, "{events:?}");
    bursar.close().await;

    let moved = relocate(&first, &second).await;
    let rows = |table: &str| moved.summaries.1.tables.iter().find(|found| found.table == table).unwrap().clone();
    let states = |table: &str| rows(table).states.into_iter().collect::<Vec<_>>();
    assert_eq!(states("jobs"), [("awaiting_budget", 1), ("behind", 1), ("leased", 1), ("ready", 2), ("scheduled", 1)]);
    assert_eq!(states("ended_jobs"), [("cancelled", 1), ("dead", 1), ("succeeded", 1)]);
    assert_eq!(states("blobs"), [("doomed", 1), ("live", 2), ("pending", 1)]);
    let (default, acme) = (&moved.summaries.1.tenants["default"], &moved.summaries.1.tenants["acme"]);
    assert_eq!((acme.posted, acme.held), (11, 22));
    assert_eq!((default.posted, default.held), (40 + 9 + 30, 60 + 100 + 60 + 500));

    let bursar = second.open().await;
    assert_eq!(bursar.journal().read(world.cursor, 1_000).await.unwrap(), events, "positions are kept");
    bursar.ledger().post("team", 1).await.unwrap();
    bursar.close().await;
    relocate(&second, &third).await;

    let (bursar, clock) = third.open_at(NOW).await;
    use_world(&bursar, &world).await;
    clock.set(NOW.after(Span::from_secs(3_601)));
    assert!(bursar.sweep(100).await.unwrap().expired_count > 20);
    let expired: Hold = bursar.ledger().find(world.charging).await.unwrap().unwrap();
    assert_eq!(expired.state, HoldState::Expired);
    let view = bursar.ledger().budget("team").await.unwrap().unwrap();
    let lifetime = &view.balances[0];
    // Charged at once, committed, of the holds and of the job, after the move, and on expiry.
    assert_eq!((lifetime.posted, lifetime.held), (40 + 9 + 70 + 450 + 1 + 25, 0));
    bursar.tend(100).await.unwrap();
    bursar.tidy().await.unwrap();
    assert_eq!(bursar.verify().await.unwrap().violations, Vec::<String>::new());
    bursar.rebuild().await.unwrap();
    assert_eq!(bursar.verify().await.unwrap().violations, Vec::<String>::new());
    bursar.close().await;
}

async fn the_source_of_a_move_is_not_changed(first: Place) {
    let second = first.other();
    let bursar = first.open().await;
    let world = fill(&bursar).await;
    bursar.close().await;
    let moved = relocate(&first, &second).await;
    let again = relocate(&first, &second).await;
    assert!(again.ended_before && again.changed == 0);
    assert_eq!(again.summaries, moved.summaries);
    let bursar = first.open().await;
    use_world(&bursar, &world).await;
    bursar.close().await;
    // The target has no longer what the source has.
    let refused = Bursar::relocate(&first.url, &second.url, false, crate::place::quiet()).await.unwrap_err();
    assert!(refused.to_string().contains("is not empty"), "{refused}");
}
