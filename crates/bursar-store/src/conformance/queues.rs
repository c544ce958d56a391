//! Queues: flow control, figures, lists and retention.

use bursar_core::context::Context;
use bursar_core::id::JobId;
use bursar_core::job::{Job, JobSpec, JobState, QueueConfig, Rate, Retention};
use bursar_core::name::{FlowKey, Queue, Tag, Tenant};
use bursar_core::request::{Act, Command, Op, Request};
use bursar_core::state::Counted;
use bursar_core::time::Span;

use super::work::{complete, fail, keyed, kind, lease_request, queue, queue_key, work};
use super::world::{World, secs};
use crate::figures::JobFilter;

fn keys(jobs: &[Job]) -> Vec<String> {
    jobs.iter().map(|job| job.key.as_ref().map_or("-".to_owned(), |key| key.to_string())).collect()
}

pub(super) async fn flow_key_at_its_limit_is_skipped_until_a_slot_is_free(world: World) {
    world.set_queue("q", QueueConfig { key_concurrency: Some(2), ..QueueConfig::default() }).await;
    let mut specs = vec![keyed("q", "a"); 10];
    specs.extend([keyed("q", "b"), work("q", "work"), keyed("r", "a")]);
    world.enqueue(specs).await;
    let leased = world.lease("q", 10).await;
    assert_eq!(keys(&leased), ["a", "b", "-", "a"]);
    world.assert_verified().await;
    assert!(world.lease("q", 10).await.is_empty());
    world.assert_verified().await;
    let first = &leased[0];
    world.finish(first.id, 1, complete(None)).await.expect("the lease is current");
    world.assert_verified().await;
    let next = world.lease("q", 10).await;
    assert_eq!(keys(&next), ["a"]);
    // A rebuild restores the line and the slots in use.
    world.store.rebuild().await.expect("works");
    world.assert_verified().await;
    assert!(world.lease("q", 10).await.is_empty());
    world.act(Act::Cancel, &[next[0].id]).await;
    assert!(world.lease("q", 10).await.is_empty(), "a cancelled job keeps its slot until its worker ends it");
    world.finish(next[0].id, 1, fail(None)).await.expect("the lease is current");
    assert_eq!(world.job_state(next[0].id).await, JobState::Cancelled);
    assert_eq!(keys(&world.lease("q", 10).await), ["a"]);
    assert_eq!(keys(&world.lease("r", 10).await), ["a"], "the limit of a key is per queue");
    world.assert_verified().await;
}

/// Retries the barred jobs of a queue, two keys at a time. Returns how many there were.
async fn unbar(world: &World, name: &str) -> usize {
    let (mut after, mut count) = (None, 0);
    loop {
        let (jobs, last) = world.store.jobs_barred(&queue_key(name), after.as_ref(), 2).await.expect("works");
        count += jobs.len();
        world.act(Act::Unbar, &jobs).await.iter().for_each(|one| assert!(one.is_ok()));
        world.assert_verified().await;
        after = last;
        if after.is_none() {
            return count;
        }
    }
}

