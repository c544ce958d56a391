//! Commands: keys, jobs, tenants, dry runs.

use bursar_core::context::Context;
use bursar_core::id::JobId;
use bursar_core::job::JobSpec;
use bursar_core::name::{IdempotencyKey, JobKind, Queue, Scope, Tenant};
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Charge, Command, Op, Request, Settle};
use bursar_core::time::Span;

use super::world::{World, available, hold, limit, post, post_within, scope, secs, submitted};

fn keyed(op: Op, key: &str) -> Request {
    Request::from(op).with_key(IdempotencyKey::new(key).expect("a valid key"))
}

pub(super) fn job(key: Option<&str>, payload: &str) -> JobSpec {
    let queue = Queue::new("media").expect("a valid name");
    let kind = JobKind::new("video.generate").expect("a valid name");
    let mut job = JobSpec::new(queue, kind, Payload::new(payload).expect("JSON"));
    job.idempotency_key = key.map(|key| IdempotencyKey::new(key).expect("a valid key"));
    job
}

pub(super) async fn equal_requests_in_one_batch_have_one_effect(world: World) {
    world.budget("room", &[limit(100, "lifetime")]).await;
    let request = keyed(post("room", 30), "once");
    let answers = world.batch(vec![request.clone(), request.clone(), keyed(post("room", 31), "once")]).await;
    let first = answers[0].as_ref().expect("done");
    let second = answers[1].as_ref().expect("done");
    assert_eq!((first.replayed, second.replayed), (false, true));
    assert_eq!((first.command, &first.answer), (second.command, &second.answer));
    assert!(matches!(answers[2], Err(Refusal::KeyReused { .. })));
    assert_eq!(world.balance("room", "lifetime").await, (30, 0));
    world.assert_verified().await;
}

pub(super) async fn repeated_key_returns_the_first_answer(world: World) {
    world.budget("room", &[limit(100, "lifetime")]).await;
    let request = keyed(
        Op::Submit(Command {
            charges: vec![Charge::new(scope("room"), 30)],
            settle: Settle::Hold { ttl: None },
            jobs: vec![job(None, "{\"n\":1}")],
            ..Command::default()
        }),
        "once",
    );
    let first = world.request(request.clone()).await.expect("done");
    world.apply(post("room", 50)).await;
    world.clock.advance(secs(3_600));
    let again = world.request(request).await.expect("done before");
    assert!(again.replayed);
    assert_eq!((first.command, &first.answer), (again.command, &again.answer), "the remaining units are those of then");
    let placed = submitted(first).hold.expect("a hold").id;
    let settle = keyed(Op::Release { hold: placed }, "settle");
    world.clock.turn_back(secs(3_600));
    let settled = world.request(settle.clone()).await;
    assert_eq!(
        world.request(settle).await.map(|o| o.answer),
        settled.map(|o| o.answer),
        "a settlement is replayed too"
    );
    world.assert_verified().await;
}

pub(super) async fn refused_request_can_be_retried_with_its_key(world: World) {
    world.budget("room", &[limit(10, "lifetime")]).await;
    let request = keyed(post("room", 30), "later");
    assert_eq!(available(world.request(request.clone()).await), 10);
    world.budget("room", &[limit(50, "lifetime")]).await;
    assert!(!world.request(request.clone()).await.expect("done now").replayed);
    assert!(world.request(request).await.expect("done before").replayed);
}

pub(super) async fn expired_key_can_be_reused(world: World) {
    world.budget("room", &[limit(100, "lifetime")]).await;
    world.request(keyed(post("room", 10), "k")).await.expect("done");
    world.clock.advance(Span::from_days(7));
    assert!(!world.request(keyed(post("room", 20), "k")).await.expect("the key is free").replayed);
    assert_eq!(world.store.forget_keys(10).await.expect("works"), 0, "it is in use again");
    world.clock.advance(Span::from_days(7));
    assert_eq!(world.store.forget_keys(10).await.expect("works"), 1);
    assert_eq!(world.balance("room", "lifetime").await, (30, 0));
}

