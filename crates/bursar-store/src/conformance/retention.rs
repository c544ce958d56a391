//! Retention: what is deleted after its time, and what is kept because something needs it.

use bursar_core::blob::NamespaceConfig;
use bursar_core::event::Stream;
use bursar_core::grant::GrantFault;
use bursar_core::id::{GrantId, HoldId};
use bursar_core::job::{JobSpec, QueueConfig, Retention};
use bursar_core::name::{IdempotencyKey, Tenant};
use bursar_core::refusal::Refusal;
use bursar_core::request::{Act, BlobOp, Op, Request};
use bursar_core::time::Span;

use super::grants::{fault, mint, redeem};
use super::work::{complete, owning, work};
use super::world::{World, hold, limit, post_within, scope, secs};
use crate::store::Overdue;

const DAY: Span = Span::from_days(1);

impl World {
    async fn forget_holds(&self) -> usize {
        let (mut after, mut count) = (None, 0);
        loop {
            // Pages of two rows, so that the test covers the steps.
            let step = self.store.forget_holds(after, 2).await.expect("works");
            count += step.count;
            after = step.last;
            if after.is_none() {
                break;
            }
        }
        self.assert_verified().await;
        count
    }

    async fn forget_scopes(&self) -> usize {
        let forgotten = self.store.forget_scopes(None, 100).await.expect("works").count;
        self.assert_verified().await;
        forgotten
    }

    async fn has_hold(&self, hold: HoldId) -> bool {
        self.store.hold(&Tenant::built_in(), hold).await.expect("works").is_some()
    }
}

pub(super) async fn ended_holds_are_deleted_after_their_retention(world: World) {
    world.budget("a", &[limit(1_000, "lifetime")]).await;
    let long = || hold("a", 10, Span::from_days(30));
    let (committed, released, live) = (world.place(long()).await, world.place(long()).await, world.place(long()).await);
    let (expired, late) = (world.place(hold("a", 10, secs(60))).await, world.place(hold("a", 10, secs(60))).await);
    world.commit(committed, 7).await.expect("it is live");
    world.settle(Op::Release { hold: released }).await.expect("it is live");
    world.clock.advance(secs(61));
    assert_eq!(world.sweep().await, 2);
    world.clock.advance(DAY);
    world.commit(late, 4).await.expect("late commits are charged");
    assert_eq!(world.balance("a", "lifetime").await, (11, 10));
    world.clock.advance(Span::from_days(88));
    assert_eq!(world.forget_holds().await, 0, "they ended 89 days ago");
    world.clock.advance(DAY);
    assert_eq!(world.forget_holds().await, 3, "committed, released and expired");
    assert!(world.has_hold(late).await, "it ended a day later");
    assert!(world.has_hold(live).await, "it is not recorded as expired");
    for hold in [committed, released, expired] {
        assert_eq!(world.commit(hold, 1).await, Err(Refusal::UnknownHold { hold }));
        let credit = Op::Credit { scope: scope("a"), amount: 1, hold: Some(hold) };
        assert!(matches!(world.submit(credit).await, Err(Refusal::UnknownHold { .. })));
    }
    world.clock.advance(DAY);
    assert_eq!(world.forget_holds().await, 1);
    assert_eq!(world.balance("a", "lifetime").await.0, 11, "what was spent stays");
    world.store.rebuild().await.expect("works");
    assert!(world.has_hold(committed).await, "the journal has it");
    assert_eq!(world.forget_holds().await, 4, "and it is deleted again");
    assert_eq!(world.sweep().await, 1);
    world.clock.advance(Span::from_days(90));
    assert_eq!(world.forget_holds().await, 1);
}

pub(super) async fn the_hold_of_a_job_is_kept_as_long_as_the_job(world: World) {
    world.budget("a", &[limit(1_000, "lifetime")]).await;
    let retention = Retention { dead: Some(Span::from_days(200)), ..Retention::default() };
    world.set_queue("q", QueueConfig { retention, ..QueueConfig::default() }).await;
    let spec = || JobSpec { max_attempts: Some(1), ..work("q", "x") };
    let job = world.enqueue_one(owning(spec(), &[("a", 10)])).await;
    world.fail("q", job, "timeout", "after 30 s").await;
    let first = world.job(job).await.hold.expect("it has a hold");
    world.clock.advance(Span::from_days(150));
    assert_eq!(world.forget_holds().await, 0, "the dead job can be retried");
    world.act(Act::Retry, &[job]).await;
    assert_eq!(world.balance("a", "lifetime").await, (0, 10), "and it is paid for as before");
    world.lease("q", 1).await;
    world.finish(job, 2, complete(None)).await.expect("the lease is current");
    assert_eq!(world.balance("a", "lifetime").await, (10, 0));
    world.clock.advance(Span::from_days(91));
    assert_eq!(world.forget_holds().await, 0, "the job is still there");
    let due: Vec<_> = world.store.due_jobs(9).await.expect("works").ended.into_iter().map(|(_, job)| job).collect();
    assert_eq!(due, [job]);
    world.act(Act::Forget, &due).await;
    assert_eq!(world.forget_holds().await, 2, "both holds go after the job");
    assert!(!world.has_hold(first).await);
}

pub(super) async fn the_hold_of_a_blob_is_kept_until_it_is_collected(world: World) {
    world.budget("disk", &[limit(100, "lifetime")]).await;
    world.rules("media", NamespaceConfig { charge: Some(scope("disk")), ..NamespaceConfig::default() }).await;
    let blob = world.upload("media", 30, 1).await.blob;
    assert_eq!(world.balance("disk", "lifetime").await, (30, 0));
    world.clock.advance(Span::from_days(400));
    assert_eq!(world.forget_holds().await, 0, "the blob is there");
    world.change(BlobOp::Delete { blob }).await.expect("it is live");
    world.clock.advance(NamespaceConfig::default().grace);
    world.collect().await;
    assert_eq!(world.balance("disk", "lifetime").await, (0, 0), "its collection gives the bytes back");
    assert_eq!(world.forget_holds().await, 1);
}

