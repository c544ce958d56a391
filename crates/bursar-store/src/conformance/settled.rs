//! Settlement of the holds of jobs.

use bursar_core::hold::HoldState;
use bursar_core::job::{JobState, Usage};
use bursar_core::name::Tenant;
use bursar_core::request::Act;
use bursar_core::time::Span;

use super::work::{complete, fail, is_lost, keyed, owning, spent, work};
use super::world::{World, limit, scope, secs};
use crate::CostMark;

pub(super) async fn success_settles_the_hold_in_the_same_transaction(world: World) {
    world.budget("room", &[limit(100, "lifetime"), limit(100, "hour")]).await;
    world.budget("other", &[limit(10, "lifetime")]).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(world.enqueue_one(owning(work("q", "work"), &[("room", 20)])).await);
    }
    assert_eq!(world.lease("q", 9).await.len(), 4);
    let beside = vec![Usage { scope: Some(scope("other")), amount: 15 }, Usage { scope: None, amount: 25 }];
    let usages = [None, Some(Vec::new()), spent(7), Some(beside)];
    let costs = [20, 0, 7, 40];
    for ((id, usage), cost) in ids.iter().zip(usages).zip(costs) {
        let position = world.position().await;
        let done = world.finish(*id, 1, complete(usage)).await.expect("the lease is current");
        assert_eq!((done.state, done.total_cost()), (JobState::Succeeded, cost));
        let row = world.store.list_journal(position, 10).await.expect("works");
        assert_eq!(row.len(), 1, "one transaction");
        assert_eq!(world.hold_state(world.job(*id).await.hold.expect("a hold")).await, HoldState::Committed);
    }
    assert_eq!(world.balance("room", "lifetime").await, (52, 0));
    assert_eq!(world.balance("other", "lifetime").await, (15, 0));
    world.assert_verified().await;
}

pub(super) async fn job_awaiting_budget_is_found_by_scope_and_time(world: World) {
    world.budget("room", &[limit(100, "lifetime")]).await;
    let key = (Tenant::built_in(), scope("room"));
    let id = world.enqueue_one(owning(keyed("q", "customer"), &[("room", 60)])).await;
    world.lease("q", 1).await;
    let parked = world.finish(id, 1, fail(spent(50))).await.expect("the lease is current");
    assert_eq!((parked.state, parked.total_cost()), (JobState::AwaitingBudget, 50));
    assert_eq!(world.state("room").await.awaited, 1);
    assert_eq!(world.store.jobs_awaiting(&key, 10).await.expect("works"), [id]);
    assert_eq!(world.store.due_jobs(10).await.expect("works").awaiting, []);
    let awaited = async || world.store.scopes_awaited(10).await.expect("works");
    assert_eq!(awaited().await, [(key.clone(), world.state("room").await.version)]);
    assert!(world.lease("q", 1).await.is_empty());
    world.assert_verified().await;
    world.clock.advance(secs(60));
    assert_eq!(world.store.due_jobs(10).await.expect("works").awaiting, [(Tenant::built_in(), id)]);
    world.act(Act::Resume, &[id]).await;
    assert_eq!(world.store.due_jobs(10).await.expect("works").awaiting, [], "the next attempt is due later");
    world.store.rebuild().await.expect("works");
    world.assert_verified().await;
    let before = awaited().await;
    world.budget("room", &[limit(200, "lifetime")]).await;
    assert_ne!(awaited().await, before, "the version changes when units are freed");
    assert_eq!(world.act(Act::Resume, &[id]).await[0].as_ref().expect("it exists").state, JobState::Queued);
    assert_eq!(world.store.jobs_awaiting(&key, 10).await.expect("works"), []);
    assert_eq!(world.state("room").await.awaited, 0);
    assert_eq!(awaited().await, []);
    assert_eq!(world.balance("room", "lifetime").await, (50, 60));
    assert_eq!(world.lease("q", 1).await[0].life.attempts, 2);
    world.finish(id, 2, complete(spent(10))).await.expect("the lease is current");
    assert_eq!(world.balance("room", "lifetime").await, (60, 0));
    world.assert_verified().await;
}

