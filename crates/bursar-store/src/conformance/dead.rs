//! Dead jobs, grouped by queue, kind and error.

use bursar_core::bounds::{ERROR_BYTES_MAX, PAGE_BYTES_MAX};
use bursar_core::context::Context;
use bursar_core::id::JobId;
use bursar_core::job::{End, Finish, JobError, JobState, QueueConfig, Retention};
use bursar_core::name::Tenant;
use bursar_core::page;
use bursar_core::request::{Act, Op, Request};

use super::work::{enqueue, kind, lease_request, queue, work};
use super::world::{World, secs};
use crate::figures::{DeadGroup, JobFilter};

pub(super) async fn dead_jobs_are_grouped_by_queue_kind_and_error(world: World) {
    assert_eq!(world.groups().await, [""; 0]);
    let first = world.die("q", "x", "timeout", "after 30 s").await;
    assert_eq!(world.groups().await, ["q x timeout (after 30 s) 1"]);
    world.clock.advance(secs(5));
    let second = world.die("q", "x", "timeout", "after 31 s").await;
    world.clock.advance(secs(5));
    let others = [("q", "y", "timeout"), ("r", "x", "timeout"), ("q", "x", "refused")];
    for (queue, kind, error) in others {
        world.die(queue, kind, error, "after 30 s").await;
    }
    let mut all = world.groups().await;
    all.sort();
    assert_eq!(
        all,
        [
            "q x refused (after 30 s) 1",
            "q x timeout (after 31 s) 2",
            "q y timeout (after 30 s) 1",
            "r x timeout (after 30 s) 1"
        ],
        "a group has the error of the job that died last"
    );
    let found = world.store.list_dead_groups(&Tenant::built_in(), None, None, 9).await.expect("works");
    let group = found.iter().find(|group| group.count == 2).expect("a group of two");
    let died = [world.job(first).await.life.run_at, world.job(second).await.life.run_at];
    assert_eq!([group.first_at, group.last_at], died);
    assert!(died[0] < died[1]);
    assert_eq!(group.fingerprint, JobError::new("timeout", "after 1 s").fingerprint());
    let filter = JobFilter {
        queue: Some(group.queue.clone()),
        state: Some(JobState::Dead),
        kind: Some(group.kind.clone()),
        fingerprint: Some(group.fingerprint.clone()),
        ..JobFilter::default()
    };
    let jobs = world.store.list_jobs(&Tenant::built_in(), &filter, None, 9).await.expect("works");
    assert_eq!(
        jobs.iter().map(|job| job.id).collect::<Vec<_>>(),
        [first, second],
        "a filter selects the jobs of a group"
    );
}

pub(super) async fn a_group_shrinks_when_a_job_of_it_leaves(world: World) {
    let retention = Retention { dead: Some(secs(100)), ..Retention::default() };
    world.set_queue("q", QueueConfig { retention, ..QueueConfig::default() }).await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(world.die("q", "x", "timeout", &format!("after {n} s")).await);
        world.clock.advance(secs(1));
    }
    assert_eq!(world.groups().await, ["q x timeout (after 4 s) 5"]);
    world.act(Act::Retry, &[ids[4]]).await;
    assert_eq!(world.groups().await, ["q x timeout (after 3 s) 4"], "a retried job leaves");
    world.act(Act::Discard, &[ids[0]]).await;
    assert_eq!(world.groups().await, ["q x timeout (after 3 s) 3"], "a discarded job leaves");
    let first = world.job(ids[1]).await.life.run_at;
    let found = world.store.list_dead_groups(&Tenant::built_in(), None, None, 9).await.expect("works");
    assert_eq!(found[0].first_at, first, "the first one that is still dead");
    world.act(Act::Move { queue: queue("r") }, &[ids[1]]).await;
    assert_eq!(world.job_state(ids[1]).await, JobState::Queued);
    assert_eq!(world.groups().await, ["q x timeout (after 3 s) 2"], "a moved job leaves");
    world.fail("r", ids[1], "refused", "by r").await;
    assert_eq!(world.groups().await, ["q x timeout (after 3 s) 2", "r x refused (by r) 1"]);
    world.fail("q", ids[4], "refused", "at last").await;
    let mut all = world.groups().await;
    all.sort();
    assert_eq!(all, ["q x refused (at last) 1", "q x timeout (after 3 s) 2", "r x refused (by r) 1"], "other error");

    world.clock.advance(secs(99));
    let due: Vec<JobId> = world.store.due_jobs(9).await.expect("works").ended.into_iter().map(|(_, job)| job).collect();
    assert_eq!(due, ids[2..4]);
    world.act(Act::Forget, &due).await;
    assert_eq!(world.groups().await, ["q x refused (at last) 1", "r x refused (by r) 1"], "forgotten jobs leave");
    world.act(Act::Retry, &[ids[1], ids[4]]).await;
    assert_eq!(world.groups().await, [""; 0]);
    world.fail("q", ids[4], "timeout", "after 9 s").await;
    let found = world.store.list_dead_groups(&Tenant::built_in(), None, None, 9).await.expect("works");
    let died = world.job(ids[4]).await.life.run_at;
    assert_eq!((found[0].count, found[0].first_at, found[0].last_at), (1, died, died), "a group that appears again");
    // Maintenance removes what counters of empty groups leave behind.
    world.store.forget_figures(None, 100).await.expect("works");
    assert_eq!(world.groups().await, ["q x timeout (after 9 s) 1"]);

    // A job that dies and is retried in one transaction.
    world.act(Act::Retry, &[ids[4]]).await;
    let fence = world.lease("q", 1).await[0].life.fence;
    let items = vec![Finish { job: ids[4], fence, end: failure("timeout", "again") }];
    let requests = [Op::Finish { items }, Op::Act { act: Act::Retry, jobs: vec![ids[4]] }].map(Request::from);
    assert!(world.batch(requests.into()).await.iter().all(Result::is_ok));
    assert_eq!((world.job_state(ids[4]).await, world.groups().await), (JobState::Queued, Vec::new()));
}