pub(super) async fn expired_grants_are_deleted_after_their_retention(world: World) {
    let (open, op) = mint(1, &format!("\"{}\"", "x".repeat(5_000)));
    world.apply(op).await;
    let (used, op) = mint(2, "null");
    world.apply(op).await;
    world.apply(redeem("upload", "session-7", &used)).await;
    let forget = async || {
        let first = world.store.forget_grants(None, 1).await.expect("works");
        first.count + world.store.forget_grants(first.last, 9).await.expect("works").count
    };
    world.clock.advance(Span::from_days(30));
    assert_eq!(forget().await, 0, "they expired a minute after they were minted");
    assert_eq!(fault(world.submit(redeem("upload", "session-7", &used)).await), GrantFault::Redeemed);
    world.clock.advance(secs(61));
    assert_eq!(forget().await, 2);
    let left = world.store.erase_payloads(&[Stream::Grant(GrantId(1))], &[]).await.expect("works");
    assert!(!left, "the payload is deleted too");
    assert_eq!(world.store.grant(&Tenant::built_in(), GrantId(2)).await.expect("works"), None);
    assert_eq!(fault(world.submit(redeem("upload", "session-7", &open)).await), GrantFault::Unknown);
    assert_eq!(fault(world.submit(redeem("upload", "session-7", &used)).await), GrantFault::Unknown);
    world.assert_verified().await;
}

pub(super) async fn costs_are_deleted_after_their_retention(world: World) {
    world.budget("a", &[limit(1_000, "lifetime")]).await;
    let cost = async || {
        let job = world.enqueue_one(owning(work("q", "x"), &[("a", 5)])).await;
        world.lease("q", 1).await;
        world.finish(job, 1, complete(None)).await.expect("the lease is current");
    };
    let tenant = Tenant::built_in();
    let costs = async || world.store.list_costs(&tenant, 0..=i64::MAX / 2, None, 9).await.expect("works").len();
    cost().await;
    world.clock.advance(Span::from_days(10));
    cost().await;
    let first = world.store.forget_costs(None, 9).await.expect("works");
    assert_eq!((first.count, first.last.as_ref()), (0, Some(&tenant)));
    assert_eq!(world.store.forget_costs(first.last.as_ref(), 9).await.expect("works").last, None, "no other tenant");
    world.clock.advance(Span::from_days(392));
    assert_eq!((world.store.forget_costs(None, 9).await.expect("works").count, costs().await), (1, 1));
    assert_eq!(world.balance("a", "lifetime").await, (10, 0));
    world.assert_verified().await;
}

pub(super) async fn scopes_without_events_are_deleted(world: World) {
    world.budget("team", &[limit(100, "lifetime")]).await;
    let key = |name: &str| (Tenant::built_in(), scope(name));
    // A refused request may leave a row that was created to be locked.
    world.submit(post_within("tried", 5, &[limit(3, "lifetime")])).await.expect_err("it is above the limit");
    world.forget_scopes().await;
    assert_eq!(world.store.scope(&key("tried")).await.expect("works"), None);
    world.clock.advance(Span::from_days(1_000));
    assert_eq!(world.forget_scopes().await, 0);
    assert!(world.store.scope(&key("team")).await.expect("works").is_some(), "its events are numbered");
    world.apply(post_within("tried", 3, &[limit(3, "lifetime")])).await;
    assert_eq!(world.balance("tried", "lifetime").await, (3, 0), "its name can be used");
    world.store.rebuild().await.expect("works");
    world.assert_verified().await;
}

pub(super) async fn overdue_rows_are_counted(world: World) {
    world.budget("a", &[limit(1_000, "lifetime")]).await;
    let released = world.place(hold("a", 10, secs(60))).await;
    world.settle(Op::Release { hold: released }).await.expect("it is live");
    world.place(hold("a", 10, Span::from_days(3_000))).await;
    world.apply(mint(1, "null").1).await;
    let key = IdempotencyKey::new("once").expect("a valid key");
    let keyed = Request { idempotency_key: Some(key), ..Request::from(post_within("b", 1, &[limit(9, "day")])) };
    world.request(keyed).await.expect("it posts");
    let job = world.enqueue_one(owning(work("q", "x"), &[("a", 10)])).await;
    world.lease("q", 1).await;
    world.finish(job, 1, complete(None)).await.expect("the lease is current");
    let overdue = async |by: Span| {
        let Overdue { keys, holds, grants, jobs } = world.store.overdue(by, 100).await.expect("works");
        (keys, holds, grants, jobs)
    };
    world.clock.advance(Span::from_days(200));
    assert_eq!(overdue(Span::ZERO).await, (1, 1, 1, 1), "the hold of the job is kept with the job");
    assert_eq!(overdue(Span::from_days(150)).await, (1, 0, 1, 1), "holds are kept for 90 days");
    assert_eq!(overdue(Span::from_days(200)).await, (0, 0, 0, 0));
    world.act(Act::Forget, &[job]).await;
    assert_eq!(overdue(Span::ZERO).await, (1, 1, 1, 0), "its hold can be deleted only since it is gone");
    world.forget_holds().await;
    world.store.forget_keys(9).await.expect("works");
    world.store.forget_grants(None, 9).await.expect("works");
    assert_eq!(overdue(Span::ZERO).await, (0, 0, 0, 0), "only the live hold is left");
}
