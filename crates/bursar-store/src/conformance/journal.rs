//! The journal: positions, history, rebuild, payloads.

use bursar_core::context::Context;
use bursar_core::event::Stream;
use bursar_core::id::{GrantId, HoldId, JobId};
use bursar_core::name::Tenant;
use bursar_core::request::{Command, Op, Request};

use super::commands::job;
use super::mixed::mixed_stream;
use super::world::{World, hold, limit, loose, post, scope, secs, submitted};

pub(super) async fn positions_have_no_gaps(world: World) {
    world.budget("room", &[limit(1_000, "lifetime")]).await;
    for count in 1..=5 {
        world.batch((0..count).map(|_| post("room", 1).into()).collect()).await;
    }
    let all = world.store.list_journal(0, 100).await.expect("works");
    let mut next = 1;
    for row in &all {
        assert_eq!(row.position, next);
        next += row.batch.count() as u64;
    }
    assert_eq!(next, 17, "16 events");
    assert_eq!(world.store.health().await.expect("works").position, 16);
    // A read from any position, also within the events of a row, misses nothing.
    for after in 0..16 {
        let first = world.store.list_journal(after, 1).await.expect("works").remove(0);
        assert!(
            first.position <= after + 1 && after + 1 < first.position + first.batch.count() as u64,
            "after {after}"
        );
    }
    assert_eq!(world.store.list_journal(16, 10).await.expect("works"), []);
    assert_eq!(world.store.list_journal(u64::MAX - 1, 10).await.expect("works"), []);
    let again = world.store.batch(all[2].batch.id).await.expect("works").expect("it exists");
    assert_eq!(again, all[2]);
}

pub(super) async fn history_of_a_scope_can_be_followed_backwards(world: World) {
    world.budget("room", &[limit(1_000, "lifetime")]).await;
    world.budget("other", &[limit(1_000, "lifetime")]).await;
    let placed = world.place(hold("room", 5, secs(60))).await;
    for _ in 0..5 {
        world.batch(vec![post("other", 1).into(), post("room", 1).into(), post("room", 1).into()]).await;
    }
    world.commit(placed, 5).await.expect("it commits");
    let stream = Stream::Scope(Tenant::built_in(), scope("room"));
    let (mut next, mut rows) = (world.state("room").await.last, 0);
    while let Some(id) = next {
        let row = world.store.batch(id).await.expect("works").expect("the linked row exists");
        assert!(row.batch.entries.iter().flat_map(|e| &e.events).any(|r| {
            r.e.scopes().contains(&&scope("room")) || r.e.stream(&Tenant::built_in(), row.batch.entries[0].id) == stream
        }));
        rows += 1;
        next = row.batch.prev.get(&stream);
    }
    assert_eq!(rows, 8, "the definition, the hold, five batches, the commit");
    let held = world.store.hold(&Tenant::built_in(), placed).await.expect("works").expect("it exists");
    assert_eq!(held.version, 2);
}

pub(super) async fn rebuild_restores_the_same_rows(world: World) {
    let created = mixed_stream(&world, 300).await;
    let before = snapshot(&world, &created).await;
    let events = world.store.rebuild().await.expect("works");
    assert_eq!(events, world.store.health().await.expect("works").position);
    let after = snapshot(&world, &created).await;
    assert_eq!(before, after);
    world.assert_verified().await;
    // An hour later nothing is held, and nothing spent counts in the window of ten minutes.
    world.clock.advance(secs(3_600));
    world.apply(post("org", 1)).await;
    world.assert_verified().await;
}

/// Returns the rows that a stream created or changed, brought to the present.
pub(super) async fn snapshot(world: &World, created: &super::mixed::Created) -> Vec<String> {
    let mut rows = Vec::new();
    for key in world.store.list_scope_keys(None, 1_000).await.expect("works") {
        let mut state = world.store.scope(&key).await.expect("works").expect("it exists");
        // The marks depend on which requests touched the scope. Everything else must be equal.
        state.seen = world.now();
        state.folded = (world.now(), HoldId(u128::MAX));
        state.next_expiry = world.now();
        state.expiry_postings.clear();
        for balance in &mut state.balances {
            balance.evicted = (world.now(), 0);
            balance.next_eviction = world.now();
        }
        rows.push(format!("{key:?} {state:?}"));
    }
    for id in &created.holds {
        rows.push(format!("{:?}", world.store.hold(&Tenant::built_in(), *id).await.expect("works")));
    }
    for id in &created.grants {
        rows.push(format!("{:?}", world.store.grant(&Tenant::built_in(), GrantId(*id)).await.expect("works")));
    }
    for id in &created.jobs {
        rows.push(format!("{:?}", world.store.job(&Tenant::built_in(), JobId(*id)).await.expect("works")));
    }
    rows
}

pub(super) async fn large_payload_is_stored_outside_the_journal(world: World) {
    let payload = format!("{{\"text\":\"{}\"}}", "x".repeat(100_000));
    let asked = Op::Submit(Command { jobs: vec![job(None, &payload), job(None, "1")], ..Command::default() });
    let made = submitted(world.apply(asked).await).jobs;
    let read =
        async |id: JobId| world.store.job(&Tenant::built_in(), id).await.expect("works").expect("it exists").payload;
    assert_eq!(read(made[0].id).await.as_str(), payload);
    world.store.rebuild().await.expect("works");
    assert_eq!(read(made[0].id).await.as_str(), payload);
    let stored_apart = async |id: JobId| world.store.erase_payloads(&[Stream::Job(id)], &[]).await.expect("works");
    assert!(stored_apart(made[0].id).await);
    assert!(!stored_apart(made[1].id).await, "a small payload is stored in the journal");
    assert_eq!(read(made[1].id).await.as_str(), "1");
}

pub(super) async fn history_links_of_tenants_are_separate(world: World) {
    let request = |tenant: &str, name: &str, op: fn(&str) -> Op| {
        Request::from(op(name)).in_context(Context::of(Tenant::new(tenant).expect("a valid name")))
    };
    let define = |name: &str| Op::Define { scope: scope(name), budget: loose(&[limit(10, "lifetime")]) };
    world.batch(vec![request("a/b", "c", define), request("a", "b/c", define)]).await;
    world.batch(vec![request("a/b", "c", |name| post(name, 1)), request("a", "b/c", |name| post(name, 1))]).await;
    for (tenant, name) in [("a/b", "c"), ("a", "b/c")] {
        let key = (Tenant::new(tenant).expect("a valid name"), scope(name));
        let last = world.store.scope(&key).await.expect("works").expect("it exists").last.expect("it has a history");
        let row = world.store.batch(last).await.expect("works").expect("it exists");
        let before = row.batch.prev.get(&Stream::Scope(key.0, key.1));
        assert!(before.is_some_and(|before| before != last), "{tenant} {name} has its own chain");
    }
    assert_eq!(world.store.list_journal(0, 10).await.expect("works")[1].batch.prev.iter().len(), 2);
}