pub(super) async fn groups_of_dead_jobs_are_listed_in_pages(world: World) {
    for (queue, kind) in [("a", "x"), ("a", "y"), ("b", "x")] {
        for error in ["one", "two"] {
            world.die(queue, kind, error, "").await;
        }
    }
    let acme = Context::of(Tenant::new("acme").expect("a valid name"));
    let requests = [enqueue(vec![work("a", "x")]), Op::Lease(lease_request(&["a"], &[], 1))];
    for op in requests {
        world.request(Request::from(op).in_context(acme.clone())).await.expect("the request succeeds");
    }
    let job = world.store.list_jobs(&acme.tenant, &JobFilter::default(), None, 1).await.expect("works").remove(0);
    let items = vec![Finish { job: job.id, fence: 1, end: failure("one", "") }];
    world.request(Request::from(Op::Finish { items }).in_context(acme.clone())).await.expect("the request succeeds");

    let tenant = Tenant::built_in();
    let all = world.store.list_dead_groups(&tenant, None, None, 9).await.expect("works");
    assert_eq!(all.len(), 6);
    assert!(all.is_sorted_by_key(|group| (group.queue.clone(), group.kind.clone(), group.fingerprint.clone())));
    let mut paged: Vec<DeadGroup> = Vec::new();
    loop {
        let mark = paged.last().map(|last| (last.queue.clone(), last.kind.clone(), last.fingerprint.clone()));
        let page = world.store.list_dead_groups(&tenant, None, mark.as_ref(), 4).await.expect("works");
        let full = page::is_full(&page, 4);
        paged.extend(page);
        if !full {
            break;
        }
    }
    assert_eq!(paged, all);
    let of_b = world.store.list_dead_groups(&tenant, Some(&queue("b")), None, 9).await.expect("works");
    assert_eq!(of_b, all[4..]);
    let mark = (queue("a"), kind("y"), String::new());
    let rest = world.store.list_dead_groups(&tenant, Some(&queue("a")), Some(&mark), 9).await.expect("works");
    assert_eq!(rest, all[2..4]);
    assert_eq!(world.store.list_dead_groups(&acme.tenant, None, None, 9).await.expect("works").len(), 1);

    // A page ends when its bytes are used up.
    let (long, each) = ("e".repeat(ERROR_BYTES_MAX - 4), 2 * ERROR_BYTES_MAX);
    let groups = PAGE_BYTES_MAX / each + 2;
    let ids = world.enqueue(vec![work("long", "x"); groups]).await;
    let leased = world.lease("long", groups as u32).await;
    assert_eq!(leased.len(), ids.len());
    let end = |n: usize| failure(&format!("{long}{n:04}"), &long);
    let ends = leased.iter().enumerate().map(|(n, job)| Finish { job: job.id, fence: 1, end: end(n) });
    assert!(world.finish_all(ends.collect()).await.iter().all(Result::is_ok));
    let page = world.store.list_dead_groups(&tenant, Some(&queue("long")), None, groups).await.expect("works");
    assert!(page.len() < groups && page::is_full(&page, groups), "{} of {groups}", page.len());
}

fn failure(kind: &str, message: &str) -> End {
    End::Fail { error: JobError::new(kind, message), retryable: false, retry_after: None, usage: None }
}

impl World {
    /// Enqueues a job that dies with an error.
    async fn die(&self, queue: &str, kind: &str, error: &str, message: &str) -> JobId {
        let id = self.enqueue_one(enqueue(vec![work(queue, kind)])).await;
        self.fail(queue, id, error, message).await;
        id
    }

    /// Leases the only waiting job of a queue, which dies with an error.
    pub(super) async fn fail(&self, queue: &str, id: JobId, error: &str, message: &str) {
        let leased = self.lease(queue, 1).await;
        let dead = self.finish(id, leased[0].life.fence, failure(error, message)).await.expect("the lease is current");
        assert_eq!(dead.state, JobState::Dead);
    }

    /// Returns the groups of dead jobs, after checking them by a verification and a rebuild.
    async fn groups(&self) -> Vec<String> {
        self.assert_verified().await;
        let before = self.store.list_dead_groups(&Tenant::built_in(), None, None, 100).await.expect("works");
        self.store.rebuild().await.expect("works");
        self.assert_verified().await;
        assert_eq!(self.store.list_dead_groups(&Tenant::built_in(), None, None, 100).await.expect("works"), before);
        let line = |group: &DeadGroup| {
            let DeadGroup { queue, kind, error, count, .. } = group;
            format!("{queue} {kind} {} ({}) {count}", error.kind, error.message)
        };
        before.iter().map(line).collect()
    }
}