pub(super) async fn existing_owner_job_is_not_charged_again(world: World) {
    world.budget("room", &[limit(100, "lifetime")]).await;
    let op = Op::Submit(Command {
        charges: vec![Charge::new(scope("room"), 30)],
        settle: Settle::Job,
        jobs: vec![job(Some("gen-7"), "{}")],
        ..Command::default()
    });
    let first = submitted(world.apply(op.clone()).await);
    let again = submitted(world.apply(op).await);
    let (placed, found) = (first.hold.expect("a hold"), again.hold.expect("the first hold"));
    assert_eq!((first.jobs[0].created, again.jobs[0].created), (true, false));
    assert_eq!((first.jobs[0].id, placed.id), (again.jobs[0].id, found.id));
    assert_eq!(world.balance("room", "lifetime").await, (0, 30));
    world.clock.advance(Span::from_days(60));
    assert_eq!(world.balance("room", "lifetime").await, (0, 30), "the hold lasts as long as its job");
    assert!(matches!(world.commit(placed.id, 30).await, Err(Refusal::OwnedByJob { .. })));
    let stored = world.store.job(&Tenant::built_in(), first.jobs[0].id).await.expect("works").expect("it exists");
    assert_eq!(stored.hold, Some(placed.id));
    world.assert_verified().await;
}

