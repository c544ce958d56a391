//! Blobs: uploads, digests, bytes as spend, references, deletion and collection.

use bursar_core::answer::{Answer, BlobAnswer};
use bursar_core::blob::{Blob, BlobSpec, BlobState, NamespaceConfig, Sha256Digest};
use bursar_core::bounds::{BLOB_REFERENCES_MAX, UPLOAD_STEP};
use bursar_core::context::Context;
use bursar_core::id::BlobId;
use bursar_core::job::{End, JobSpec, QueueConfig, Retention};
use bursar_core::name::{Backend, IdempotencyKey, Namespace, Referrer, Tenant};
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Act, BlobOp, Command, NamedReference, Op, Request};
use bursar_core::time::Span;

use super::work::{complete, enqueue, is_lost, work};
use super::world::{World, available, limit, scope, secs};
use crate::figures::BlobFilter;

const GRACE: Span = Span::from_secs(100);
const TTL: Span = Span::from_secs(60);

fn namespace(name: &str) -> Namespace {
    Namespace::new(name).expect("a valid name")
}

fn name(name: &str) -> Referrer {
    Referrer::new(name).expect("a valid name")
}

/// Stands for the digest of bytes.
fn digest(bytes: u8) -> Sha256Digest {
    Sha256Digest([bytes; 32])
}

fn spec(space: &str) -> BlobSpec {
    BlobSpec::new(namespace(space), Backend::new("local").expect("a valid name"))
}

fn sized(space: &str, size: u64) -> BlobSpec {
    BlobSpec { size: Some(size), ..spec(space) }
}

fn start(spec: BlobSpec) -> Op {
    Op::Blob(BlobOp::Start { spec, ttl: TTL })
}

fn store(blob: BlobId, size: u64, bytes: u8) -> Op {
    Op::Blob(BlobOp::Store { blob, size, digest: digest(bytes) })
}

fn using(blobs: &[BlobId]) -> JobSpec {
    JobSpec { blobs: blobs.to_vec(), ..work("q", "x") }
}

fn making(blobs: &[BlobId]) -> End {
    End::Complete { result: Payload::default(), usage: None, blobs: blobs.to_vec() }
}

impl World {
    pub(super) async fn rules(&self, space: &str, config: NamespaceConfig) {
        self.apply(Op::Blob(BlobOp::DefineNamespace { namespace: namespace(space), config })).await;
    }

    async fn upload_with(&self, op: Op) -> BlobAnswer {
        match self.apply(op).await.answer {
            Answer::Blob(answer) => answer,
            other => panic!("expected the answer of an upload: {other:?}"),
        }
    }

    async fn start(&self, spec: BlobSpec) -> BlobId {
        let started = self.upload_with(start(spec)).await;
        assert!(!started.found);
        started.blob
    }

    pub(super) async fn upload(&self, space: &str, size: u64, bytes: u8) -> BlobAnswer {
        let blob = self.start(sized(space, size)).await;
        self.upload_with(store(blob, size, bytes)).await
    }

    async fn blob(&self, id: BlobId) -> Option<Blob> {
        self.store.blob(&Tenant::built_in(), id).await.expect("the store works")
    }

    async fn blob_state(&self, id: BlobId) -> Option<BlobState> {
        self.blob(id).await.map(|blob| blob.state)
    }

    pub(super) async fn change(&self, op: BlobOp) -> Result<(), Refusal> {
        self.submit(Op::Blob(op)).await.map(drop)
    }

    /// Dooms and collects what is due, as the collection does. Returns how many blobs it doomed and collected.
    pub(super) async fn collect(&self) -> (usize, usize) {
        let mut counts = (0, 0);
        for doomed in [false, true] {
            let due = self.store.due_blobs(100).await.expect("works");
            let due = due.into_iter().filter(|blob| (blob.state == BlobState::Doomed) == doomed);
            let blobs: Vec<BlobId> = due.map(|blob| blob.id).collect();
            let op = if doomed { BlobOp::Collect { blobs } } else { BlobOp::Doom { blobs } };
            let Answer::Swept { count } = self.apply(Op::Blob(op)).await.answer else { panic!("expected a count") };
            if doomed { counts.1 = count } else { counts.0 = count }
        }
        counts
    }
}