pub(super) async fn raised_key_concurrency_takes_effect_at_once(world: World) {
    let set = async |key_concurrency| {
        let config = QueueConfig { key_concurrency, ..QueueConfig::default() };
        let outcome = world.apply(Op::DefineQueue { queue: queue("q"), config }).await;
        outcome.entry.expect("it was set").wakes.unbarred.clone()
    };
    assert_eq!(set(Some(1)).await, [], "no job was barred without a limit");
    for key in ["a", "b", "c", "d", "e"] {
        world.enqueue(vec![keyed("q", key); 5]).await;
    }
    let of_kind = |name| JobSpec { kind: kind(name), ..keyed("q", "a") };
    world.enqueue(vec![of_kind("other"), of_kind("other")]).await;
    world.enqueue(vec![keyed("r", "a"); 2]).await;
    assert_eq!(world.lease("q", 50).await.len(), 5);
    assert!(world.lease("q", 50).await.is_empty());
    assert_eq!(set(Some(1)).await, []);
    assert_eq!(set(Some(2)).await, [queue("q")]);
    assert_eq!(unbar(&world, "q").await, 6, "the head of each line; one key has two lines");
    let mut next = keys(&world.lease("q", 50).await);
    next.sort();
    assert_eq!(next, ["a", "b", "c", "d", "e"], "each key has one more slot");
    assert!(world.lease("q", 50).await.is_empty());
    // Another attempt without free slots changes nothing.
    assert_eq!(unbar(&world, "q").await, 6);
    assert!(world.lease("q", 50).await.is_empty());
    world.assert_verified().await;
    assert_eq!(set(Some(1)).await, [], "a lower limit frees no slot");
    assert_eq!(set(None).await, [queue("q")]);
    assert_eq!(unbar(&world, "q").await, 6);
    assert_eq!(world.lease("q", 50).await.len(), 17);
    assert_eq!(unbar(&world, "q").await, 0);
    world.store.rebuild().await.expect("works");
    world.assert_verified().await;
}

pub(super) async fn flow_keys_are_leased_round_robin(world: World) {
    for key in ["a", "b", "c"] {
        world.enqueue(vec![keyed("q", key); 4]).await;
    }
    let mut order = Vec::new();
    for capacity in [1, 2, 4, 5] {
        world.clock.advance(Span::from_millis(1));
        order.extend(keys(&world.lease("q", capacity).await));
        world.assert_verified().await;
    }
    assert_eq!(order.concat(), "abcabcabcabc");
    assert!(world.lease("q", 9).await.is_empty());
}

pub(super) async fn rates_delay_jobs(world: World) {
    let rate = Some(Rate { amount: 2, per: secs(10) });
    world.set_queue("q", QueueConfig { rate, ..QueueConfig::default() }).await;
    world.set_queue("k", QueueConfig { key_rate: rate, ..QueueConfig::default() }).await;
    world.enqueue(vec![work("q", "work"); 4]).await;
    world.enqueue(vec![keyed("k", "a"); 4]).await;
    world.enqueue(vec![keyed("k", "b")]).await;
    for name in ["q", "k"] {
        let leased = world.lease_with(lease_request(&[name], &[], 9)).await;
        assert_eq!(leased.jobs.len(), if name == "q" { 2 } else { 3 }, "{name}");
        assert_eq!(leased.next_at, Some(world.now().after(secs(5))), "{name}");
        world.assert_verified().await;
    }
    world.store.rebuild().await.expect("works");
    assert!(world.lease_with(lease_request(&["q", "k"], &[], 9)).await.jobs.is_empty());
    world.clock.advance(secs(5));
    assert_eq!(world.lease_with(lease_request(&["q", "k"], &[], 9)).await.jobs.len(), 2);
    world.clock.advance(secs(60));
    assert_eq!(world.lease_with(lease_request(&["q", "k"], &[], 9)).await.jobs.len(), 2);
    world.assert_verified().await;
}

pub(super) async fn slots_cannot_leak(world: World) {
    let config = QueueConfig { concurrency: Some(3), key_concurrency: Some(1), ..QueueConfig::default() };
    world.set_queue("q", config).await;
    let specs = (0..30).map(|place| keyed("q", &format!("k{}", place % 5))).collect();
    world.enqueue(specs).await;
    for round in 0..40u64 {
        let leased = world.lease("q", 5).await;
        assert!(leased.len() <= 3, "round {round}");
        for (place, job) in leased.iter().enumerate() {
            let end = match (round as usize + place) % 4 {
                0 => complete(None),
                1 => fail(None),
                2 => bursar_core::job::End::Return,
                _ => continue,
            };
            world.finish(job.id, job.life.fence, end).await.expect("the lease is current");
        }
        world.clock.advance(secs(11));
        world.rescue().await;
        world.assert_verified().await;
    }
    world.clock.advance(secs(60));
    world.rescue().await;
    assert_eq!(world.state("bursar:slots:q").await.balances[0].held, 0);
    world.store.rebuild().await.expect("works");
    world.assert_verified().await;
    assert_eq!(world.state("bursar:slots:q").await.balances[0].held, 0);
}