pub(super) async fn awaited_scopes_are_listed_once_each(world: World) {
    let rooms = ["a", "b", "c"];
    for room in rooms {
        world.budget(room, &[limit(10, "lifetime")]).await;
        for _ in 0..3 {
            world.enqueue_one(owning(work("q", "work"), &[(room, 3)])).await;
        }
        for job in world.lease("q", 3).await {
            // The job spends the whole budget.
            world.finish(job.id, 1, fail(spent(10))).await.expect("the lease is current");
        }
    }
    let found = async |limit| {
        let found = world.store.scopes_awaited(limit).await.expect("works").into_iter();
        found.map(|((_, scope), _)| scope.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found(10).await, rooms);
    assert_eq!(found(2).await, rooms[..2]);
    world.assert_verified().await;
}

pub(super) async fn spend_of_a_lost_lease_is_charged_once(world: World) {
    world.budget("room", &[limit(100, "lifetime")]).await;
    let id = world.enqueue_one(owning(work("q", "work"), &[("room", 30)])).await;
    world.lease("q", 1).await;
    world.clock.advance(secs(30));
    world.rescue().await;
    world.clock.advance(secs(10));
    world.lease("q", 1).await;
    for _ in 0..3 {
        assert!(is_lost(&world.finish(id, 1, complete(spent(20))).await, true));
        assert_eq!(world.balance("room", "lifetime").await, (20, 30));
    }
    assert_eq!(world.job_state(id).await, JobState::Leased);
    world.store.rebuild().await.expect("works");
    assert!(is_lost(&world.finish(id, 1, complete(spent(20))).await, true), "also after a rebuild");
    assert_eq!(world.finish(id, 2, fail(spent(5))).await.expect("the lease is current").total_cost(), 25);
    world.clock.advance(secs(10));
    world.lease("q", 1).await;
    assert!(is_lost(&world.finish(id, 2, fail(spent(5))).await, false), "its usage was charged with the failure");
    world.finish(id, 3, complete(spent(1))).await.expect("the lease is current");
    assert_eq!(world.balance("room", "lifetime").await, (26, 0));
    assert!(is_lost(&world.finish(id, 1, complete(spent(20))).await, true), "also when the job has ended");
    assert_eq!(world.balance("room", "lifetime").await, (26, 0));
    let lost = world.events().await.iter().filter(|event| event.kind() == "job.billed").count();
    assert_eq!(lost, 1);
    world.assert_verified().await;
}

pub(super) async fn costs_are_listed_by_day_queue_kind_and_scope(world: World) {
    world.budget("a", &[limit(1_000, "lifetime")]).await;
    world.budget("b", &[limit(1_000, "lifetime")]).await;
    let day = world.now().micros().div_euclid(86_400_000_000);
    for (queue, kind, amount) in [("q", "x", 5), ("q", "x", 6), ("q", "y", 7), ("r", "x", 8)] {
        let id = world.enqueue_one(owning(work(queue, kind), &[("a", 10), ("b", 1)])).await;
        world.lease(queue, 1).await;
        let usage = vec![Usage { scope: Some(scope("a")), amount }];
        world.finish(id, 1, complete(Some(usage))).await.expect("the lease is current");
    }
    world.clock.advance(Span::from_days(1));
    let id = world.enqueue_one(owning(work("q", "x"), &[("b", 3)])).await;
    world.lease("q", 1).await;
    world.finish(id, 1, complete(None)).await.expect("the lease is current");
    let list = async |from: i64, to: i64| {
        let (mut mark, mut lines): (Option<CostMark>, _) = (None, Vec::new());
        // Pages of one item, so that the test covers the marks.
        loop {
            let days = day + from..=day + to;
            let costs = world.store.list_costs(&Tenant::built_in(), days, mark.as_ref(), 1).await.expect("works");
            let [c] = costs.as_slice() else { break };
            lines.push(format!("{} {} {} {} {}", c.day - day, c.queue, c.kind, c.scope, c.amount));
            mark = Some((c.day, c.queue.clone(), c.kind.clone(), c.scope.clone()));
        }
        lines
    };
    for _ in 0..2 {
        assert_eq!(list(0, 0).await, ["0 q x a 11", "0 q y a 7", "0 r x a 8"]);
        assert_eq!(list(1, 9).await, ["1 q x b 3"]);
        assert_eq!(list(-9, 9).await, ["0 q x a 11", "0 q y a 7", "0 r x a 8", "1 q x b 3"]);
        assert_eq!(list(2, 9).await, Vec::<String>::new());
        world.store.rebuild().await.expect("works");
    }
}