pub(super) async fn an_upload_becomes_live_and_is_found_by_its_bytes(world: World) {
    let described = BlobSpec {
        filename: Some("a.png".into()),
        content_type: "image/png".into(),
        metadata: Payload::new("{\"a\":1}").expect("JSON"),
        ..sized("media", 10)
    };
    let first = world.start(described).await;
    assert_eq!(world.blob_state(first).await, Some(BlobState::Pending));
    let stored = world.upload_with(store(first, 10, 1)).await;
    assert_eq!(stored, BlobAnswer { blob: first, found: false });
    let blob = world.blob(first).await.expect("it exists");
    assert!(blob.is_available());
    assert_eq!((blob.size, blob.digest), (Some(10), Some(digest(1))));
    assert_eq!((blob.filename.as_deref(), blob.content_type.as_str()), (Some("a.png"), "image/png"));
    assert_eq!(world.upload_with(store(first, 10, 1)).await, stored, "a repeated report has no second effect");

    let second = world.start(sized("media", 10)).await;
    let found = world.upload_with(store(second, 10, 1)).await;
    assert_eq!(found, BlobAnswer { blob: first, found: true });
    assert_eq!(world.blob_state(second).await, Some(BlobState::Doomed), "the second copy is not needed");
    let announced = BlobSpec { digest: Some(digest(1)), ..sized("media", 10) };
    assert_eq!(world.upload_with(start(announced.clone())).await, found, "an announced digest is found at once");
    let elsewhere = BlobSpec { namespace: namespace("other"), ..announced };
    assert!(!world.upload_with(start(elsewhere)).await.found, "another namespace has its own blobs");
    assert!(!world.upload("media", 10, 2).await.found, "other bytes are another blob");
    world.assert_verified().await;
}

pub(super) async fn a_deleted_blob_is_not_found_and_can_be_restored(world: World) {
    world.rules("media", NamespaceConfig { grace: GRACE, ..NamespaceConfig::default() }).await;
    let first = world.upload("media", 10, 1).await.blob;
    world.change(BlobOp::Delete { blob: first }).await.expect("it is live");
    world.change(BlobOp::Delete { blob: first }).await.expect("repeating has no effect");
    let blob = world.blob(first).await.expect("it is kept for a while");
    assert!(blob.deleted_at.is_some() && !blob.is_available());
    let second = world.upload("media", 10, 1).await;
    assert!(!second.found, "a deleted blob is not found");
    world.assert_verified().await;

    world.change(BlobOp::Restore { blob: first }).await.expect("the grace period is not over");
    assert!(world.blob(first).await.expect("it exists").is_available());
    assert_eq!(world.upload("media", 10, 1).await, BlobAnswer { blob: second.blob, found: true });
    world.change(BlobOp::Delete { blob: second.blob }).await.expect("it is live");
    // The first one is live and not found now, which is allowed: only one of several copies is found.
    world.assert_verified().await;
    world.change(BlobOp::Delete { blob: first }).await.expect("it is live");
    world.change(BlobOp::Restore { blob: first }).await.expect("the grace period is not over");
    assert_eq!(world.upload("media", 10, 1).await, BlobAnswer { blob: first, found: true });
    world.assert_verified().await;
    world.clock.advance(GRACE);
    assert_eq!(world.collect().await.0, 1, "only the deleted one; the doomed copies were doomed before");
    assert_eq!(world.blob_state(second.blob).await, None);
    assert_eq!(world.blob_state(first).await, Some(BlobState::Live));
    world.assert_verified().await;
}