pub(super) async fn figures_match_the_jobs(world: World) {
    let start = world.now();
    let ids = world.enqueue(vec![work("q", "work"); 5]).await;
    world.enqueue(vec![JobSpec { delay: secs(100), ..work("q", "work") }]).await;
    world.clock.advance(secs(1));
    let leased = world.lease("q", 3).await;
    let since = leased[0].life.lease.as_ref().expect("leased").since;
    world.finish(ids[0], 1, complete(None)).await.expect("the lease is current");
    world.finish(ids[1], 1, fail(None)).await.expect("the lease is current");
    world.act(Act::Cancel, &[ids[4]]).await;
    let minute = start.micros().div_euclid(60_000_000);
    let expected = vec![
        (Counted::In(JobState::Scheduled), 2),
        (Counted::In(JobState::Queued), 1),
        (Counted::In(JobState::Leased), 1),
        (Counted::In(JobState::Succeeded), 1),
        (Counted::In(JobState::Cancelled), 1),
        (Counted::Enqueued(minute), 6),
        (Counted::Ended(JobState::Succeeded, minute), 1),
        (Counted::Ended(JobState::Cancelled, minute), 1),
        (Counted::Failed(minute), 1),
    ];
    for _ in 0..2 {
        let figures = world.figures("q", minute).await;
        assert_eq!(figures.counts, expected);
        assert_eq!(figures.oldest_waiting, Some(world.job(ids[3]).await.life.run_at));
        assert_eq!(figures.oldest_lease, Some(since));
        world.store.rebuild().await.expect("works");
    }
    let later = world.figures("q", minute + 1).await;
    assert_eq!(later.counts, expected[..5], "the present counts, and those of later minutes");
    let none = world.figures("none", 0).await;
    assert_eq!((none.counts.len(), none.oldest_waiting, none.oldest_lease), (0, None, None));
    // Those of several queues are read at once, in the order given.
    world.enqueue(vec![work("r", "other")]).await;
    let names = ["r", "none", "q"];
    let all = world.store.figures(&names.map(queue_key), minute).await.expect("works");
    for (name, figures) in names.iter().zip(&all) {
        assert_eq!(*figures, world.figures(name, minute).await, "{name}");
    }
    assert_eq!((all[0].counts.len(), all[2].oldest_lease), (2, Some(since)));
    assert_eq!(all.len(), 3);
    assert_eq!(world.store.figures(&[], minute).await.expect("works"), []);
    world.assert_verified().await;
}

/// The figures report the job that has waited longest, whatever its priority, kind or flow key.
pub(super) async fn oldest_waiting_job_is_found_at_any_priority(world: World) {
    let oldest = async || world.figures("q", 0).await.oldest_waiting;
    let mut due = Vec::new();
    let specs = [
        JobSpec { priority: -50, ..work("q", "late") },
        JobSpec { priority: 50, ..work("q", "work") },
        work("q", "work"),
        JobSpec { key: Some(FlowKey::new("k").expect("valid")), ..work("q", "keyed") },
        JobSpec { key: Some(FlowKey::new("k").expect("valid")), ..work("q", "keyed") },
        JobSpec { priority: 50, ..work("q", "work") },
        work("q", "other"),
    ];
    for spec in specs {
        let id = world.enqueue(vec![spec]).await[0];
        due.push((id, world.job(id).await.life.run_at));
        world.clock.advance(secs(1));
    }
    while let Some((id, since)) = due.first().copied() {
        assert_eq!(oldest().await, Some(since), "{} are left", due.len());
        world.act(Act::Cancel, &[id]).await;
        due.remove(0);
    }
    assert_eq!(oldest().await, None);
}

