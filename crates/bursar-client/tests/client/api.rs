//! Every call against a real server.

use std::collections::BTreeSet;
use std::time::Duration;

use bursar_client::wire::blob::{BlobStateWord, ReferenceBody};
use bursar_client::wire::budget::CreditBody;
use bursar_client::wire::bulk::{EditBody, EditManyBody, FilterBody, MoveManyBody, SelectionBody};
use bursar_client::wire::credential::{KeyBody, RotateBody, WorkerBody};
use bursar_client::wire::grant::MintBody;
use bursar_client::wire::job::LeasedAnswer;
use bursar_client::wire::meter::{MeteredOperationBody, QuotaCheckBody, QuotaLimitBody};
use bursar_client::wire::namespace::NamespaceBody;
use bursar_client::wire::queue::QueueBody;
use bursar_client::wire::role::Role;
use bursar_client::wire::schedule::ScheduleBody;
use bursar_client::wire::worker_calls::{
    BeatItem, CompleteBody, CompleteItem, ErrorBody, FailBody, FailItem, HeartbeatBody, ItemAnswer, LeaseBody,
    ProgressBody, ReturnBody, ReturnItem, SnoozeBody, SnoozeItem,
};
use bursar_client::{
    BlobQuery, Budget, BudgetBody, Capabilities, ChargeBody, Client, CommandBody, CommitBody, FiguresPeriod, HoldBody,
    HoldState, JobBody, JobId, JobQuery, JobState, JournalQuery, Kind, Limit, OnExpiryBody, Payload, Queue, Scope,
    SettleWord,
};

use crate::test_server::TestServer;

fn scope(name: &str) -> Scope {
    Scope::new(name).unwrap()
}

fn queue() -> Queue {
    Queue::new("q").unwrap()
}

fn job() -> JobBody {
    JobBody::new(queue(), "k".try_into().unwrap(), Payload::new("[1]").unwrap())
}