pub(super) async fn an_upload_that_is_not_as_announced_is_refused(world: World) {
    world.rules("media", NamespaceConfig { bytes_max: 100, ..NamespaceConfig::default() }).await;
    let large = world.submit(start(sized("media", 101))).await;
    assert!(matches!(large, Err(Refusal::BlobTooLarge { size: 101, most: 100 })), "{large:?}");
    let blob = world.start(BlobSpec { digest: Some(digest(1)), ..sized("media", 10) }).await;
    for op in [store(blob, 9, 1), store(blob, 11, 1), store(blob, 10, 2)] {
        let refused = world.submit(op).await;
        assert!(matches!(refused, Err(Refusal::BlobMismatch { .. })), "{refused:?}");
    }
    let longer = world.change(BlobOp::Grow { blob, size: 11, ttl: TTL }).await;
    assert!(matches!(longer, Err(Refusal::BlobMismatch { .. })), "{longer:?}");
    let open = world.start(spec("media")).await;
    for op in [store(open, 101, 3), Op::Blob(BlobOp::Grow { blob: open, size: 101, ttl: TTL })] {
        let refused = world.submit(op).await;
        assert!(matches!(refused, Err(Refusal::BlobTooLarge { .. })), "{refused:?}");
    }
    assert_eq!(world.blob_state(blob).await, Some(BlobState::Pending), "nothing was stored");
    world.change(BlobOp::Abandon { blob }).await.expect("it is pending");
    world.change(BlobOp::Abandon { blob }).await.expect("repeating has no effect");
    let over = world.submit(store(blob, 10, 1)).await;
    assert!(matches!(over, Err(Refusal::UploadOver { state: BlobState::Doomed, .. })), "{over:?}");
    let unknown = world.submit(store(BlobId(7), 10, 1)).await;
    assert!(matches!(unknown, Err(Refusal::UnknownBlob { .. })), "{unknown:?}");
}

pub(super) async fn bytes_are_held_posted_and_credited(world: World) {
    world.budget("tenant", &[limit(1_000, "lifetime")]).await;
    let mut child = super::world::loose(&[limit(5_000, "lifetime")]);
    child.parent = Some(scope("tenant"));
    world.define("disk", child).await;
    let config = NamespaceConfig { charge: Some(scope("disk")), grace: GRACE, ..NamespaceConfig::default() };
    world.rules("media", config.clone()).await;

    let blob = world.start(sized("media", 600)).await;
    assert_eq!(world.balance("tenant", "lifetime").await, (0, 600), "the length is held while the bytes stream");
    assert_eq!(available(world.submit(start(sized("media", 401))).await), 400, "an upload without room is refused");
    world.upload_with(store(blob, 600, 1)).await;
    assert_eq!(world.balance("disk", "lifetime").await, (600, 0));
    assert_eq!(world.balance("tenant", "lifetime").await, (600, 0));

    let twin = world.start(sized("media", 300)).await;
    let copy = world.upload("media", 100, 2).await;
    assert!(!copy.found);
    world.upload_with(store(twin, 300, 3)).await;
    assert_eq!(world.balance("tenant", "lifetime").await, (1_000, 0));
    world.change(BlobOp::Delete { blob }).await.expect("it is live");
    assert_eq!(world.balance("tenant", "lifetime").await, (1_000, 0), "deleted bytes are still stored");
    world.clock.advance(GRACE);
    assert_eq!(world.collect().await, (1, 1));
    assert_eq!(world.balance("disk", "lifetime").await, (400, 0), "collected bytes are credited");
    assert_eq!(world.balance("tenant", "lifetime").await, (400, 0));

    let abandoned = world.start(sized("media", 500)).await;
    world.change(BlobOp::Abandon { blob: abandoned }).await.expect("it is pending");
    let same = world.start(sized("media", 100)).await;
    assert!(world.upload_with(store(same, 100, 2)).await.found);
    assert_eq!(world.balance("tenant", "lifetime").await, (400, 0), "nothing is held for uploads that are over");

    world.budget("monthly", &[limit(10, "month")]).await;
    for charge in ["monthly", "unknown"] {
        let config = NamespaceConfig { charge: Some(scope(charge)), ..config.clone() };
        let defined = world.change(BlobOp::DefineNamespace { namespace: namespace("media"), config }).await;
        assert!(matches!(defined, Err(Refusal::Invalid(_) | Refusal::UnknownScope { .. })), "{charge}: {defined:?}");
    }
    world.assert_verified().await;
}