pub(super) async fn old_figures_are_deleted(world: World) {
    let names = ["a", "b", "c"];
    let round = async || {
        for name in names {
            let ids = world.enqueue(vec![work(name, "work"); 2]).await;
            let fence = world.lease(name, 2).await[0].life.fence;
            world.finish(ids[0], fence, complete(None)).await.expect("the lease is current");
            world.finish(ids[1], fence, fail(None)).await.expect("the lease is current");
            world.act(Act::Cancel, &[ids[1]]).await;
        }
    };
    let counts = async |name: &str| {
        let counts = world.figures(name, 0).await.counts.into_iter();
        let (minutes, states): (Vec<_>, Vec<_>) = counts.partition(|(what, _)| what.minute().is_some());
        (minutes.len(), states)
    };
    let forget = async || {
        let (mut after, mut pages) = (None, 0);
        loop {
            after = world.store.forget_figures(after.as_ref(), 2).await.expect("works");
            pages += 1;
            if after.is_none() {
                return pages;
            }
        }
    };
    round().await;
    world.clock.advance(Span::from_days(5));
    round().await;
    let before = counts("b").await;
    assert_eq!(before.0, 8, "enqueued, succeeded, cancelled and failed, in two minutes");
    assert_eq!(forget().await, 2, "three queues, two at a time");
    assert_eq!(counts("b").await, before, "no figure is old enough");
    world.clock.advance(Span::from_days(3));
    forget().await;
    for name in names {
        assert_eq!(counts(name).await, (4, before.1.clone()), "the present and recent figures stay");
    }
    world.assert_verified().await;
    world.store.rebuild().await.expect("works");
    world.assert_verified().await;
}

pub(super) async fn unused_flow_keys_are_deleted(world: World) {
    let rate = Some(Rate { amount: 1, per: Span::from_days(3) });
    world.set_queue("slots", QueueConfig { key_concurrency: Some(1), ..QueueConfig::default() }).await;
    world.set_queue("rates", QueueConfig { key_rate: rate, ..QueueConfig::default() }).await;
    let flows = async || {
        let all = world.store.list_scope_keys(None, 100).await.expect("works");
        all.iter().filter(|(_, scope)| scope.as_str().contains('\t')).count()
    };
    let forget = async || {
        let mut after = None;
        loop {
            after = world.store.forget_scopes(after.as_ref(), 2).await.expect("works").last;
            if after.is_none() {
                break;
            }
        }
        world.assert_verified().await;
    };
    for name in ["slots", "rates", "plain"] {
        world.enqueue(vec![keyed(name, "a"), keyed(name, "b")]).await;
        let leased = world.lease(name, 2).await;
        world.finish(leased[0].id, 1, complete(None)).await.expect("the lease is current");
    }
    forget().await;
    world.clock.advance(Span::from_days(2));
    forget().await;
    assert_eq!(flows().await, 3, "a slot is in use, and two rates have not refilled");
    for name in ["slots", "rates", "plain"] {
        let filter = JobFilter { queue: Some(queue(name)), state: Some(JobState::Leased), ..JobFilter::default() };
        let leased = world.store.list_jobs(&Tenant::built_in(), &filter, None, 10).await.expect("works");
        for job in leased {
            world.finish(job.id, 1, complete(None)).await.expect("the lease is current");
        }
    }
    world.clock.advance(Span::from_days(2));
    forget().await;
    assert_eq!(flows().await, 0);
    // Deleted flow keys can be used again.
    for name in ["slots", "rates"] {
        world.enqueue(vec![keyed(name, "a"), keyed(name, "a")]).await;
        assert_eq!(world.lease(name, 9).await.len(), 1, "{name}");
    }
    world.assert_verified().await;
    world.store.rebuild().await.expect("works");
    world.assert_verified().await;
}

