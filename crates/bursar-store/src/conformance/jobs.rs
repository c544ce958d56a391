//! Jobs: leases, fences, retries, payloads and results.

use bursar_core::answer::Answer;
use bursar_core::bounds::CHECKPOINT_BYTES_MAX;
use bursar_core::context::Context;
use bursar_core::event::{Event, Stream};
use bursar_core::id::{BatchId, JobId};
use bursar_core::job::{Emit, End, Finish, HeartbeatItem, Job, JobError, JobSpec, JobState, LastReport, Progress};
use bursar_core::name::{EventName, IdempotencyKey, Tenant};
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Act, Command, Op, Request};
use bursar_core::time::Span;
use bursar_core::trace::TraceParent;

use super::work::{complete, enqueue, fail, is_lost, lease_request, queue, work};
use super::world::{World, secs};

/// The order of leases does not depend on the kinds of the jobs.
pub(super) async fn best_rank_is_leased_first_across_kinds(world: World) {
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
    world.assert_verified().await;
}

pub(super) async fn kinds_match_by_name_and_by_prefix(world: World) {
    let kinds = ["video", "video.cut", "video.mix", "videos", "audio", "vid"];
    let ids = world.enqueue(kinds.iter().map(|kind| work("q", kind)).collect()).await;
    let lease = async |kinds: &[&str]| {
        let jobs = world.lease_with(lease_request(&["q", "other"], kinds, 10)).await.jobs;
        jobs.iter().map(|job| job.kind.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(lease(&["video.*"]).await, ["video.cut", "video.mix"]);
    assert_eq!(lease(&["nothing", "nothing.*"]).await, Vec::<String>::new());
    assert_eq!(lease(&["vid", "audio"]).await, ["audio", "vid"]);
    assert_eq!(lease(&["video*", "video"]).await, ["video", "videos"]);
    assert_eq!(world.job_state(ids[0]).await, JobState::Leased);
    world.assert_verified().await;
}

pub(super) async fn more_jobs_come_due_than_one_step_promotes(world: World) {
    let later = |place: u64| JobSpec {
        delay: secs(10 + place % 2),
        ..work("q", if place.is_multiple_of(3) { "a" } else { "b" })
    };
    for _ in 0..3 {
        world.enqueue((0..800).map(later).collect()).await;
    }
    let early = world.lease_with(lease_request(&["q"], &[], 10)).await;
    assert_eq!((early.jobs.len(), early.next_at), (0, Some(world.job(world.first("q").await).await.life.run_at)));
    world.clock.advance(secs(20));
    // A lease request for other kinds promotes a step of due jobs too, and reports that more are due at once.
    let some = world.lease_with(lease_request(&["q"], &["none"], 10)).await;
    assert!(some.jobs.is_empty() && some.next_at.is_some_and(|at| at <= world.now()));
    assert_eq!(world.drain("q", 500).await.len(), 2_400);
    world.assert_verified().await;
}

pub(super) async fn stale_fence_changes_nothing(world: World) {
    let id = world.enqueue(vec![work("q", "work")]).await[0];
    assert_eq!(world.lease("q", 1).await[0].life.fence, 1);
    world.clock.advance(secs(30));
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
    let saved = HeartbeatItem::new(id, 1).with_progress(Progress::at_checkpoint(Payload::new("1").expect("JSON")));
    let beats = world.apply(Op::Heartbeat { beats: vec![HeartbeatItem::new(id, 1), saved] }).await;
    assert!(format!("{:?}", beats.answer).contains("LeaseLost"));
    assert_eq!((world.job(id).await, world.position().await), (before, position));
    let done = world.finish(id, 2, complete(None)).await.expect("the lease is current");
    let position = world.position().await;
    assert_eq!(world.finish(id, 2, complete(None)).await, Ok(done));
    assert!(is_lost(&world.finish(id, 2, fail(None)).await, false));
    assert_eq!(world.position().await, position, "a repeated report records no event");
    world.assert_verified().await;
}

pub(super) async fn only_the_lease_emits_events(world: World) {
    let id = world.enqueue(vec![work("q", "work")]).await[0];
    let event = |fence: u64| {
        let (event, data) = (EventName::new("preview.ready").expect("a name"), Payload::new("[7]").expect("JSON"));
        Op::Emit(Emit { job: id, fence, event, data })
    };
    assert!(matches!(world.submit(event(1)).await, Err(Refusal::LeaseLost { .. })));
    world.lease("q", 1).await;
    let before = world.job(id).await;
    world.apply(event(1)).await;
    assert!(matches!(world.submit(event(2)).await, Err(Refusal::LeaseLost { .. })));
    assert_eq!(world.kinds().await.last(), Some(&"job.emitted"));
    let after = world.job(id).await;
    assert_eq!((after.version, after.life), (before.version + 1, before.life));
    world.finish(id, 1, complete(None)).await.expect("it is leased");
    assert!(matches!(world.submit(event(1)).await, Err(Refusal::LeaseLost { .. })));
    world.act(Act::Erase, &[id]).await;
    let rows = world.store.list_journal(0, 100).await.expect("works");
    let rows: Vec<BatchId> = rows.iter().map(|row| row.batch.id).collect();
    assert!(world.store.erase_payloads(&[Stream::Job(id)], &rows).await.expect("works"));
    let events = world.events().await;
    let emitted: Vec<&Emit> =
        events.iter().filter_map(|e| if let Event::JobEmitted(e) = e { Some(e) } else { None }).collect();
    assert!(emitted.len() == 1 && emitted[0].data.is_erased(), "{emitted:?}");
    world.assert_verified().await;
}

pub(super) async fn checkpoint_is_carried_by_the_next_lease(world: World) {
    let json = |text: &str| Payload::new(text).expect("JSON");
    let ids = world.enqueue(vec![work("q", "work"), work("q", "work")]).await;
    assert_eq!(world.lease("q", 2).await.len(), 2);
    let report = async |id: JobId, fence: u64, progress: Progress| {
        let beats = vec![HeartbeatItem::new(id, fence).with_progress(progress)];
        match world.apply(Op::Heartbeat { beats }).await.answer {
            Answer::Renewed(mut each) => each.remove(0),
            other => panic!("expected the answer to a heartbeat: {other:?}"),
        }
    };
    let largest = json(&format!("\"{}\"", "x".repeat(CHECKPOINT_BYTES_MAX - 2)));
    let saved =
        Progress { data: json("[1]"), ..Progress::percent(12.5).message("a third").checkpoint(largest.clone()) };
    assert_eq!(report(ids[0], 1, saved).await.map(|renewed| renewed.reports), Ok(1));
    let position = world.position().await;
    assert_eq!(report(ids[0], 1, Progress::percent(99.5)).await.map(|renewed| renewed.reports), Ok(2));
    assert_eq!(report(ids[1], 1, Progress::default().message("begun")).await.map(|renewed| renewed.reports), Ok(1));
    assert_eq!(world.position().await, position, "a report without a checkpoint is no event");
    let larger = json(&format!("\"{}\"", "x".repeat(CHECKPOINT_BYTES_MAX - 1)));
    let refused = report(ids[0], 1, Progress::at_checkpoint(larger)).await;
    assert!(matches!(&refused, Err(Refusal::Invalid(invalid)) if invalid.field == "checkpoint"), "{refused:?}");
    let last = async |tenant: &Tenant| {
        let mut reports = world.store.last_reports(tenant, &[ids[1], JobId(7), ids[0]]).await.expect("works");
        reports.sort_by_key(|(id, _)| *id);
        let said = |(id, report): (JobId, LastReport)| (id, report.number, report.percent, report.message);
        reports.into_iter().map(said).collect::<Vec<_>>()
    };
    let reports = [(ids[0], 2, Some(99.5), None), (ids[1], 1, None, Some("begun".to_owned()))];
    assert_eq!(last(&Tenant::built_in()).await, reports);
    assert_eq!(last(&Tenant::new("acme").expect("a valid name")).await, [], "jobs of another tenant are not found");
    world.finish(ids[0], 1, End::Return).await.expect("the lease is current");
    let job = world.lease("q", 1).await.remove(0);
    assert_eq!((job.life.fence, &job.life.checkpoint), (2, &Some(largest.clone())));
    world.store.rebuild().await.expect("works");
    let rebuilt = world.job(ids[0]).await.life;
    assert_eq!(rebuilt.checkpoint, Some(largest.clone()));
    let report_of_checkpoint = rebuilt.progress.expect("the checkpoint came with a report");
    assert_eq!(
        (report_of_checkpoint.percent, report_of_checkpoint.message.as_deref(), report_of_checkpoint.data.as_str()),
        (Some(12.5), Some("a third"), "[1]"),
        "a rebuild restores the report of the last checkpoint"
    );
    assert_eq!(report(ids[0], 2, Progress::percent(100.0)).await.map(|renewed| renewed.reports), Ok(1));
    world.finish(ids[0], 2, complete(None)).await.expect("the lease is current");
    let ended = world.job(ids[0]).await.life;
    assert_eq!((ended.checkpoint, ended.progress.and_then(|report| report.percent)), (Some(largest), Some(100.0)));
    world.assert_verified().await;
}

pub(super) async fn expired_leases_are_found_and_rescued(world: World) {
    let spec = JobSpec { deadline: Some(secs(100)), ..work("q", "work") };
    let ids = world.enqueue(vec![spec, work("q", "work"), work("q", "work")]).await;
    assert_eq!(world.lease("q", 3).await.len(), 3);
    world.clock.advance(secs(20));
    let beats = ids.iter().take(2).map(|job| HeartbeatItem::new(*job, 1)).collect();
    world.apply(Op::Heartbeat { beats }).await;
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
        let beats = ids.iter().take(2).map(|job| HeartbeatItem::new(*job, 1)).collect();
        world.apply(Op::Heartbeat { beats }).await;
        world.clock.advance(secs(10));
    }
    assert_eq!(lapsed().await, [ids[0]], "the deadline ends a run in spite of heartbeats");
    world.rescue().await;
    assert_eq!(world.job(ids[0]).await.life.error.expect("why").kind, "deadline exceeded");
    world.assert_verified().await;
}

pub(super) async fn bulk_request_has_one_answer_per_job(world: World) {
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
    world.assert_verified().await;
}

pub(super) async fn invalid_item_of_a_bulk_is_refused_alone(world: World) {
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
    for (one, field) in each[1..4].iter().zip(["usage[0].amount", "delay_ms", "usage[0].scope"]) {
        assert!(matches!(one, Err(Refusal::Invalid(invalid)) if invalid.field == field), "{one:?}");
    }
    for id in &ids[1..4] {
        assert_eq!(world.job_state(*id).await, JobState::Leased, "an invalid item changes nothing");
    }
    world.assert_verified().await;
}

pub(super) async fn finished_job_can_be_read_and_retried(world: World) {
    let spec = JobSpec { max_attempts: Some(1), ..work("q", "work") };
    let id = world.enqueue(vec![spec]).await[0];
    for fence in 1..=3 {
        let job = world.lease("q", 1).await.remove(0);
        assert_eq!((job.life.fence, job.life.attempts), (fence, 1));
        let end = fail(None);
        assert_eq!(world.finish(id, fence, end).await.expect("the lease is current").state, JobState::Dead);
        assert_eq!(world.job(id).await.life.error, Some(JobError::new("timeout", "after 30 s")));
        assert!(world.lease("q", 1).await.is_empty());
        let acted = world.act(if fence == 1 { Act::Move { queue: queue("r") } } else { Act::Retry }, &[id]).await;
        assert_eq!(acted[0].as_ref().expect("a dead job can be retried").state, JobState::Queued);
        if fence == 1 {
            world.act(Act::Move { queue: queue("q") }, &[id]).await;
        }
        world.assert_verified().await;
    }
    assert_eq!(
        world.act(Act::Cancel, &[id]).await[0].as_ref().expect("a waiting job can be cancelled").state,
        JobState::Cancelled
    );
    let before = world.job(id).await;
    world.store.rebuild().await.expect("works");
    assert_eq!(world.job(id).await, before);
    world.assert_verified().await;
}

pub(super) async fn large_payload_and_result_are_deleted_with_their_job(world: World) {
    let large = |letter: &str| Payload::of(&letter.repeat(100_000)).expect("JSON");
    let key = Some(IdempotencyKey::new("once").expect("a valid key"));
    let spec = JobSpec { payload: large("p"), idempotency_key: key, ..work("q", "work") };
    let id = world.enqueue(vec![spec.clone()]).await[0];
    let leased = world.lease("q", 1).await.remove(0);
    assert_eq!(leased.payload, spec.payload);
    world
        .finish(id, 1, End::Complete { result: large("r"), usage: None, blobs: Vec::new() })
        .await
        .expect("the lease is current");
    for rebuilt in [false, true] {
        let job = world.job(id).await;
        assert_eq!((job.payload, job.life.result), (large("p"), large("r")), "rebuilt: {rebuilt}");
        world.store.rebuild().await.expect("works");
    }
    assert_eq!(world.enqueue(vec![spec.clone()]).await[0], id, "its key is in use");
    assert_eq!(world.act(Act::Forget, &[id]).await[0].as_ref().expect("kept").state, JobState::Succeeded);
    assert!(world.store.job(&Tenant::built_in(), id).await.expect("works").is_some(), "its retention has not ended");
    world.clock.advance(Span::from_days(1));
    assert_eq!(world.store.due_jobs(10).await.expect("works").ended, [(Tenant::built_in(), id)]);
    world.act(Act::Forget, &[id]).await;
    assert_eq!(world.store.job(&Tenant::built_in(), id).await.expect("works"), None);
    assert!(!world.store.erase_payloads(&[Stream::Job(id)], &[]).await.expect("works"), "the payloads are deleted");
    let anew = world.enqueue(vec![spec]).await[0];
    assert_ne!(anew, id, "its key is free");
    world.store.rebuild().await.expect("works");
    assert_eq!(world.store.job(&Tenant::built_in(), id).await.expect("works"), None);
    assert_eq!(world.job(anew).await.payload, large("p"));
    world.assert_verified().await;
}

pub(super) async fn one_batch_can_enqueue_and_finish_a_keyed_job(world: World) {
    let key = Some(IdempotencyKey::new("once").expect("a valid key"));
    let spec = JobSpec { idempotency_key: key, ..super::work::keyed("q", "customer") };
    let id = world.enqueue(vec![spec.clone()]).await[0];
    world.lease("q", 1).await;
    let finish = Op::Finish { items: vec![Finish { job: id, fence: 1, end: complete(None) }] };
    let answers =
        world.batch(vec![enqueue(vec![spec.clone()]).into(), finish.into(), enqueue(vec![spec]).into()]).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(world.job_state(id).await, JobState::Succeeded);
    world.assert_verified().await;
}

pub(super) async fn invalid_requests_change_nothing(world: World) {
    let id = world.enqueue(vec![work("q", "work")]).await[0];
    world.lease("q", 1).await;
    let (before, position) = (world.job(id).await, world.position().await);
    let year = Span::from_days(365);
    let lease =
        |lease| Op::Lease(bursar_core::job::LeaseRequest { lease: Some(lease), ..lease_request(&["q"], &[], 1) });
    let long = JobError::new("x".repeat(5_000), "");
    let bad = [
        enqueue(vec![JobSpec { priority: 1_001, ..work("q", "work") }]),
        enqueue(vec![JobSpec { priority: i16::MIN, ..work("q", "work") }]),
        enqueue(vec![JobSpec { delay: Span::from_days(4_000), ..work("q", "work") }]),
        enqueue(vec![JobSpec { max_attempts: Some(0), ..work("q", "work") }]),
        enqueue(vec![work("q", "work"); 1_001]),
        lease(year),
        lease(Span::from_millis(1)),
        Op::Lease(lease_request(&["q"], &[], 0)),
        Op::Lease(lease_request(&["q"], &[], 1_001)),
        Op::Lease(lease_request(&[], &[], 1)),
        Op::Lease(lease_request(&["q"; 101], &[], 1)),
        Op::Finish { items: vec![Finish { job: id, fence: 1, end: complete(None) }; 1_001] },
        Op::Act { act: Act::Edit { priority: Some(1_001), delay: None }, jobs: vec![id] },
        Op::Act { act: Act::Cancel, jobs: vec![id; 1_001] },
    ];
    for op in bad {
        let answer = world.submit(op.clone()).await;
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
    let dry = Request { dry_run: true, ..Request::from(Op::Lease(lease_request(&["q"], &[], 1))) };
    assert!(matches!(world.request(dry).await, Err(Refusal::Invalid(_))));
    let other = world.finish(id, 1, complete(super::work::spent(5))).await;
    assert!(matches!(other, Err(Refusal::UsageAmbiguous { .. })), "{other:?}");
    assert_eq!((world.job(id).await, world.position().await), (before, position));
    assert!(bursar_core::name::Queue::new("x".repeat(10 << 20)).is_err());
    assert!(Payload::new(format!("\"{}\"", "x".repeat(100 << 20))).is_err());
    world.assert_verified().await;
}

pub(super) async fn jobs_of_tenants_are_isolated(world: World) {
    let acme = Context::of(Tenant::new("acme").expect("a valid name"));
    let theirs = |op: Op| Request::from(op).in_context(acme.clone());
    let id = world.enqueue(vec![work("q", "work")]).await[0];
    let nothing = world.request(theirs(Op::Lease(lease_request(&["q"], &[], 5)))).await.expect("the request is valid");
    assert!(nothing.entry.is_none(), "{nothing:?}");
    world.lease("q", 1).await;
    let (before, position) = (world.job(id).await, world.position().await);
    for op in [
        Op::Finish { items: vec![Finish { job: id, fence: 1, end: complete(None) }] },
        Op::Heartbeat { beats: vec![HeartbeatItem::new(id, 1)] },
        Op::Act { act: Act::Cancel, jobs: vec![id] },
    ] {
        let answer = world.request(theirs(op)).await.expect("answered job by job");
        assert!(format!("{:?}", answer.answer).contains("UnknownJob"), "{answer:?}");
    }
    assert_eq!((world.job(id).await, world.position().await), (before, position));
    let listed = world.store.list_jobs(&acme.tenant, &Default::default(), None, 10).await.expect("works");
    assert_eq!(listed, []);
    assert_eq!(world.store.job(&acme.tenant, id).await.expect("works"), None);
    assert_eq!(world.store.list_queues(&acme.tenant, None, 10).await.expect("works"), []);
}

impl World {
    /// Returns the job of a queue that was enqueued first.
    async fn first(&self, name: &str) -> JobId {
        let filter = crate::figures::JobFilter { queue: Some(queue(name)), ..Default::default() };
        let jobs = self.store.list_jobs(&Tenant::built_in(), &filter, None, 1).await.expect("works");
        jobs[0].id
    }
}

pub(super) async fn trace_context_is_kept_until_a_job_ends(world: World) {
    let parent = |n: u8| -> TraceParent { format!("00-{n:032x}-{n:016x}-01").parse().expect("a valid trace context") };
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
    assert_eq!(traces(&leased), [Some(parent(1)), None, Some(parent(2))], "rebuilt rows have the trace context");
    // One request ends all jobs. It has the trace context of the third job.
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
    let ended = world.store.job(&Tenant::built_in(), leased[0].id).await.expect("works").expect("kept");
    assert_eq!((ended.life.state, ended.traceparent), (JobState::Succeeded, Some(parent(1))));
}