async fn budget(client: &Client, name: &str) {
    let budget = Budget::new([Limit::new(100, "day".parse().unwrap())]);
    let made = client.budgets().define(&scope(name), &BudgetBody::from(&budget)).await.unwrap();
    assert_eq!(made.balances[0].remaining, Some(100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callers_quota_is_checked_read_and_limited() {
    let mut server = TestServer::sqlite().await;
    let client = server.client();
    let limits = Some(vec![(&Limit::new(20, "lifetime".parse().unwrap())).into()]);
    let limit = QuotaLimitBody { agent_id: "bob".into(), limit: None, limits, reason: None };
    client.meter().set_limit(&limit).await.unwrap();
    let cost = |cost| QuotaCheckBody { agent_id: "bob".into(), cost: Some(cost), operation: None };
    let checked = client.key("once".try_into().unwrap()).meter().check(&cost(7)).await.unwrap();
    assert!((checked.admitted, checked.is_replayed()) == (true, false));
    assert_eq!((checked.cost, checked.quota.tightest.as_ref().unwrap().remaining), (7, 13));
    let again = client.key("once".try_into().unwrap()).meter().check(&cost(7)).await.unwrap();
    assert!(again.is_replayed());
    let operation = MeteredOperationBody { method: "POST".into(), path: "/claims".into(), payload_bytes: 0 };
    let priced = QuotaCheckBody { agent_id: "bob".into(), cost: None, operation: Some(operation) };
    assert_eq!(client.meter().check(&priced).await.unwrap().cost, 1);
    let over = client.meter().check(&cost(13)).await.unwrap_err();
    assert_eq!((over.kind(), over.is_transient()), (Some(Kind::QuotaExceeded), false));
    let quota = client.meter().quota(Some("bob")).await.unwrap();
    assert_eq!((quota.agent_id.as_str(), quota.tightest.as_ref().unwrap().used), ("bob", 8));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn budgets_holds_and_commands_work() {
    let mut server = TestServer::sqlite().await;
    let client = server.client();
    let name = scope("room: a/b?ä");
    budget(&client, name.as_str()).await;

    // A change with the ETag of an older definition is refused.
    let read = client.budgets().show(&name).await.unwrap();
    let body = read.budget.clone().unwrap();
    let etag = read.etag().unwrap();
    client.if_match(etag).budgets().define(&name, &BudgetBody { unit: "usd".into(), ..body.clone() }).await.unwrap();
    let late = client.if_match(etag).budgets().define(&name, &body).await.unwrap_err();
    assert_eq!(late.kind(), Some(Kind::Changed));

    let charges = vec![ChargeBody::new(name.clone(), 60)];
    let on_expiry = Some(OnExpiryBody { charge: 1 });
    let (ttl_ms, context) = (Some(60_000), Default::default());
    let body = HoldBody { charges: charges.clone(), ttl_ms, on_expiry, context, dry_run: false };
    let keyed = client.key("place-1".try_into().unwrap());
    let placed = keyed.holds().place(&body).await.unwrap();
    let again = keyed.holds().place(&body).await.unwrap();
    assert!(!placed.is_replayed() && again.is_replayed());
    let hold = placed.hold.as_ref().unwrap().id.unwrap();
    assert_eq!(again.hold.as_ref().unwrap().id, Some(hold));
    assert_eq!(client.holds().show(hold).await.unwrap().on_expiry, Some(OnExpiryBody { charge: 1 }));
    assert_eq!(client.holds().list(&name, Some("held"), None, 10).await.unwrap().items.len(), 1);
    client.holds().extend(hold, Duration::from_secs(1)).await.unwrap();
    let refused = client.commands().submit(&CommandBody { charges, ..CommandBody::default() }).await.unwrap_err();
    assert_eq!((refused.kind(), refused.violations().len()), (Some(Kind::Refused), 1));
    let settled = client.holds().commit(hold, &CommitBody { actual: Some(42), actuals: Vec::new() }).await.unwrap();
    assert_eq!((settled.state, settled.charges[0].actual), (HoldState::Committed, Some(42)));
    let error = client.holds().release(hold, Some("too late")).await.unwrap_err();
    assert_eq!(error.kind(), Some(Kind::AlreadySettled));
    assert_eq!(client.holds().show(hold).await.unwrap().state, HoldState::Committed);
    assert_eq!(client.holds().history(hold, None, 10).await.unwrap().items.len(), 3);

    let credit = CreditBody { amount: 2, hold: None, reason: Some("refund".into()) };
    client.budgets().credit(&name, &credit).await.unwrap();
    assert_eq!(client.budgets().spent(&name, None, None).await.unwrap().spent, 40);
    assert!(client.budgets().freeze(&name, Some("audit")).await.unwrap().frozen);
    assert!(!client.budgets().unfreeze(&name, None).await.unwrap().frozen);
    assert!(client.budgets().history(&name, None, 3).await.unwrap().next.is_some());
    assert_eq!(client.budgets().list("room:", None, 10).await.unwrap().items.len(), 1);
    assert_eq!(client.budgets().show(&scope("nowhere")).await.unwrap_err().kind(), Some(Kind::UnknownScope));
    client.budgets().remove(&name, Some("not needed")).await.unwrap();
    let gone = client.budgets().remove(&name, None).await.unwrap_err();
    assert_eq!(gone.kind(), Some(Kind::UnknownScope));
    assert!(client.budgets().show(&name).await.unwrap().budget.is_none());

    let shown = client.commands().show(placed.id.unwrap()).await.unwrap();
    assert_eq!(shown.hold.as_ref().unwrap().id, Some(hold));
    let read =
        JournalQuery { stream: Some(format!("scope:{name}")), kind: Some("hold".into()), ..JournalQuery::default() };
    assert_eq!(client.journal().read(&read).await.unwrap().items.len(), 3);
    assert!(client.verify().await.unwrap().ok);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_and_credentials_work() {
    let mut server = TestServer::sqlite().await;
    let client = server.client();
    let body = MintBody {
        purpose: "upload".try_into().unwrap(),
        subject: "s".try_into().unwrap(),
        payload: Payload::new("7").unwrap(),
        ttl_ms: 60_000,
    };
    let minted = client.grants().mint(&body).await.unwrap();
    assert!(minted.token.is_some());
    client.grants().revoke(minted.id, Some("typo")).await.unwrap();
    assert_eq!(client.grants().list(None, 10).await.unwrap().items[0].state, "revoked");
    let later = client.grants().mint(&body).await.unwrap();
    let newest = client.grants().newest(None, 1).await.unwrap();
    assert_eq!((newest.items[0].id, newest.next.clone()), (later.id, Some(later.id.to_string())));
    let rest = client.grants().newest(newest.next.as_deref(), 10).await.unwrap();
    assert_eq!(rest.items.iter().map(|grant| grant.id).collect::<Vec<_>>(), [minted.id]);

    let other = client.tenant("acme".try_into().unwrap());
    let key = KeyBody { name: "shop".into(), role: Role::User, expires_in_ms: None };
    let key = other.make_key(&key).await.unwrap();
    let shop = server.with(key.token.as_deref().unwrap());
    assert_eq!(shop.verify().await.unwrap_err().kind(), Some(Kind::Forbidden));
    shop.jobs().enqueue(&job()).await.unwrap();
    assert_eq!(other.jobs().list(&JobQuery::default()).await.unwrap().items.len(), 1);
    assert_eq!(client.jobs().list(&JobQuery::default()).await.unwrap().items.len(), 0);
    let rotated = other.keys().rotate(&key.id, &RotateBody::default()).await.unwrap();
    assert_ne!(rotated.id, key.id);
    other.keys().revoke(&key.id).await.unwrap();
    assert_eq!(other.keys().show(&key.id).await.unwrap().state, "revoked");
    assert_eq!(shop.jobs().enqueue(&job()).await.unwrap_err().kind(), Some(Kind::Unauthorized));
    let worker = WorkerBody { name: "w".into(), capabilities: Capabilities::default(), expires_in_ms: Some(60_000) };
    client.make_worker(&worker).await.unwrap();
    let acme = "acme".try_into().unwrap();
    assert_eq!(client.tenants().show(&acme).await.unwrap().name, acme);
    let nope = client.tenants().show(&"nope".try_into().unwrap()).await;
    assert_eq!(nope.unwrap_err().kind(), Some(Kind::NotFound));
    assert!(client.tenants().list(None, 10).await.unwrap().items.is_empty(), "no tenant has a scope");
    assert_eq!(client.workers().list(None, 10).await.unwrap().items.len(), 1);
    server.stop().await;
}

async fn lease(client: &Client, capacity: u32) -> Vec<LeasedAnswer> {
    let body = LeaseBody {
        queues: vec![queue()],
        kinds: Vec::new(),
        capacity,
        wait_ms: 0,
        lease_ms: None,
        worker: Some("by-hand".try_into().unwrap()),
    };
    client.work().lease(&body).await.unwrap().into_inner().jobs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_and_reports_of_a_worker_work() {
    let mut server = TestServer::sqlite().await;
    let client = server.client();
    budget(&client, "a").await;
    let command = CommandBody {
        charges: vec![ChargeBody::new(scope("a"), 50)],
        settle: SettleWord::Job,
        jobs: vec![job()],
        ..CommandBody::default()
    };
    let paid = client.commands().submit(&command).await.unwrap().jobs[0].id;
    client.jobs().enqueue_all((0..8).map(|_| job()).collect()).await.unwrap();
    let leased = lease(&client, 9).await;
    let fence = |job: &LeasedAnswer| job.lease.as_ref().unwrap().fence;
    let at = |index: usize| (leased[index].id, fence(&leased[index]));
    let work = client.work();

    let (id, fence) = at(0);
    assert_eq!(id, paid);
    work.heartbeat(id, &HeartbeatBody { fence, progress: None }).await.unwrap();
    let progress =
        ProgressBody { fence, percent: Some(5.0), message: None, data: Payload::default(), checkpoint: None };
    work.progress(id, &progress).await.unwrap();
    let usage = Some(vec![bursar_client::Usage { scope: None, amount: 31 }]);
    let body = CompleteBody { fence, result: Payload::new("\"ok\"").unwrap(), usage, blobs: Vec::new() };
    let done = work.complete(id, &body).await.unwrap();
    assert_eq!((done.state, done.cost[0].amount), (JobState::Succeeded, 31));
    // A repeated report returns the same answer.
    assert_eq!(work.complete(id, &body).await.unwrap().cost[0].amount, 31);
    assert_eq!(client.budgets().spent(&scope("a"), None, None).await.unwrap().spent, 31);

    let (id, fence) = at(1);
    let error = ErrorBody { kind: "bad".into(), message: "worse".into() };
    let body = FailBody { fence, error: error.clone(), retryable: false, retry_after_ms: None, usage: None };
    assert_eq!(work.fail(id, &body).await.unwrap().state, JobState::Dead);
    let attempts = client.jobs().attempts(id).await.unwrap();
    assert_eq!(attempts.items[0].error.as_ref().unwrap().kind, "bad");
    assert_eq!(client.jobs().events(id, None, 100).await.unwrap().items.len(), 4);
    let (id, fence) = at(2);
    assert_eq!(work.snooze(id, &SnoozeBody { fence, delay_ms: 60_000 }).await.unwrap().state, JobState::Scheduled);
    let (id, fence) = at(3);
    assert_eq!(work.hand_back(id, &ReturnBody { fence }).await.unwrap().state, JobState::Queued);

    let (id, fence) = at(4);
    let beats =
        work.heartbeats(vec![BeatItem { id, fence, progress: None }, BeatItem { id, fence: 99, progress: None }]);
    let beats = beats.await.unwrap().into_inner().items;
    assert!(matches!(beats[0], ItemAnswer::Done(_)));
    assert!(matches!(&beats[1], ItemAnswer::Failed { problem } if problem.kind == Kind::LeaseLost));
    let complete = CompleteItem { id, fence, result: Payload::default(), usage: None, blobs: Vec::new() };
    work.complete_all(vec![complete]).await.unwrap();
    let (id, fence) = at(5);
    work.fail_all(vec![FailItem { id, fence, error, retryable: false, retry_after_ms: None, usage: None }])
        .await
        .unwrap();
    let (id, fence) = at(6);
    work.snooze_all(vec![SnoozeItem { id, fence, delay_ms: 60_000 }]).await.unwrap();
    let ((id, fence), (other, other_fence)) = (at(7), at(8));
    work.return_all(vec![ReturnItem { id, fence }, ReturnItem { id: other, fence: other_fence }]).await.unwrap();
    let counts = client.queues().show(&queue(), None).await.unwrap().figures.states.clone();
    let counted = |state: &str| counts[state].as_i64().unwrap();
    assert_eq!((counted("dead"), counted("scheduled"), counted("queued"), counted("succeeded")), (2, 2, 3, 2));
    let groups = client.dead().groups(Some(&queue()), None, 10).await.unwrap().into_inner();
    assert_eq!((groups.items.len(), groups.items[0].count, groups.next), (1, 2, None));
    assert_eq!(groups.items[0].error.kind, "bad");
    let period = FiguresPeriod { minutes: Some(5), series: true };
    let listed = client.queues().list_over(period, None, 10).await.unwrap().into_inner().items.remove(0);
    let shown = client.queues().show_over(&queue(), period).await.unwrap().into_inner();
    for answer in [listed, shown] {
        let figures = answer.figures;
        let dead = figures.series.unwrap().dead;
        assert_eq!((figures.over_ms, dead.len(), dead.iter().sum::<i64>()), (300_000, 5, 2));
    }
    assert_eq!(client.jobs().costs("2020-01-01", None, None, 10).await.unwrap().items.len(), 0);
    assert_eq!(client.jobs().held(Some(&queue()), None, 10).await.unwrap().items.len(), 0);
    assert_eq!(client.jobs().show(other).await.unwrap().attempts, 0, "a returned job counts no attempt");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_on_jobs_queues_and_schedules_work() {
    let mut server = TestServer::sqlite().await;
    let client = server.client();
    let ids: Vec<JobId> = client
        .jobs()
        .enqueue_all((0..6).map(|_| job()).collect())
        .await
        .unwrap()
        .jobs
        .iter()
        .map(|job| job.id)
        .collect();
    let edit = EditBody { priority: Some(9), delay_ms: None, reason: None };
    client.jobs().edit(ids[5], &edit).await.unwrap();
    assert_eq!(lease(&client, 1).await[0].id, ids[5]);
    assert_eq!(client.jobs().cancel(ids[0], Some("typo")).await.unwrap().state, JobState::Cancelled);
    assert_eq!(client.jobs().cancel(ids[0], None).await.unwrap().state, JobState::Cancelled);
    assert_eq!(client.jobs().retry(ids[0], None).await.unwrap().state, JobState::Queued);
    let slow = Queue::new("slow").unwrap();
    client.jobs().move_to(ids[1], &slow, None).await.unwrap();
    let filter = Some(FilterBody { queue: Some(queue()), state: Some(JobState::Queued), ..FilterBody::default() });
    let selection = SelectionBody { filter: filter.clone(), dry_run: true, ..SelectionBody::default() };
    assert_eq!(client.jobs().cancel_all(&selection).await.unwrap().matched, 4);
    let many =
        EditManyBody::to(SelectionBody { filter: filter.clone(), ..SelectionBody::default() }, None, Some(60_000));
    assert_eq!(client.jobs().edit_all(&many).await.unwrap().done, 4);
    let selection = SelectionBody { ids: ids[2..4].to_vec(), ..SelectionBody::default() };
    assert_eq!(client.jobs().cancel_all(&selection).await.unwrap().done, 2);
    assert_eq!(client.jobs().retry_all(&selection).await.unwrap().done, 2);
    let query = JobQuery { state: Some(JobState::Queued), limit: Some(2), ..JobQuery::default() };
    let page = client.jobs().list(&query).await.unwrap();
    let next = client.jobs().list(&JobQuery { cursor: page.next.clone(), ..query }).await.unwrap();
    let seen: BTreeSet<JobId> = page.items.iter().chain(&next.items).map(|job| job.id).collect();
    assert_eq!(seen.len(), 3);

    let filter = || Some(FilterBody { queue: Some(queue()), ..FilterBody::default() });
    assert_eq!(client.dead().list(&JobQuery::default()).await.unwrap().items.len(), 0);
    let selection = SelectionBody { filter: filter(), ..SelectionBody::default() };
    assert_eq!(client.dead().retry(&selection).await.unwrap().done, 0);
    assert_eq!(client.dead().discard(&selection).await.unwrap().done, 0);
    assert_eq!(client.dead().move_to(&MoveManyBody::to(selection, slow)).await.unwrap().done, 0);
    assert_eq!(client.jobs().discard(ids[0], None).await.unwrap_err().kind(), Some(Kind::Conflict));

    let body = QueueBody { concurrency: Some(3), reason: Some("slow provider".into()), ..QueueBody::default() };
    assert_eq!(client.queues().define(&queue(), &body).await.unwrap().config.concurrency, Some(3));
    assert!(client.queues().pause(&queue(), None).await.unwrap().config.paused);
    assert!(!client.queues().resume(&queue(), None).await.unwrap().config.paused);
    let changes = client.queues().history(&queue(), None, 10).await.unwrap().into_inner().items;
    let paused: Vec<_> = changes.iter().map(|event| event.data["config"]["paused"].clone()).collect();
    assert_eq!(paused, [false, true, false], "newest first");
    assert_eq!(client.queues().list(None, 10).await.unwrap().items.len(), 2);
    let name = "nightly".try_into().unwrap();
    let spec: ScheduleBody =
        serde_json::from_str(r#"{ "cron": "@daily", "queue": "q", "kind": "k", "payload": [1.0] }"#).unwrap();
    let made = client.schedules().define(&name, &ScheduleBody { reason: Some("why".into()), ..spec }).await.unwrap();
    assert_eq!(made.spec.payload.as_str(), "[1.0]");
    let run = client.schedules().run(&name, None).await.unwrap();
    assert_eq!(client.jobs().show(run.id).await.unwrap().payload.as_str(), "[1.0]");
    assert!(client.schedules().pause(&name, None).await.unwrap().spec.paused);
    assert!(!client.schedules().resume(&name, None).await.unwrap().spec.paused);
    assert_eq!(client.schedules().list(None, 10).await.unwrap().items.len(), 1);
    client.schedules().remove(&name, Some("gone")).await.unwrap();
    assert_eq!(client.schedules().show(&name).await.unwrap_err().kind(), Some(Kind::NotFound));
    let read = JournalQuery { limit: Some(1_000), ..JournalQuery::default() };
    let reasons =
        client.journal().read(&read).await.unwrap().into_inner().items.into_iter().filter_map(|event| event.reason);
    assert_eq!(reasons.collect::<BTreeSet<_>>(), ["gone", "slow provider", "typo", "why"].map(str::to_owned).into());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blobs_and_namespaces_work() {
    let mut server = TestServer::sqlite().await;
    let client = server.client();
    let media = "media".try_into().unwrap();
    let (first, second) = (server.stored_blob("media", 1).await, server.stored_blob("media", 2).await);
    let other = server.stored_blob("other", 3).await;
    let ids = async |query: BlobQuery| {
        client.blobs().list(&query).await.unwrap().items.iter().map(|blob| blob.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(BlobQuery::default()).await, [first, second, other]);
    let newest = BlobQuery { newest_first: true, limit: Some(2), ..BlobQuery::default() };
    assert_eq!(ids(newest.clone()).await, [other, second]);
    assert_eq!(ids(BlobQuery { cursor: Some(second.to_string()), ..newest }).await, [first]);
    let of_media = BlobQuery { namespace: Some(media), ..BlobQuery::default() };
    assert_eq!(ids(of_media.clone()).await, [first, second]);

    let state = async |id| client.blobs().meta(id).await.unwrap().state;
    client.blobs().delete(first, Some("typo")).await.unwrap();
    assert_eq!(state(first).await, BlobStateWord::Deleted);
    assert_eq!(client.blobs().restore(first, None).await.unwrap().state, BlobStateWord::Live);
    let name = "post:42/a?".try_into().unwrap();
    client.blobs().reference(first, &name, Some("published")).await.unwrap();
    assert_eq!(client.blobs().meta(first).await.unwrap().references, std::slice::from_ref(&name));
    client.blobs().release(first, &name, None).await.unwrap();
    assert!(client.blobs().meta(first).await.unwrap().references.is_empty());
    let never = "blob_01j9zq3v4w5x6y7z8abcdefghj".parse().unwrap();
    assert_eq!(client.blobs().meta(never).await.unwrap_err().kind(), Some(Kind::NotFound));

    // A job uses one blob and makes another; a command refers to a third.
    let command = CommandBody {
        jobs: vec![JobBody { blobs: vec![first], ..job() }],
        references: vec![ReferenceBody { blob: other, by: name.clone() }],
        ..CommandBody::default()
    };
    let id = client.commands().submit(&command).await.unwrap().jobs[0].id;
    let leased = lease(&client, 1).await.remove(0);
    assert_eq!((leased.id, &leased.blobs), (id, &vec![first]));
    let fence = leased.lease.unwrap().fence;
    let body = CompleteBody { fence, result: Payload::default(), usage: None, blobs: vec![second] };
    client.work().complete(id, &body).await.unwrap();
    assert_eq!(client.jobs().show(id).await.unwrap().blobs, [first, second]);
    assert_eq!(client.blobs().meta(second).await.unwrap().jobs, 1);
    assert_eq!(client.blobs().meta(other).await.unwrap().references, [name]);

    let media = of_media.namespace.unwrap();
    let read = client.namespaces().show(&media).await.unwrap();
    let etag = read.etag().unwrap();
    let rules = NamespaceBody { bytes_max: 7, reason: Some("small".into()), ..NamespaceBody::default() };
    assert_eq!(client.if_match(etag).namespaces().define(&media, &rules).await.unwrap().config.bytes_max, 7);
    let late = client.if_match(etag).namespaces().define(&media, &rules).await.unwrap_err();
    assert_eq!(late.kind(), Some(Kind::Changed));
    assert_eq!(client.namespaces().list(None, 10).await.unwrap().items.len(), 1);
    server.stop().await;
}