pub(super) async fn jobs_and_queues_are_listed_in_pages(world: World) {
    let tag = Tag::new("odd").expect("a valid name");
    let mut ids = Vec::new();
    for place in 0..60 {
        let mut spec = work(if place % 3 == 0 { "q" } else { "r" }, if place % 2 == 0 { "a.x" } else { "b" });
        spec.tags.extend((place % 2 == 1).then(|| tag.clone()));
        spec.key = (place % 5 == 0).then(|| FlowKey::new("k").expect("a valid name"));
        ids.extend(world.enqueue(vec![spec]).await);
    }
    for (place, job) in world.lease("r", 25).await.into_iter().enumerate() {
        world
            .finish(job.id, 1, if place % 2 == 0 { complete(None) } else { fail(None) })
            .await
            .expect("the lease is current");
    }
    let tenant = Tenant::built_in();
    let all = async |filter: &JobFilter, limit: usize| {
        let (mut seen, mut after): (Vec<Job>, Option<JobId>) = (Vec::new(), None);
        loop {
            let page = world.store.list_jobs(&tenant, filter, after, limit).await.expect("works");
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { return seen };
            after = Some(last.id);
            seen.extend(page);
        }
    };
    let jobs = all(&JobFilter::default(), 100).await;
    assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), ids);
    let fingerprint = jobs.iter().find_map(|job| job.life.error.as_ref()).expect("one failed").fingerprint();
    let filters = [
        JobFilter::default(),
        JobFilter { queue: Some(queue("q")), ..JobFilter::default() },
        JobFilter { state: Some(JobState::Succeeded), ..JobFilter::default() },
        JobFilter { state: Some(JobState::Scheduled), ..JobFilter::default() },
        JobFilter { state: Some(JobState::Queued), queue: Some(queue("r")), ..JobFilter::default() },
        JobFilter { kind: Some(kind("a.*")), ..JobFilter::default() },
        JobFilter { kind: Some(kind("b")), tag: Some(tag), ..JobFilter::default() },
        JobFilter { key: Some(FlowKey::new("k").expect("valid")), ..JobFilter::default() },
        JobFilter { fingerprint: Some(fingerprint), ..JobFilter::default() },
    ];
    for filter in filters {
        let expected: Vec<&Job> = jobs.iter().filter(|job| filter.matches(job, world.now())).collect();
        assert!(!expected.is_empty(), "{filter:?}");
        for limit in [1, 7, 100] {
            assert_eq!(all(&filter, limit).await.iter().collect::<Vec<_>>(), expected, "{filter:?} by {limit}");
            let newest = JobFilter { newest_first: true, ..filter.clone() };
            let reversed: Vec<&Job> = expected.iter().rev().copied().collect();
            assert_eq!(all(&newest, limit).await.iter().collect::<Vec<_>>(), reversed, "{newest:?} by {limit}");
        }
    }
    world.set_queue("set", QueueConfig { paused: true, ..QueueConfig::default() }).await;
    let mut names: Vec<String> = Vec::new();
    let mut after: Option<Queue> = None;
    while let Some((name, state)) = world.store.list_queues(&tenant, after.as_ref(), 1).await.expect("works").pop() {
        assert_eq!((state.config.paused, state.version), (name == queue("set"), u64::from(name == queue("set"))));
        names.push(name.to_string());
        after = Some(name);
    }
    assert_eq!(names, ["q", "r", "set"]);
    let set = world.store.queue(&queue_key("set")).await.expect("works").expect("is set");
    assert!(set.config.paused);
    assert_eq!(world.store.queue(&queue_key("q")).await.expect("works"), None);
}

