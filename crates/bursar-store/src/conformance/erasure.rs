//! Erasing payloads: the row, what is stored apart, and the journal.

use bursar_core::answer::Answer;
use bursar_core::event::Stream;
use bursar_core::id::{BatchId, GrantId, JobId};
use bursar_core::job::{End, HeartbeatItem, JobSpec, Progress};
use bursar_core::name::Tenant;
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Act, Op};
use bursar_core::time::{Span, Time};

use super::grants::{mint, redeem};
use super::work::work;
use super::world::{World, secs};
use crate::codec::to_json;
use crate::store::without_payloads;

fn json(text: &str) -> Payload {
    Payload::of(&text).expect("JSON")
}

/// Returns all entries of the journal as they are read, with their positions.
async fn journal(world: &World) -> Vec<(u64, String)> {
    let rows = world.store.list_journal(0, 1_000_000).await.expect("works");
    rows.iter().map(|row| (row.position, to_json(&row.batch.entries))).collect()
}

async fn rows(world: &World) -> Vec<BatchId> {
    world.store.list_journal(0, 1_000_000).await.expect("works").iter().map(|row| row.batch.id).collect()
}

/// Enqueues two jobs in one transaction. Both succeed, each with a checkpoint and a result.
async fn succeeded(world: &World, payloads: [Payload; 2]) -> [JobId; 2] {
    let specs = payloads.map(|payload| JobSpec { payload, ..work("q", "work") });
    let ids = world.enqueue(specs.to_vec()).await;
    assert_eq!(world.lease("q", 2).await.len(), 2);
    for id in &ids {
        let progress = Progress { data: json("a secret of the report"), ..Progress::default() };
        let progress = progress.message("a secret of the message").checkpoint(json("a secret of the checkpoint"));
        let answer = world.apply(Op::Heartbeat { beats: vec![HeartbeatItem::new(*id, 1).with_progress(progress)] });
        assert!(matches!(answer.await.answer, Answer::Renewed(each) if each.iter().all(Result::is_ok)));
        let result = json("a secret of the result");
        world.finish(*id, 1, End::Complete { result, usage: None, blobs: Vec::new() }).await.expect("it is leased");
    }
    [ids[0], ids[1]]
}

pub(super) async fn erased_payloads_of_a_job_are_nowhere(world: World) {
    let large = format!("a secret {}", "x".repeat(10_000));
    for (number, payload) in ["a secret of the payload", &large].into_iter().enumerate() {
        let [id, other] = succeeded(&world, [json(payload), json("of another job")]).await;
        let kept = world.job(other).await;
        let before = journal(&world).await;
        for round in 1..=2 {
            let done = world.act(Act::Erase, &[id]).await.remove(0).expect("it has ended");
            assert_eq!(done.job, id, "round {round}");
        }
        let erasures = world.kinds().await.iter().filter(|kind| **kind == "job.erased").count();
        assert_eq!(erasures, number + 1, "once for each job");
        let erased = world.job(id).await;
        assert_eq!((&erased.payload, &erased.life.result), (&Payload::erased(), &Payload::erased()));
        assert_eq!((&erased.life.checkpoint, &erased.life.progress), (&None, &None));

        // What was recorded before is still there, until it is overwritten.
        assert_eq!(journal(&world).await[..before.len()], before);
        assert!(world.store.erase_payloads(&[Stream::Job(id)], &rows(&world).await).await.expect("works"));
        assert!(!world.store.erase_payloads(&[Stream::Job(JobId(7))], &rows(&world).await).await.expect("works"));
        let after = journal(&world).await;
        assert_eq!(after.len(), before.len() + 1);
        let secrets: usize = after.iter().map(|(_, entries)| entries.matches("a secret").count()).sum();
        assert_eq!(secrets, 4, "those of the other job: in its report, its message, its checkpoint and its result");
        assert_eq!(world.job(other).await, kept);
        world.store.rebuild().await.expect("works");
        assert_eq!(world.job(id).await, erased);
        let rebuilt = world.job(other).await;
        assert_eq!((rebuilt.payload, rebuilt.life.result), (kept.payload, kept.life.result));
        world.assert_verified().await;

        world.clock.advance(Span::from_days(1));
        world.act(Act::Forget, &[id, other]).await;
        assert!(world.store.erase_payloads(&[Stream::Job(other)], &rows(&world).await).await.expect("works"));
        let left = journal(&world).await.iter().filter(|(_, entries)| entries.contains("a secret")).count();
        assert_eq!(left, 0);
    }
}