pub(super) async fn an_upload_of_unknown_length_holds_more_as_it_grows(world: World) {
    let room = 3 * UPLOAD_STEP + 100;
    world.budget("disk", &[limit(room as i64, "lifetime")]).await;
    world.rules("media", NamespaceConfig { charge: Some(scope("disk")), ..NamespaceConfig::default() }).await;
    let blob = world.start(spec("media")).await;
    let held = async || world.balance("disk", "lifetime").await.1 as u64;
    assert_eq!(held().await, UPLOAD_STEP);
    let grow = async |size: u64| world.change(BlobOp::Grow { blob, size, ttl: TTL }).await;
    grow(UPLOAD_STEP).await.expect("it is covered");
    assert_eq!(held().await, UPLOAD_STEP);
    grow(UPLOAD_STEP + 1).await.expect("there is room");
    assert_eq!(held().await, 2 * UPLOAD_STEP, "what is held doubles");
    grow(3 * UPLOAD_STEP).await.expect("there is room for the exact length");
    assert_eq!(held().await, 3 * UPLOAD_STEP, "where the double has no room, the exact length is held");
    assert_eq!(available(world.submit(start(sized("media", 101))).await), 100);
    let short = world.start(spec("media")).await;
    assert_eq!(held().await, 3 * UPLOAD_STEP + 1, "a short upload may still fit");
    world.change(BlobOp::Grow { blob: short, size: 90, ttl: TTL }).await.expect("there is room");
    world.change(BlobOp::Abandon { blob: short }).await.expect("it is pending");
    let refused = grow(room + 1).await;
    assert!(matches!(refused, Err(Refusal::Refused(_))), "{refused:?}");
    world.upload_with(store(blob, 2 * UPLOAD_STEP + 5, 1)).await;
    assert_eq!(world.balance("disk", "lifetime").await, (2 * UPLOAD_STEP as i64 + 5, 0), "the real length is posted");
    assert_eq!(world.blob(blob).await.expect("it exists").holds.len(), 3);
    world.assert_verified().await;
    world.change(BlobOp::Delete { blob }).await.expect("it is live");
    world.clock.advance(NamespaceConfig::default().grace);
    world.collect().await;
    assert_eq!(world.balance("disk", "lifetime").await, (0, 0));
    world.assert_verified().await;
}

pub(super) async fn a_job_keeps_the_blobs_it_uses_and_makes(world: World) {
    world.rules("media", NamespaceConfig { grace: GRACE, ..NamespaceConfig::default() }).await;
    let retention = Retention { succeeded: Some(secs(1_000)), ..Retention::default() };
    world.set_queue("q", QueueConfig { retention, ..QueueConfig::default() }).await;
    let used = world.upload("media", 10, 1).await.blob;
    let made = world.upload("media", 10, 2).await.blob;
    let unknown = world.submit(enqueue(vec![using(&[used, BlobId(9)])])).await;
    assert!(matches!(unknown, Err(Refusal::UnknownBlob { .. })), "{unknown:?}");
    assert_eq!(world.blob(used).await.expect("it exists").jobs, 0, "a refused command refers to nothing");
    let job = world.enqueue(vec![using(&[used, used])]).await[0];
    assert_eq!(world.blob(used).await.expect("it exists").jobs, 1, "one job counts once");
    let leased = world.lease("q", 1).await.remove(0);
    assert_eq!(leased.life.blobs, [used]);
    world.finish(job, leased.life.fence, making(&[made, used])).await.expect("the lease is current");
    world.finish(job, leased.life.fence, making(&[made, used])).await.expect("repeating has no effect");
    let other = world.upload("media", 10, 3).await.blob;
    let repeated = world.finish(job, leased.life.fence, making(&[made, other])).await;
    assert!(matches!(repeated, Err(Refusal::BlobsRecorded { blob, .. }) if blob == other), "{repeated:?}");
    assert_eq!(world.blob(other).await.expect("it exists").jobs, 0);
    assert_eq!(world.job(job).await.life.blobs, [used, made]);
    for blob in [used, made] {
        assert_eq!(world.blob(blob).await.expect("it exists").jobs, 1);
        world.change(BlobOp::Delete { blob }).await.expect("it is live");
    }
    world.clock.advance(GRACE);
    assert_eq!(world.collect().await, (0, 0), "a blob that a job refers to is kept");
    world.assert_verified().await;
    world.clock.advance(secs(1_000));
    let forgotten = world.act(Act::Forget, &[job]).await;
    assert!(forgotten[0].is_ok(), "{forgotten:?}");
    assert!(world.store.job(&Tenant::built_in(), job).await.expect("works").is_none());
    assert_eq!(world.collect().await, (2, 2), "with the job its references are gone");
    world.assert_verified().await;
}