pub(super) async fn job_key_is_unique_in_its_queue(world: World) {
    let both = Op::Submit(Command {
        jobs: vec![job(Some("a"), "1"), job(Some("a"), "2"), job(None, "3")],
        ..Command::default()
    });
    let first = submitted(world.apply(both.clone()).await).jobs;
    assert_eq!(first.iter().map(|job| job.created).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(first[0].id, first[1].id);
    let second = submitted(world.apply(both).await).jobs;
    assert_eq!(second.iter().map(|job| job.created).collect::<Vec<_>>(), [false, false, true]);
    let stored = world.store.job(&Tenant::built_in(), first[0].id).await.expect("works").expect("it exists");
    assert_eq!(stored.payload.as_str(), "1");
    assert_eq!(world.store.job(&Tenant::built_in(), JobId(7)).await.expect("works"), None);
}

pub(super) async fn dry_run_writes_nothing(world: World) {
    world.budget("room", &[limit(100, "lifetime")]).await;
    let before = world.store.health().await.expect("works").position;
    let dry = |op: Op| Request { dry_run: true, ..Request::from(op) };
    let would = world.request(dry(hold("room", 70, secs(60)))).await.expect("it would be done");
    assert_eq!(submitted(would).hold.expect("a hold").charges[0].balances[0].remaining, 30);
    assert_eq!(available(world.request(dry(hold("room", 170, secs(60)))).await), 100);
    world.request(dry(post_within("fresh", 1, &[limit(1, "day")]))).await.expect("it would be done");
    assert_eq!(world.store.health().await.expect("works").position, before);
    assert_eq!(world.balance("room", "lifetime").await, (0, 0));
    assert!(world.submit(post("fresh", 1)).await.is_err(), "the scope was not created");
}

pub(super) async fn tenants_are_isolated(world: World) {
    let acme = Context::of(Tenant::new("acme").expect("a valid name"));
    world.budget("room", &[limit(100, "lifetime")]).await;
    let placed = world.place(hold("room", 60, secs(60))).await;
    let theirs = |op: Op| Request::from(op).in_context(acme.clone());
    assert!(matches!(world.request(theirs(post("room", 1))).await, Err(Refusal::UnknownScope { .. })));
    assert!(matches!(world.request(theirs(Op::Release { hold: placed })).await, Err(Refusal::UnknownHold { .. })));
    world.request(theirs(post_within("room", 90, &[limit(90, "lifetime")]))).await.expect("their own room");
    assert_eq!(world.balance("room", "lifetime").await, (0, 60));
    assert_eq!(world.store.hold(&acme.tenant, placed).await.expect("works"), None);
    assert_eq!(world.store.holds(&acme.tenant, &[placed]).await.expect("works"), []);
    let key = IdempotencyKey::new("same").expect("a valid key");
    world.request(theirs(post_within("x", 1, &[limit(9, "day")])).with_key(key.clone())).await.expect("done");
    let ours = world.request(Request::from(post_within("x", 2, &[limit(9, "day")])).with_key(key)).await;
    assert!(!ours.expect("another tenant's key is another key").replayed);
    let listed = world.store.list_scopes(&acme.tenant, "", None, 10).await.expect("works");
    assert_eq!(listed.len(), 2);
    world.assert_verified().await;
}

pub(super) async fn names_and_payloads_are_stored_unchanged(world: World) {
    let odd = ["a'b\"c;--", "комната 🪑", "%_\\", " lead", &"x".repeat(255)];
    for name in odd {
        world.budget(name, &[limit(10, "lifetime")]).await;
        world.apply(post(name, 1)).await;
        assert_eq!(world.balance(name, "lifetime").await, (1, 0), "{name:?}");
    }
    let payload = r#"{"nul":"\u0000","big":123456789012345678901234567890.5e-3,"dup":1,"dup":2,"s":"é\n"}"#;
    let made =
        submitted(world.apply(Op::Submit(Command { jobs: vec![job(None, payload)], ..Command::default() })).await);
    let stored = world.store.job(&Tenant::built_in(), made.jobs[0].id).await.expect("works").expect("it exists");
    assert_eq!(stored.payload.as_str(), payload);
    let reason = "because of \u{0} and \"quotes\"";
    let request = Request::from(post(odd[0], 1)).in_context(Context::default().because(reason));
    world.request(request).await.expect("done");
    let journal = world.store.list_journal(0, 1_000).await.expect("works");
    let last = journal.last().expect("the journal has rows").batch.entries[0].context.reason.clone();
    assert_eq!(last.as_deref(), Some(reason));
    world.store.rebuild().await.expect("works");
    let rebuilt = world.store.job(&Tenant::built_in(), made.jobs[0].id).await.expect("works").expect("it exists");
    assert_eq!(rebuilt.payload.as_str(), payload);
}

pub(super) async fn live_holds_are_listed_in_pages(world: World) {
    world.budget("room", &[limit(100, "lifetime")]).await;
    let key = (Tenant::built_in(), scope("room"));
    let mut placed = Vec::new();
    // Three holds expire at the same time; later ones expire earlier.
    for round in 0..12 {
        let ops = (0..3).map(|_| Request::from(hold("room", 1, secs(60 - round)))).collect();
        for outcome in world.batch(ops).await {
            placed.push(submitted(outcome.expect("there is room")).hold.expect("a hold"));
        }
    }
    placed.sort_by_key(|placed| (placed.expires_at, placed.id));
    for limit in [1, 5, 36, 100] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = world.store.list_live_holds(&key, after, limit).await.expect("works");
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = Some((last.expires_at, last.id));
            seen.extend(page.into_iter().map(|hold| hold.id));
        }
        assert_eq!(seen, placed.iter().map(|placed| placed.id).collect::<Vec<_>>(), "{limit} at once");
    }
}

pub(super) async fn scopes_are_listed_in_pages(world: World) {
    for place in 0..25 {
        world.budget(&format!("room:{place:02}"), &[limit(10, "lifetime")]).await;
    }
    world.budget("zoo", &[limit(10, "lifetime")]).await;
    let tenant = Tenant::built_in();
    let mut seen = Vec::new();
    let mut after: Option<Scope> = None;
    loop {
        let page = world.store.list_scopes(&tenant, "room:", after.as_ref(), 10).await.expect("works");
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
        seen.extend(page.into_iter().map(|(scope, _)| scope.to_string()));
    }
    assert_eq!(seen, (0..25).map(|place| format!("room:{place:02}")).collect::<Vec<_>>());
    let first = world.store.list_scope_keys(None, 20).await.expect("works");
    let rest = world.store.list_scope_keys(first.last(), 20).await.expect("works");
    assert_eq!((first.len(), rest.len()), (20, 6));
}