pub(super) async fn finished_jobs_are_kept_for_the_retention_of_their_queue(world: World) {
    let retention = Retention { succeeded: None, cancelled: Some(secs(60)), dead: Some(secs(120)) };
    world.set_queue("set", QueueConfig { retention, ..QueueConfig::default() }).await;
    let mut ended = Vec::new();
    for name in ["set", "unset"] {
        let once = JobSpec { max_attempts: Some(1), ..work(name, "work") };
        let ids = world.enqueue(vec![once.clone(), once.clone(), once]).await;
        world.lease(name, 2).await;
        world.finish(ids[0], 1, complete(None)).await.expect("the lease is current");
        world.finish(ids[1], 1, fail(None)).await.expect("the lease is current");
        world.act(Act::Cancel, &[ids[2]]).await;
        ended.push(ids);
    }
    let forget = async |after: Span| {
        world.clock.advance(after);
        let mut gone = Vec::new();
        loop {
            let due = world.store.due_jobs(1).await.expect("works").ended;
            let Some((_, id)) = due.first() else { return gone };
            assert_eq!(due.len(), 1, "at most `limit` jobs");
            world.act(Act::Forget, &[*id]).await;
            assert_eq!(world.store.job(&Tenant::built_in(), *id).await.expect("works"), None);
            gone.push(*id);
        }
    };
    assert_eq!(forget(Span::ZERO).await, []);
    assert_eq!(forget(secs(60)).await, [ended[0][2]]);
    assert_eq!(forget(secs(60)).await, [ended[0][1]]);
    let mut day = forget(Span::from_days(1)).await;
    day.sort();
    assert_eq!(day, [ended[1][0], ended[1][2]]);
    assert_eq!(forget(Span::from_days(29)).await, [ended[1][1]]);
    assert_eq!(forget(Span::from_days(3_000)).await, [], "the job without an end of retention stays");
    assert_eq!(world.job_state(ended[0][0]).await, JobState::Succeeded);
    world.store.rebuild().await.expect("works");
    world.assert_verified().await;
}

pub(super) async fn change_counter_changes_with_every_commit(world: World) {
    let counter = async || world.store.change_counter().await.expect("works");
    let before = counter().await;
    assert_eq!(counter().await, before);
    world.enqueue(vec![work("q", "work")]).await;
    let after = counter().await;
    assert_ne!(after, before);
    let paused = QueueConfig { paused: true, ..QueueConfig::default() };
    world.request(Request::from(Op::DefineQueue { queue: queue("q"), config: paused })).await.expect("done");
    assert_ne!(counter().await, after);
}

pub(super) async fn queues_of_all_tenants_are_counted(world: World) {
    let counts = async || world.store.queue_counts().await.expect("works");
    assert_eq!(counts().await, []);
    world.enqueue(vec![work("q", "work"), work("q", "work"), work("r", "work")]).await;
    world.clock.advance(secs(60));
    let other = Tenant::new("other").expect("a name");
    let command = Command { jobs: vec![work("q", "work")], ..Command::default() };
    world.request(Request::from(Op::Submit(command)).in_context(Context::of(other.clone()))).await.expect("done");
    let leased = world.lease("q", 1).await;
    let theirs = (other, queue("q"));
    let rest = [(queue_key("r"), JobState::Queued, 1), (theirs.clone(), JobState::Queued, 1)];
    let mut expected = vec![(queue_key("q"), JobState::Queued, 1), (queue_key("q"), JobState::Leased, 1)];
    expected.extend(rest.clone());
    assert_eq!(counts().await, expected);
    world.finish(leased[0].id, 1, complete(None)).await.expect("the lease is current");
    expected = vec![(queue_key("q"), JobState::Queued, 1), (queue_key("q"), JobState::Succeeded, 1)];
    expected.extend(rest);
    assert_eq!(counts().await, expected);
    // The figures of queues of several tenants are those of each of them.
    world.lease("r", 1).await;
    let keys = [theirs, queue_key("r"), queue_key("q")];
    let figures = world.store.figures(&keys, 0).await.expect("works");
    let waits = |place: usize| figures[place].oldest_waiting.expect("a job waits");
    let later = waits(0).since(waits(2));
    assert!(secs(59) < later && later < secs(61), "the job of the other tenant came a minute later: {later:?}");
    assert_eq!((figures[0].oldest_lease, figures[2].oldest_lease), (None, None));
    assert_eq!((figures[1].oldest_waiting, figures[1].oldest_lease.is_some()), (None, true));
    for (key, figures) in keys[1..].iter().zip(&figures[1..]) {
        assert_eq!(*figures, world.figures(key.1.as_str(), 0).await);
    }
}