pub(super) async fn a_blob_made_under_a_lost_lease_is_not_referenced(world: World) {
    let made = world.upload("media", 10, 2).await.blob;
    let job = world.enqueue(vec![using(&[])]).await[0];
    let first = world.lease("q", 1).await.remove(0);
    world.clock.advance(secs(31));
    assert_eq!(world.rescue().await, 1);
    let late = world.finish(job, first.life.fence, making(&[made])).await;
    assert!(is_lost(&late, false), "{late:?}");
    assert_eq!(world.blob(made).await.expect("it exists").jobs, 0);
    world.clock.advance(secs(60));
    let second = world.lease("q", 1).await.remove(0);
    let missing = world.finish(job, second.life.fence, making(&[BlobId(9)])).await;
    assert!(matches!(missing, Err(Refusal::UnknownBlob { .. })), "{missing:?}");
    world.finish(job, second.life.fence, complete(None)).await.expect("the lease is still current");
    world.assert_verified().await;
}

pub(super) async fn the_application_keeps_a_blob_by_name(world: World) {
    world.rules("media", NamespaceConfig { grace: GRACE, ..NamespaceConfig::default() }).await;
    let blob = world.upload("media", 10, 1).await.blob;
    let refer = async |by: &str| world.change(BlobOp::Reference { blob, by: name(by) }).await;
    let release = async |by: &str| world.change(BlobOp::Release { blob, by: name(by) }).await;
    refer("post:1").await.expect("it is live");
    refer("post:1").await.expect("repeating has no effect");
    let references = vec![
        NamedReference { blob, by: name("post:2") },
        NamedReference { blob, by: name("post:2") },
        NamedReference { blob, by: name("post:1") },
    ];
    world.apply(Op::Submit(Command { references, ..Command::default() })).await;
    assert_eq!(world.blob(blob).await.expect("it exists").references.len(), 2);
    world.change(BlobOp::Delete { blob }).await.expect("it is live");
    assert!(matches!(refer("post:3").await, Err(Refusal::UnknownBlob { .. })), "a deleted blob gets no reference");
    world.clock.advance(GRACE);
    release("post:1").await.expect("it exists");
    release("post:1").await.expect("repeating has no effect");
    assert_eq!(world.collect().await, (0, 0), "the second reference keeps it");
    release("post:2").await.expect("it exists");
    assert_eq!(world.collect().await, (1, 1));
    world.assert_verified().await;

    let blob = world.upload("media", 10, 2).await.blob;
    for n in 0..BLOB_REFERENCES_MAX {
        world.change(BlobOp::Reference { blob, by: name(&format!("post:{n}")) }).await.expect("it is live");
    }
    let more = world.change(BlobOp::Reference { blob, by: name("one more") }).await;
    assert!(matches!(more, Err(Refusal::TooManyReferences { .. })), "{more:?}");
}

