//! The units held for jobs, by queue, kind and unit.

use bursar_core::budget::Budget;
use bursar_core::context::Context;
use bursar_core::id::HoldId;
use bursar_core::job::{JobState, Usage};
use bursar_core::name::Tenant;
use bursar_core::request::{Act, Op, Request};

use super::work::{complete, fail, kind, owning, queue, spent, work};
use super::world::{World, limit, loose, scope, secs};

pub(super) async fn held_units_are_listed_by_queue_kind_and_unit(world: World) {
    for (name, unit) in [("a", "cent"), ("b", "token"), ("c", "")] {
        world.unit(name, unit).await;
    }
    world.enqueue(vec![work("q", "x")]).await;
    assert_eq!(world.held().await, [""; 0], "the job has no hold");
    let both = world.enqueue_one(owning(work("q", "x"), &[("a", 10), ("b", 3)])).await;
    let one = world.enqueue_one(owning(work("q", "x"), &[("a", 5), ("c", 0)])).await;
    world.enqueue_one(owning(work("q", "y"), &[("a", 7)])).await;
    world.enqueue_one(owning(work("r", "x"), &[("c", 2)])).await;
    let all = ["q x cent 15", "q x token 3", "q y cent 7", "r x  2"];
    assert_eq!(world.held().await, all);

    let tenant = Tenant::built_in();
    let first = world.store.list_held(&tenant, None, None, 2).await.expect("works");
    assert_eq!(to_lines(&first), all[..2], "in pages");
    let mark = (queue("q"), kind("x"), "token".to_owned());
    assert_eq!(to_lines(&world.store.list_held(&tenant, None, Some(&mark), 9).await.expect("works")), all[2..]);
    assert_eq!(to_lines(&world.store.list_held(&tenant, Some(&queue("r")), None, 9).await.expect("works")), all[3..]);
    assert_eq!(
        to_lines(&world.store.list_held(&tenant, Some(&queue("q")), Some(&mark), 9).await.expect("works")),
        all[2..3]
    );

    // A hold keeps the unit that its budget had when it was placed, also if that had no name.
    world.unit("c", "euro").await;
    world.enqueue_one(owning(work("r", "x"), &[("c", 1)])).await;
    assert_eq!(world.held().await, ["q x cent 15", "q x token 3", "q y cent 7", "r x  2", "r x euro 1"]);
    assert_eq!(world.act(Act::Move { queue: queue("r") }, &[both]).await[0].as_ref().map(|done| done.job), Ok(both));
    assert_eq!(world.held().await, ["q x cent 5", "q y cent 7", "r x  2", "r x cent 10", "r x euro 1", "r x token 3"]);
    world.act(Act::Cancel, &[one]).await;
    for job in world.lease("r", 9).await {
        let usage = if job.id == both { Some(vec![Usage { scope: Some(scope("a")), amount: 30 }]) } else { None };
        world.finish(job.id, 1, complete(usage)).await.expect("the lease is current");
    }
    assert_eq!(world.held().await, ["q y cent 7"]);

    let acme = Context::of(Tenant::new("acme").expect("a valid name"));
    for op in [Op::Define { scope: scope("a"), budget: in_unit("dime", 9) }, owning(work("q", "y"), &[("a", 4)])] {
        world.request(Request::from(op).in_context(acme.clone())).await.expect("the request succeeds");
    }
    assert_eq!(to_lines(&world.store.list_held(&acme.tenant, None, None, 9).await.expect("works")), ["q y dime 4"]);
    assert_eq!(world.held().await, ["q y cent 7"]);
}

