//! Jobs: leases, fences, retries, and where a job is kept.

use bursar_core::context::Context;
use bursar_core::event::Event;
use bursar_core::id::JobId;
use bursar_core::job::{Beat, End, Finish, Job, JobError, JobSpec, JobState};
use bursar_core::name::{IdempotencyKey, Tenant};
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Act, Command, Op, Request};
use bursar_core::time::Span;
use bursar_core::trace::TraceParent;

use super::work::{ask, complete, enqueue, fail, half_a_minute, is_lost, queue, work};
use super::world::{World, secs};

/// A queue with many kinds is leased from as if it had one.
pub(super) async fn best_goes_first_over_many_kinds(world: World) {
    let mut expected = Vec::new();
    for round in 0..30i16 {
        let spec =
            |place: i16| JobSpec { priority: (round * 7 + place * 3) % 11, ..work("q", &format!("kind.{place}")) };
        for id in world.enqueue((0..5).map(spec).collect()).await {
            let job = world.job(id).await;
            expected.push((job.life.rank, id));
        }
    }
    expected.sort();
    let order = world.drain("q", 7).await;
    assert_eq!(order, expected.into_iter().map(|(_, id)| id).collect::<Vec<_>>());
    world.verified().await;
}

pub(super) async fn kinds_are_found_by_name_and_by_beginning(world: World) {
    let kinds = ["video", "video.cut", "video.mix", "videos", "audio", "vid"];
    let ids = world.enqueue(kinds.iter().map(|kind| work("q", kind)).collect()).await;
    let lease = async |kinds: &[&str]| {
        let jobs = world.ask_for(ask(&["q", "other"], kinds, 10)).await.jobs;
        jobs.iter().map(|job| job.kind.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(lease(&["video.*"]).await, ["video.cut", "video.mix"]);
    assert_eq!(lease(&["nothing", "nothing.*"]).await, Vec::<String>::new());
    assert_eq!(lease(&["vid", "audio"]).await, ["audio", "vid"]);
    assert_eq!(lease(&["video*", "video"]).await, ["video", "videos"]);
    assert_eq!(world.job_state(ids[0]).await, JobState::Leased);
    world.verified().await;
}

pub(super) async fn more_come_due_than_one_step_promotes(world: World) {
    let later = |place: u64| JobSpec {
        delay: secs(10 + place % 2),
        ..work("q", if place.is_multiple_of(3) { "a" } else { "b" })
    };
    for _ in 0..3 {
        world.enqueue((0..800).map(later).collect()).await;
    }
    let early = world.ask_for(ask(&["q"], &[], 10)).await;
    assert_eq!((early.jobs.len(), early.next_at), (0, Some(world.job(world.first("q").await).await.life.run_at)));
    world.clock.advance(secs(20));
    // Who wants only some promotes what is due all the same, and is told to come back at once.
    let some = world.ask_for(ask(&["q"], &["none"], 10)).await;
    assert!(some.jobs.is_empty() && some.next_at.is_some_and(|at| at <= world.now()));
    assert_eq!(world.drain("q", 500).await.len(), 2_400);
    world.verified().await;
}

pub(super) async fn stale_fence_changes_nothing(world: World) {
    let id = world.enqueue(vec![work("q", "work")]).await[0];
    assert_eq!(world.lease("q", 1).await[0].life.fence, 1);
    world.clock.advance(half_a_minute());
    assert_eq!(world.rescue().await, 1);
    world.clock.advance(secs(10));
    let leased = world.lease("q", 1).await;
    assert_eq!((leased[0].life.fence, leased[0].life.attempts), (2, 2));
    let (before, position) = (world.job(id).await, world.position().await);
    for end in [complete(None), fail(None), End::Snooze { delay: secs(1) }, End::Return] {
        for fence in [0, 1, 3] {
            assert!(is_lost(&world.finish(id, fence, end.clone()).await, false), "{end:?} {fence}");
        }
    }
    let beats = world.done(Op::Heartbeat { beats: vec![Beat { job: id, fence: 1 }] }).await;
    assert!(format!("{:?}", beats.answer).contains("LeaseLost"));
    assert_eq!((world.job(id).await, world.position().await), (before, position));
    let done = world.finish(id, 2, complete(None)).await.expect("its own");
    let position = world.position().await;
    assert_eq!(world.finish(id, 2, complete(None)).await, Ok(done));
    assert!(is_lost(&world.finish(id, 2, fail(None)).await, false));
    assert_eq!(world.position().await, position, "again is no event");
    world.verified().await;
}

pub(super) async fn lapsed_leases_are_found_and_taken_back(world: World) {
    let spec = JobSpec { deadline: Some(secs(100)), ..work("q", "work") };
    let ids = world.enqueue(vec![spec, work("q", "work"), work("q", "work")]).await;
    assert_eq!(world.lease("q", 3).await.len(), 3);
    world.clock.advance(secs(20));
    let beats = ids.iter().take(2).map(|job| Beat { job: *job, fence: 1 }).collect();
    world.done(Op::Heartbeat { beats }).await;
    world.clock.advance(secs(10));
    let lapsed = async || {
        let due = world.store.due_jobs(10).await.expect("works").lapsed;
        due.into_iter().map(|(_, job)| job).collect::<Vec<_>>()
    };
    assert_eq!(lapsed().await, [ids[2]]);
    assert_eq!(world.rescue().await, 1);
    let job = world.job(ids[2]).await;
    assert_eq!((job.life.state, job.life.attempts), (JobState::Scheduled, 1));
    assert_eq!(job.life.error.expect("why").kind, "lease expired");
    for _ in 0..7 {
        let beats = ids.iter().take(2).map(|job| Beat { job: *job, fence: 1 }).collect();
        world.done(Op::Heartbeat { beats }).await;
        world.clock.advance(secs(10));
    }
    assert_eq!(lapsed().await, [ids[0]], "a run that takes too long, heartbeats or not");
    world.rescue().await;
    assert_eq!(world.job(ids[0]).await.life.error.expect("why").kind, "deadline exceeded");
    world.verified().await;
}

pub(super) async fn bulk_is_answered_job_by_job(world: World) {
    let ids = world.enqueue((0..1_000).map(|_| work("q", "work")).collect()).await;
    assert_eq!(world.lease("q", 1_000).await.len(), 1_000);
    let item = |place: usize| Finish {
        job: if place == 7 { JobId(7) } else { ids[place] },
        fence: if place == 9 { 2 } else { 1 },
        end: if place.is_multiple_of(2) { complete(None) } else { fail(None) },
    };
    let each = world.finish_all((0..1_000).map(item).collect()).await;
    assert_eq!(each.iter().filter(|one| one.is_err()).count(), 2);
    assert!(matches!(each[7], Err(Refusal::UnknownJob { .. })) && is_lost(&each[9], false));
    let acted = world.act(Act::Cancel, &ids).await;
    let count = |state: JobState| acted.iter().flatten().filter(|one| one.state == state).count();
    assert_eq!((count(JobState::Cancelled), count(JobState::Leased)), (498, 2));
    world.verified().await;
}

pub(super) async fn bad_item_of_a_bulk_is_refused_alone(world: World) {
    let ids = world.enqueue(vec![work("q", "work"); 5]).await;
    assert_eq!(world.lease("q", 5).await.len(), 5);
    let own = bursar_core::job::FlowScopes::of_queue(&queue("q")).slots;
    let ends = [
        complete(None),
        complete(super::work::spent(-1)),
        End::Snooze { delay: Span::from_days(4_000) },
        complete(Some(vec![bursar_core::job::Usage { scope: Some(own), amount: 1 }])),
        fail(None),
    ];
    let items = ids.iter().zip(ends).map(|(id, end)| Finish { job: *id, fence: 1, end }).collect();
    let each = world.finish_all(items).await;
    let states: Vec<_> = each.iter().map(|one| one.as_ref().ok().map(|done| done.state)).collect();
    assert_eq!(states, [Some(JobState::Succeeded), None, None, None, Some(JobState::Scheduled)]);
    for (one, field) in each[1..4].iter().zip(["usage.amount", "delay_ms", "scope"]) {
        assert!(matches!(one, Err(Refusal::Invalid(invalid)) if invalid.field == field), "{one:?}");
    }
    for id in &ids[1..4] {
        assert_eq!(world.job_state(*id).await, JobState::Leased, "what was wrong changed nothing");
    }
    world.verified().await;
}

pub(super) async fn finished_job_is_found_and_comes_back_when_it_is_tried_again(world: World) {
    let spec = JobSpec { max_attempts: Some(1), ..work("q", "work") };
    let id = world.enqueue(vec![spec]).await[0];
    for fence in 1..=3 {
        let job = world.lease("q", 1).await.remove(0);
        assert_eq!((job.life.fence, job.life.attempts), (fence, 1));
        let end = fail(None);
        assert_eq!(world.finish(id, fence, end).await.expect("its own").state, JobState::Dead);
        assert_eq!(world.job(id).await.life.error, Some(JobError::new("timeout", "after 30 s")));
        assert!(world.lease("q", 1).await.is_empty());
        let acted = world.act(if fence == 1 { Act::Move { queue: queue("r") } } else { Act::Retry }, &[id]).await;
        assert_eq!(acted[0].as_ref().expect("it is dead").state, JobState::Queued);
        if fence == 1 {
            world.act(Act::Move { queue: queue("q") }, &[id]).await;
        }
        world.verified().await;
    }
    assert_eq!(world.act(Act::Cancel, &[id]).await[0].as_ref().expect("waits").state, JobState::Cancelled);
    let before = world.job(id).await;
    world.store.rebuild().await.expect("works");
    assert_eq!(world.job(id).await, before);
    world.verified().await;
}

pub(super) async fn payload_and_result_are_kept_beside_and_forgotten(world: World) {
    let large = |letter: &str| Payload::of(&letter.repeat(100_000)).expect("JSON");
    let key = Some(IdempotencyKey::new("once").expect("a good key"));
    let spec = JobSpec { payload: large("p"), idempotency_key: key, ..work("q", "work") };
    let id = world.enqueue(vec![spec.clone()]).await[0];
    let leased = world.lease("q", 1).await.remove(0);
    assert_eq!(leased.payload, spec.payload);
    world.finish(id, 1, End::Complete { result: large("r"), usage: None }).await.expect("its own");
    for rebuilt in [false, true] {
        let job = world.job(id).await;
        assert_eq!((job.payload, job.life.result), (large("p"), large("r")), "rebuilt: {rebuilt}");
        world.store.rebuild().await.expect("works");
    }
    assert_eq!(world.enqueue(vec![spec.clone()]).await[0], id, "its key is taken");
    assert_eq!(world.act(Act::Forget, &[id]).await[0].as_ref().expect("kept").state, JobState::Succeeded);
    assert!(world.store.job(id).await.expect("works").is_some(), "its time is not over");
    world.clock.advance(Span::from_days(1));
    assert_eq!(world.store.due_jobs(10).await.expect("works").ended, [(Tenant::built_in(), id)]);
    world.act(Act::Forget, &[id]).await;
    assert_eq!(world.store.job(id).await.expect("works"), None);
    for owner in [id.0, id.result_key()] {
        assert!(!world.store.erase_payload(owner).await.expect("works"), "it is gone");
    }
    let anew = world.enqueue(vec![spec]).await[0];
    assert_ne!(anew, id, "its key is free");
    world.store.rebuild().await.expect("works");
    assert_eq!(world.store.job(id).await.expect("works"), None);
    assert_eq!(world.job(anew).await.payload, large("p"));
    world.verified().await;
}

pub(super) async fn job_is_found_by_its_key_and_finished_in_one_batch(world: World) {
    let key = Some(IdempotencyKey::new("once").expect("a good key"));
    let spec = JobSpec { idempotency_key: key, ..super::work::keyed("q", "customer") };
    let id = world.enqueue(vec![spec.clone()]).await[0];
    world.lease("q", 1).await;
    let finish = Op::Finish { items: vec![Finish { job: id, fence: 1, end: complete(None) }] };
    let answers =
        world.batch(vec![enqueue(vec![spec.clone()]).into(), finish.into(), enqueue(vec![spec]).into()]).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(world.job_state(id).await, JobState::Succeeded);
    world.verified().await;
}

pub(super) async fn bad_input_changes_nothing(world: World) {
    let id = world.enqueue(vec![work("q", "work")]).await[0];
    world.lease("q", 1).await;
    let (before, position) = (world.job(id).await, world.position().await);
    let year = Span::from_days(365);
    let lease = |lease| Op::Lease(bursar_core::job::LeaseAsk { lease: Some(lease), ..ask(&["q"], &[], 1) });
    let long = JobError::new("x".repeat(5_000), "");
    let bad = [
        enqueue(vec![JobSpec { priority: 1_001, ..work("q", "work") }]),
        enqueue(vec![JobSpec { priority: i16::MIN, ..work("q", "work") }]),
        enqueue(vec![JobSpec { delay: Span::from_days(4_000), ..work("q", "work") }]),
        enqueue(vec![JobSpec { max_attempts: Some(0), ..work("q", "work") }]),
        enqueue(vec![work("q", "work"); 1_001]),
        lease(year),
        lease(Span::from_millis(1)),
        Op::Lease(ask(&["q"], &[], 0)),
        Op::Lease(ask(&["q"], &[], 1_001)),
        Op::Lease(ask(&[], &[], 1)),
        Op::Lease(ask(&["q"; 101], &[], 1)),
        Op::Finish { items: vec![Finish { job: id, fence: 1, end: complete(None) }; 1_001] },
        Op::Act { act: Act::Edit { priority: Some(1_001), delay: None }, jobs: vec![id] },
        Op::Act { act: Act::Cancel, jobs: vec![id; 1_001] },
    ];
    for op in bad {
        let answer = world.ask(op.clone()).await;
        assert!(matches!(answer, Err(Refusal::Invalid(_))), "{op:?}: {answer:?}");
    }
    for end in [
        End::Snooze { delay: Span::from_days(4_000) },
        End::Fail { error: long, retryable: true, retry_after: None, usage: None },
        complete(super::work::spent(-1)),
    ] {
        let answer = world.finish(id, 1, end).await;
        assert!(matches!(answer, Err(Refusal::Invalid(_))), "{answer:?}");
    }
    let dry = Request { dry_run: true, ..Request::from(Op::Lease(ask(&["q"], &[], 1))) };
    assert!(matches!(world.request(dry).await, Err(Refusal::Invalid(_))));
    let other = world.finish(id, 1, complete(super::work::spent(5))).await;
    assert!(matches!(other, Err(Refusal::UsageAmbiguous { .. })), "{other:?}");
    assert_eq!((world.job(id).await, world.position().await), (before, position));
    assert!(bursar_core::name::Queue::new("x".repeat(10 << 20)).is_err());
    assert!(Payload::new(format!("\"{}\"", "x".repeat(100 << 20))).is_err());
    world.verified().await;
}

pub(super) async fn tenants_have_jobs_of_their_own(world: World) {
    let acme = Context::of(Tenant::new("acme").expect("a good name"));
    let theirs = |op: Op| Request::from(op).in_context(acme.clone());
    let id = world.enqueue(vec![work("q", "work")]).await[0];
    let nothing = world.request(theirs(Op::Lease(ask(&["q"], &[], 5)))).await.expect("they may ask");
    assert!(nothing.entry.is_none(), "{nothing:?}");
    world.lease("q", 1).await;
    let (before, position) = (world.job(id).await, world.position().await);
    for op in [
        Op::Finish { items: vec![Finish { job: id, fence: 1, end: complete(None) }] },
        Op::Heartbeat { beats: vec![Beat { job: id, fence: 1 }] },
        Op::Act { act: Act::Cancel, jobs: vec![id] },
    ] {
        let answer = world.request(theirs(op)).await.expect("answered job by job");
        assert!(format!("{:?}", answer.answer).contains("UnknownJob"), "{answer:?}");
    }
    assert_eq!((world.job(id).await, world.position().await), (before, position));
    let listed = world.store.list_jobs(&acme.tenant, &Default::default(), None, 10).await.expect("works");
    assert_eq!(listed, []);
    assert_eq!(world.store.list_queues(&acme.tenant, None, 10).await.expect("works"), []);
}

impl World {
    /// The job of a queue that was enqueued first.
    async fn first(&self, name: &str) -> JobId {
        let filter = crate::figures::JobFilter { queue: Some(queue(name)), ..Default::default() };
        let jobs = self.store.list_jobs(&Tenant::built_in(), &filter, None, 1).await.expect("works");
        jobs[0].id
    }
}

pub(super) async fn trace_goes_with_a_job_from_its_enqueueing_to_its_end(world: World) {
    let parent = |n: u8| -> TraceParent { format!("00-{n:032x}-{n:016x}-01").parse().expect("a place in a trace") };
    let enqueue = async |trace: Option<TraceParent>| {
        let context = Context { traceparent: trace, ..Context::default() };
        let command = Command { jobs: vec![work("q", "work")], ..Command::default() };
        world.request(Request::from(Op::Submit(command)).in_context(context)).await.expect("done");
    };
    for trace in [Some(parent(1)), None, Some(parent(2))] {
        enqueue(trace).await;
    }
    let traces = |jobs: &[Job]| jobs.iter().map(|job| job.traceparent).collect::<Vec<_>>();
    world.store.rebuild().await.expect("works");
    let leased = world.lease("q", 10).await;
    assert_eq!(traces(&leased), [Some(parent(1)), None, Some(parent(2))], "rows have it, also those made anew");
    // One request ends them all; it is of the second job's trace.
    let end = |job: &Job| Finish { job: job.id, fence: 1, end: complete(None) };
    let items = leased.iter().map(end).collect();
    let context = Context { traceparent: Some(parent(2)), ..Context::default() };
    world.request(Request::from(Op::Finish { items }).in_context(context)).await.expect("done");
    let journal = world.store.list_journal(0, 100).await.expect("works");
    let ends = journal.iter().flat_map(|row| &row.batch.entries).flat_map(|entry| {
        let ended = entry.events.iter().filter(|recorded| matches!(recorded.e, Event::JobSucceeded { .. }));
        ended.map(|recorded| recorded.t.or(entry.context.traceparent))
    });
    assert_eq!(ends.collect::<Vec<_>>(), [Some(parent(1)), Some(parent(2)), Some(parent(2))]);
    let ended = world.store.job(leased[0].id).await.expect("works").expect("kept");
    assert_eq!((ended.life.state, ended.traceparent), (JobState::Succeeded, Some(parent(1))));
}