pub(super) async fn blobs_without_references_are_collected_if_their_namespace_says_so(world: World) {
    let config = NamespaceConfig { unreferenced: Some(secs(50)), ..NamespaceConfig::default() };
    world.rules("scratch", config).await;
    let kept = world.upload("media", 10, 1).await.blob;
    let idle = world.upload("scratch", 10, 1).await.blob;
    let used = world.upload("scratch", 10, 2).await.blob;
    world.change(BlobOp::Reference { blob: used, by: name("a") }).await.expect("it is live");
    world.clock.advance(secs(50));
    assert_eq!(world.collect().await, (1, 1));
    assert_eq!(world.blob_state(idle).await, None);
    world.change(BlobOp::Release { blob: used, by: name("a") }).await.expect("it exists");
    assert_eq!(world.collect().await, (0, 0), "its time begins with the last release");
    world.clock.advance(secs(50));
    assert_eq!(world.collect().await, (1, 1));
    assert_eq!(world.blob_state(kept).await, Some(BlobState::Live), "other namespaces keep theirs");
    world.assert_verified().await;
}

pub(super) async fn a_doomed_blob_is_gone_for_good(world: World) {
    world.budget("disk", &[limit(1_000, "lifetime")]).await;
    let config = NamespaceConfig { grace: GRACE, charge: Some(scope("disk")), ..NamespaceConfig::default() };
    world.rules("media", config).await;
    let blob = world.upload("media", 10, 1).await.blob;
    world.change(BlobOp::Delete { blob }).await.expect("it is live");
    let early = Op::Blob(BlobOp::Doom { blobs: vec![blob] });
    assert_eq!(world.apply(early).await.answer, Answer::Swept { count: 0 }, "its grace period is not over");
    let live = Op::Blob(BlobOp::Collect { blobs: vec![blob] });
    assert_eq!(world.apply(live).await.answer, Answer::Swept { count: 0 }, "only doomed blobs are collected");
    world.clock.advance(GRACE);
    let dry = Request { dry_run: true, ..Op::Blob(BlobOp::Doom { blobs: vec![blob] }).into() };
    assert_eq!(world.request(dry).await.expect("it is due").answer, Answer::Swept { count: 1 });
    assert_eq!(world.blob_state(blob).await, Some(BlobState::Live), "a dry run changes nothing");
    let doom = Op::Blob(BlobOp::Doom { blobs: vec![blob, blob] });
    assert_eq!(world.apply(doom).await.answer, Answer::Swept { count: 1 });
    for op in [
        BlobOp::Restore { blob },
        BlobOp::Delete { blob },
        BlobOp::Reference { blob, by: name("a") },
        BlobOp::Move { blob, backend: Backend::new("s3").expect("a valid name") },
    ] {
        let refused = world.change(op).await;
        assert!(matches!(refused, Err(Refusal::UnknownBlob { .. })), "{refused:?}");
    }
    assert!(world.submit(enqueue(vec![using(&[blob])])).await.is_err());
    assert!(!world.upload("media", 10, 1).await.found, "a doomed blob is not found by its bytes");
    assert_eq!(world.collect().await, (0, 1));
    assert_eq!(world.blob_state(blob).await, None);
    let blob = world.upload("media", 10, 9).await.blob;
    world.change(BlobOp::Delete { blob }).await.expect("it is live");
    world.clock.advance(GRACE);
    let both = [BlobOp::Doom { blobs: vec![blob] }, BlobOp::Collect { blobs: vec![blob] }];
    let both = world.batch(both.map(|op| Op::Blob(op).into()).into()).await;
    let both: Vec<Answer> = both.into_iter().map(|answer| answer.expect("sweeps are not refused").answer).collect();
    assert_eq!(both, [Answer::Swept { count: 1 }, Answer::Swept { count: 1 }], "in one batch");
    let kinds = world.kinds().await;
    assert!(kinds.ends_with(&["blob.collected"]), "{kinds:?}");
    world.assert_verified().await;
}

pub(super) async fn uploads_that_stand_still_are_collected(world: World) {
    world.budget("disk", &[limit(1_000, "lifetime")]).await;
    world.rules("media", NamespaceConfig { charge: Some(scope("disk")), ..NamespaceConfig::default() }).await;
    let still = world.start(sized("media", 100)).await;
    let moving = world.start(sized("media", 100)).await;
    world.clock.advance(secs(40));
    world.change(BlobOp::Grow { blob: moving, size: 50, ttl: TTL }).await.expect("it goes on");
    world.clock.advance(secs(30));
    assert_eq!(world.collect().await, (1, 1));
    assert_eq!(world.blob_state(still).await, None);
    assert_eq!(world.blob_state(moving).await, Some(BlobState::Pending));
    world.upload_with(store(moving, 100, 1)).await;
    assert_eq!(world.balance("disk", "lifetime").await.0, 100, "a hold that expired meanwhile is committed late");
    world.assert_verified().await;
}