pub(super) async fn held_units_follow_the_attempts_of_a_job(world: World) {
    world.unit("room", "cent").await;
    let id = world.enqueue_one(owning(work("q", "x"), &[("room", 60)])).await;
    world.lease("q", 1).await;
    assert_eq!(world.held().await, ["q x cent 60"], "the hold stays while the job runs");
    world.finish(id, 1, fail(None)).await.expect("the lease is current");
    assert_eq!(world.held().await, ["q x cent 60"], "the hold stays until the retry");
    world.clock.advance(secs(10));
    world.lease("q", 1).await;
    world.finish(id, 2, fail(spent(20))).await.expect("the lease is current");
    assert_eq!(world.held().await, ["q x cent 60"], "the next attempt has the same amount");
    world.clock.advance(secs(10));
    world.lease("q", 1).await;
    let parked = world.finish(id, 3, fail(spent(30))).await.expect("the lease is current");
    assert_eq!(parked.state, JobState::AwaitingBudget);
    assert_eq!(world.held().await, [""; 0], "a job that awaits its budget holds nothing");
    world.define("room", in_unit("cent", 200)).await;
    world.act(Act::Resume, &[id]).await;
    assert_eq!(world.held().await, ["q x cent 60"]);
    world.lease("q", 1).await;
    world.clock.advance(secs(31));
    world.rescue().await;
    assert_eq!(world.held().await, ["q x cent 60"], "an expired lease keeps the hold");
    world.clock.advance(secs(10));
    world.lease("q", 1).await;
    world.finish(id, 5, fail(spent(1))).await.expect("the lease is current");
    assert_eq!((world.job_state(id).await, world.held().await), (JobState::Dead, Vec::new()));
    world.act(Act::Retry, &[id]).await;
    assert_eq!(world.held().await, ["q x cent 60"], "the retried job has a hold");
    world.act(Act::Cancel, &[id]).await;
    assert_eq!(world.held().await, [""; 0]);
}

pub(super) async fn holds_are_found_by_their_ids(world: World) {
    for name in ["a", "b"] {
        world.budget(name, &[limit(10_000, "lifetime")]).await;
    }
    let mut ids = Vec::new();
    for amount in 1..=60 {
        let job = world.enqueue_one(owning(work("q", "x"), &[("a", amount), ("b", 2)])).await;
        ids.push(
            world
                .store
                .job(&Tenant::built_in(), job)
                .await
                .expect("works")
                .expect("it exists")
                .hold
                .expect("it has a hold"),
        );
    }
    let missing = HoldId(7);
    let asked: Vec<HoldId> = ids.iter().rev().copied().chain([missing]).collect();
    let found = world.store.holds(&Tenant::built_in(), &asked).await.expect("works");
    let charges: Vec<_> = found.iter().map(|hold| (hold.id, hold.charges[0].amount, hold.charges[1].amount)).collect();
    let expected: Vec<_> = ids.iter().rev().copied().zip((1..=60).rev()).map(|(id, amount)| (id, amount, 2)).collect();
    assert_eq!(charges, expected, "in the order of the ids, without the one that does not exist");
    assert_eq!(world.store.holds(&Tenant::built_in(), &[]).await.expect("works"), []);
}

pub(super) async fn held_units_may_exceed_64_bits(world: World) {
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        world.budget(name, &[limit(i64::MAX, "lifetime")]).await;
        ids.push(world.enqueue_one(owning(work("q", "x"), &[(name, i64::MAX)])).await);
    }
    assert_eq!(world.held().await, [format!("q x  {}", i64::MAX)], "cut to 64 bits");
    world.act(Act::Cancel, &ids[1..]).await;
    assert_eq!(world.held().await, [format!("q x  {}", i64::MAX)]);
    world.lease("q", 1).await;
    world.finish(ids[0], 1, complete(spent(0))).await.expect("the lease is current");
    assert_eq!(world.held().await, [""; 0]);
}

fn in_unit(unit: &str, amount: i64) -> Budget {
    Budget { unit: unit.into(), ..loose(&[limit(amount, "lifetime")]) }
}

fn to_lines(held: &[crate::HeldSum]) -> Vec<String> {
    held.iter().map(|held| format!("{} {} {} {}", held.queue, held.kind, held.unit, held.amount)).collect()
}

impl World {
    async fn unit(&self, name: &str, unit: &str) {
        self.define(name, in_unit(unit, 100)).await;
    }

    /// Returns the held units, after checking them by a verification and a rebuild.
    async fn held(&self) -> Vec<String> {
        self.assert_verified().await;
        let before = self.store.list_held(&Tenant::built_in(), None, None, 100).await.expect("works");
        self.store.rebuild().await.expect("works");
        self.assert_verified().await;
        assert_eq!(self.store.list_held(&Tenant::built_in(), None, None, 100).await.expect("works"), before);
        to_lines(&before)
    }
}