pub(super) async fn what_is_in_use_is_not_erased(world: World) {
    let ids = world.enqueue(vec![work("q", "work"), work("q", "work"), work("later", "work")]).await;
    world.lease("q", 1).await;
    for id in &ids {
        let refused = world.act(Act::Erase, &[*id]).await.remove(0);
        assert!(matches!(&refused, Err(Refusal::WrongState { problem, .. }) if problem.contains("cancel it")));
    }
    world.act(Act::Cancel, &ids[1..]).await;
    let done = world.act(Act::Erase, &[ids[1], ids[2], JobId(7)]).await;
    assert!(done[0].is_ok() && done[1].is_ok(), "{done:?}");
    assert!(matches!(done[2], Err(Refusal::UnknownJob { .. })));
    let refused = world.act(Act::Retry, &[ids[1]]).await.remove(0);
    assert!(matches!(&refused, Err(Refusal::WrongState { problem, .. }) if problem == "its payload was erased"));
    assert_eq!(world.job(ids[1]).await.acts(world.now()), []);

    let (token, op) = mint(1, "\"a secret\"");
    world.apply(op).await;
    let (_, op) = mint(2, "\"a secret\"");
    world.apply(op).await;
    let erase = |grant: u128| Op::EraseGrant { grant: GrantId(grant) };
    assert!(matches!(world.submit(erase(1)).await, Err(Refusal::GrantOpen { .. })));
    assert!(matches!(world.submit(erase(7)).await, Err(Refusal::UnknownGrant { .. })));
    world.apply(redeem("upload", "session-7", &token)).await;
    world.clock.advance(secs(61));
    for grant in [1, 2] {
        world.apply(erase(grant)).await;
        world.apply(erase(grant)).await;
        assert!(
            world.store.erase_payloads(&[Stream::Grant(GrantId(grant))], &rows(&world).await).await.expect("works")
        );
        let row = world.store.grant(&Tenant::built_in(), GrantId(grant)).await.expect("works").expect("it exists");
        assert_eq!(row.payload, Payload::erased());
    }
    assert_eq!(world.kinds().await.iter().filter(|kind| **kind == "grant.erased").count(), 2);
    assert!(journal(&world).await.iter().all(|(_, entries)| !entries.contains("a secret")));
    world.store.rebuild().await.expect("works");
    world.assert_verified().await;
}

pub(super) async fn archived_rows_have_no_payloads(world: World) {
    let [kept, forgotten] = succeeded(&world, [json("a secret"), json("a secret")]).await;
    world.clock.advance(Span::from_days(1));
    world.act(Act::Forget, &[forgotten]).await;
    let stored = world.store.archivable(0, Time::NEVER, usize::MAX).await.expect("works");
    let (without, payloads) = without_payloads(&stored).expect("they decode");
    assert!(payloads.iter().all(|(_, payload)| payload.as_str().contains("a secret")));
    assert_eq!(payloads.len(), 4, "two payloads and two results");
    assert!(without.iter().all(|row| !row.entries.contains("\"a secret\"")));

    // A payload that was erased meanwhile is not kept.
    world.act(Act::Erase, &[kept]).await;
    assert!(world.store.erase_payloads(&[Stream::Job(kept)], &rows(&world).await).await.expect("works"));
    assert!(!world.store.keep_payloads(&stored, &payloads).await.expect("works"));
    assert!(!world.store.erase_payloads(&[Stream::Job(kept)], &[]).await.expect("works"), "nothing was stored");

    let [kept, forgotten] = succeeded(&world, [json("a secret"), json("a secret")]).await;
    world.clock.advance(Span::from_days(1));
    world.act(Act::Forget, &[forgotten]).await;
    // The last row stays in the table.
    world.enqueue(vec![work("q", "last")]).await;
    let stored = world.store.archivable(0, Time::NEVER, usize::MAX).await.expect("works");
    let (without, payloads) = without_payloads(&stored).expect("they decode");
    assert!(world.store.keep_payloads(&stored, &payloads).await.expect("works"));
    assert!(world.store.keep_payloads(&stored, &payloads).await.expect("works"), "a second time, after a crash");
    let read = world.store.read_archived(without, 1_000_000).await.expect("works");
    let read: Vec<String> = read.iter().map(|row| to_json(&row.batch.entries)).collect();
    let of = |id: JobId| read.iter().filter(|entries| entries.contains(&id.to_string())).cloned().collect::<String>();
    assert!(of(kept).contains("\"a secret\""), "those of a job that exists are read as before");
    assert!(
        !world.store.erase_payloads(&[Stream::Job(forgotten)], &[]).await.expect("works"),
        "deleted with their job"
    );
    assert!(world.store.erase_payloads(&[Stream::Job(kept)], &[]).await.expect("works"), "they can be erased");
}