pub(super) async fn blobs_of_tenants_are_isolated(world: World) {
    let blob = world.upload("media", 10, 1).await.blob;
    let other = Context::of(Tenant::new("other").expect("a valid name"));
    let in_other = async |op: Op| world.request(Request::from(op).in_context(other.clone())).await;
    for op in [
        BlobOp::Delete { blob },
        BlobOp::Reference { blob, by: name("a") },
        BlobOp::Store { blob, size: 10, digest: digest(1) },
        BlobOp::Abandon { blob },
    ] {
        let refused = in_other(Op::Blob(op)).await;
        assert!(matches!(refused, Err(Refusal::UnknownBlob { .. })), "{refused:?}");
    }
    assert!(in_other(enqueue(vec![using(&[blob])])).await.is_err());
    let announced = BlobSpec { digest: Some(digest(1)), ..sized("media", 10) };
    let Answer::Blob(started) = in_other(start(announced)).await.expect("it begins").answer else { panic!("a blob") };
    assert!(!started.found, "the bytes of another tenant are not found");
    let swept = in_other(Op::Blob(BlobOp::Doom { blobs: vec![blob] })).await.expect("it is left out").answer;
    assert_eq!(swept, Answer::Swept { count: 0 });
    assert_eq!(world.store.list_blobs(&other.tenant, &BlobFilter::default(), None, 9).await.expect("works").len(), 1);
    assert!(world.blob(blob).await.expect("it exists").is_available());
    assert_eq!(world.store.blob(&other.tenant, blob).await.expect("works"), None);
    assert_eq!(world.store.blob_of_any_tenant(blob).await.expect("works"), world.blob(blob).await);
}

pub(super) async fn blobs_and_namespaces_are_listed_in_pages(world: World) {
    let tenant = Tenant::built_in();
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(world.upload(if n % 2 == 0 { "even" } else { "odd" }, 10, n).await.blob);
        world.rules(&format!("n{n}"), NamespaceConfig { bytes_max: 10 + u64::from(n), ..Default::default() }).await;
    }
    let list = async |space: Option<&str>, newest_first: bool, after: Option<BlobId>, limit: usize| -> Vec<BlobId> {
        let filter = BlobFilter { namespace: space.map(namespace), newest_first };
        let found = world.store.list_blobs(&tenant, &filter, after, limit).await.expect("works");
        found.iter().map(|blob| blob.id).collect()
    };
    assert_eq!(list(None, false, None, 2).await, ids[..2]);
    assert_eq!(list(None, false, Some(ids[1]), 9).await, ids[2..]);
    assert_eq!(list(Some("odd"), false, None, 9).await, [ids[1], ids[3]]);
    assert_eq!(list(Some("even"), false, Some(ids[0]), 1).await, [ids[2]]);
    assert_eq!(list(None, true, None, 2).await, [ids[4], ids[3]]);
    assert_eq!(list(None, true, Some(ids[3]), 9).await, [ids[2], ids[1], ids[0]]);
    assert_eq!(list(Some("odd"), true, None, 9).await, [ids[3], ids[1]]);
    assert_eq!(list(Some("even"), true, Some(ids[4]), 1).await, [ids[2]]);
    let all = world.store.list_all_blobs(Some(ids[2]), 9).await.expect("works");
    assert_eq!(all.iter().map(|blob| blob.id).collect::<Vec<_>>(), ids[3..]);
    let page = world.store.list_namespaces(&tenant, Some(&namespace("n1")), 2).await.expect("works");
    let page: Vec<_> = page.iter().map(|(name, row)| (name.as_str(), row.config.bytes_max)).collect();
    assert_eq!(page, [("n2", 12), ("n3", 13)]);
    let one = world.store.namespace(&(tenant.clone(), namespace("n4"))).await.expect("works").expect("it has rules");
    assert_eq!((one.config.bytes_max, one.version), (14, 1));
    assert!(world.store.namespace(&(tenant.clone(), namespace("none"))).await.expect("works").is_none());
}

pub(super) async fn a_repeated_upload_request_has_one_effect(world: World) {
    let keyed = |op: Op, key: &str| Request::from(op).with_key(IdempotencyKey::new(key).expect("a valid name"));
    let answer = async |request: Request| world.request(request).await.expect("it is admitted").answer;
    let started = answer(keyed(start(sized("media", 10)), "a")).await;
    let Answer::Blob(BlobAnswer { blob, .. }) = started else { panic!("expected a blob: {started:?}") };
    assert_eq!(answer(keyed(start(sized("media", 10)), "a")).await, started);
    let stored = answer(keyed(store(blob, 10, 1), "b")).await;
    assert_eq!(answer(keyed(store(blob, 10, 1), "b")).await, stored);
    let second = world.start(sized("media", 10)).await;
    let found = answer(keyed(store(second, 10, 1), "c")).await;
    assert_eq!(found, Answer::Blob(BlobAnswer { blob, found: true }));
    assert_eq!(answer(keyed(store(second, 10, 1), "c")).await, found, "also after the upload is doomed");
    let blobs = world.store.list_blobs(&Tenant::built_in(), &BlobFilter::default(), None, 9).await.expect("works");
    assert_eq!(blobs.len(), 2);
    // Two uploads of the same bytes that end in one batch.
    let twins = [world.start(sized("media", 10)).await, world.start(sized("media", 10)).await];
    let ends = world.batch(twins.iter().map(|twin| store(*twin, 10, 7).into()).collect()).await;
    let found: Vec<bool> = ends
        .into_iter()
        .map(|end| matches!(end.expect("it is admitted").answer, Answer::Blob(answer) if answer.found))
        .collect();
    assert_eq!(found, [false, true]);
}

pub(super) async fn rebuild_restores_blobs(world: World) {
    world.budget("disk", &[limit(10_000, "lifetime")]).await;
    let config = NamespaceConfig { charge: Some(scope("disk")), grace: GRACE, ..NamespaceConfig::default() };
    world.rules("media", config).await;
    let blobs = [1, 2, 3, 4, 5].map(|bytes| (bytes, u64::from(bytes) * 100));
    let mut ids = Vec::new();
    for (bytes, size) in blobs {
        ids.push(world.upload("media", size, bytes).await.blob);
    }
    ids.push(world.start(spec("media")).await);
    let job = world.enqueue(vec![using(&ids[..2])]).await[0];
    world.change(BlobOp::Reference { blob: ids[2], by: name("a") }).await.expect("it is live");
    world.change(BlobOp::Delete { blob: ids[2] }).await.expect("it is live");
    world.change(BlobOp::Delete { blob: ids[3] }).await.expect("it is live");
    let backend = Backend::new("s3").expect("a valid name");
    world.change(BlobOp::Move { blob: ids[4], backend }).await.expect("it is live");
    world.clock.advance(GRACE);
    world.collect().await;
    let leased = world.lease("q", 1).await.remove(0);
    world.finish(job, leased.life.fence, making(&[ids[4]])).await.expect("the lease is current");
    let rows = async || {
        let tenant = Tenant::built_in();
        let blobs = world.store.list_blobs(&tenant, &BlobFilter::default(), None, 99).await.expect("works");
        let namespaces = world.store.list_namespaces(&tenant, None, 99).await.expect("works");
        (blobs, namespaces, world.job(job).await.life.blobs, world.balance("disk", "lifetime").await)
    };
    let before = rows().await;
    assert_eq!(before.0.len(), 4, "one is collected, and so is the upload that stood still");
    world.store.rebuild().await.expect("works");
    assert_eq!(rows().await, before);
    world.assert_verified().await;
    assert_eq!(world.upload("media", 100, 1).await, BlobAnswer { blob: ids[0], found: true });
}
