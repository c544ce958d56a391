//! The archive of the journal: which rows may leave the table, and what is read and rebuilt without them.

use std::collections::BTreeMap;

use bursar_core::event::Stream;
use bursar_core::name::{IdempotencyKey, Tenant};
use bursar_core::payload::Payload;
use bursar_core::request::{Act, Command, Op, Request};
use bursar_core::time::{Span, Time};

use super::commands::job;
use super::journal::snapshot;
use super::mixed::mixed_stream;
use super::world::{World, limit, post, scope, secs, submitted};
use crate::codec::to_json;
use crate::segment::{self, ArchivedRow, NO_SEGMENT, Segment};
use crate::store::{ArchivedRows, Journaled, without_payloads};

/// Returns the rows that may be archived, whatever their age.
async fn archivable(world: &World, after: u64, bytes: usize) -> Vec<ArchivedRow> {
    world.store.archivable(after, Time::NEVER, bytes).await.expect("works")
}

/// Returns the rows without their payloads, which are stored apart.
async fn detached(world: &World, rows: &[ArchivedRow]) -> Vec<ArchivedRow> {
    let (without, payloads) = without_payloads(rows).expect("they decode");
    assert!(world.store.keep_payloads(rows, &payloads).await.expect("works"));
    without
}

/// Archives rows as one segment, and deletes them from the table.
async fn archive(world: &World, rows: &[ArchivedRow]) -> Segment {
    let previous = world.store.last_segment().await.expect("works").map_or(NO_SEGMENT, |last| last.digest);
    let database = world.store.database_id().await.expect("works");
    let segment = segment::encode(database, previous, rows).segment;
    assert!(world.store.record_segment(&segment).await.expect("works"));
    assert_eq!(world.store.last_segment().await.expect("works").as_ref(), Some(&segment));
    while world.store.prune_journal(3).await.expect("works") == 3 {}
    segment
}

/// Rebuilds from archived rows and the rest.
async fn rebuild(world: &World, archived: &[ArchivedRow]) -> u64 {
    let (sender, rows) = ArchivedRows::channel();
    let parts: Vec<Vec<ArchivedRow>> = archived.chunks(7).map(<[ArchivedRow]>::to_vec).collect();
    let send = tokio::spawn(async move {
        for part in parts {
            assert!(sender.send(Ok(part)).await);
        }
    });
    let events = world.store.rebuild_from(rows).await.expect("works");
    send.await.expect("all rows are wanted");
    events
}

/// Returns rows in a form that does not depend on the order of their links, which memory does not sort.
fn plain(rows: Vec<Journaled>) -> Vec<String> {
    let row = |Journaled { position, batch }: Journaled| {
        let prev: BTreeMap<String, String> =
            batch.prev.iter().map(|(stream, last)| (stream.to_owned(), last.to_string())).collect();
        format!("{position} {} {:?} {prev:?} {}", batch.id, batch.at, to_json(&batch.entries))
    };
    rows.into_iter().map(row).collect()
}

async fn journal(world: &World) -> Vec<Journaled> {
    world.store.list_journal(0, 1_000_000).await.expect("works")
}

pub(super) async fn archived_rows_are_read_and_rebuilt_as_before(world: World) {
    let created = mixed_stream(&world, 300).await;
    let payload = format!("{{\"text\":\"{}\"}}", "x".repeat(10_000));
    let large = Op::Submit(Command { jobs: vec![job(None, &payload)], ..Command::default() });
    let large = submitted(world.apply(large).await).jobs[0].id;
    // The keys of the stream expire, and are forgotten.
    world.clock.advance(Span::from_days(8));
    world.apply(post("org", 1)).await;
    while world.store.forget_keys(1_000).await.expect("works") > 0 {}
    let (whole, before) = (journal(&world).await, snapshot(&world, &created).await);
    let end = world.store.health().await.expect("works").position;

    let stored = archivable(&world, 0, usize::MAX).await;
    assert_eq!(stored.len(), whole.len() - 1, "the last row stays");
    let half = archivable(&world, 0, stored.iter().map(ArchivedRow::bytes).sum::<usize>() / 2).await;
    assert!(!half.is_empty() && half.len() < stored.len() && half[..] == stored[..half.len()]);
    let all = detached(&world, &stored).await;
    let first = archive(&world, &all[..half.len()]).await;
    let rest = archivable(&world, first.last, usize::MAX).await;
    assert!(rest[..] == stored[half.len()..], "rows after a segment are those that follow it");
    let second = archive(&world, &all[half.len()..]).await;

    assert_eq!(plain(journal(&world).await), plain(whole[whole.len() - 1..].to_vec()), "the last row is in the table");
    assert_eq!(world.store.health().await.expect("works").position, end);
    let read = world.store.read_archived(all.clone(), 1_000_000).await.expect("works");
    assert!(plain(read) == plain(whole[..all.len()].to_vec()), "archived rows read as before");
    let segments = world.store.list_segments(0, 10).await.expect("works");
    assert_eq!(segments, [first.clone(), second]);
    assert_eq!(world.store.list_segments(first.last, 10).await.expect("works"), segments[1..]);
    assert_eq!(world.store.list_segments(first.last - 1, 1).await.expect("works"), segments[..1]);
    for row in [&all[0], &all[all.len() - 1]] {
        assert_eq!(world.store.batch(row.id).await.expect("works"), None);
        let with = world.store.segments_with(row.id).await.expect("works");
        assert!(with.iter().any(|segment| (segment.first..=segment.last).contains(&row.position)));
    }

    let refused = world.store.rebuild().await.expect_err("positions are missing").to_string();
    assert!(refused.contains("archived"), "{refused}");
    assert_eq!(snapshot(&world, &created).await, before, "a rebuild that fails changes nothing");
    assert_eq!(rebuild(&world, &all).await, end);
    assert_eq!(snapshot(&world, &created).await, before);
    assert_eq!(
        world.store.job(&Tenant::built_in(), large).await.expect("works").expect("it exists").payload.as_str(),
        payload
    );
    world.assert_verified().await;
    // The journal goes on where it was, and a payload of an archived row can be erased.
    world.apply(post("org", 1)).await;
    assert_eq!(journal(&world).await.last().map(|row| row.position), Some(end + 1));
    world.act(Act::Cancel, &[large]).await;
    world.act(Act::Erase, &[large]).await;
    assert!(world.store.erase_payloads(&[Stream::Job(large)], &[]).await.expect("works"));
    assert_eq!(rebuild(&world, &all).await, end + 3);
    assert_eq!(world.job(large).await.payload, Payload::erased());
}

pub(super) async fn a_row_that_answers_a_key_is_not_archived(world: World) {
    world.budget("room", &[limit(1_000, "lifetime")]).await;
    world.apply(post("room", 1)).await;
    let key = IdempotencyKey::new("once").expect("a valid key");
    let keyed = Request { idempotency_key: Some(key), ..Request::from(post("room", 7)) };
    let answer = world.request(keyed.clone()).await.expect("it posts").answer;
    for _ in 0..3 {
        world.apply(post("room", 1)).await;
    }
    let rows = archivable(&world, 0, usize::MAX).await;
    assert_eq!(rows.iter().map(|row| row.position).collect::<Vec<_>>(), [1, 2], "those before the key");
    archive(&world, &rows).await;
    assert!(archivable(&world, 2, usize::MAX).await.is_empty());
    assert_eq!(world.request(keyed.clone()).await.expect("it is repeated").answer, answer);
    world.clock.advance(Span::from_days(8));
    while world.store.forget_keys(1_000).await.expect("works") > 0 {}
    let later = archivable(&world, 2, usize::MAX).await;
    assert_eq!(later.iter().map(|row| row.position).collect::<Vec<_>>(), [3, 4, 5]);
    archive(&world, &later).await;
    // The key is new again, also after a rebuild.
    rebuild(&world, &[rows, later].concat()).await;
    world.request(keyed).await.expect("it posts again");
    let stream = Stream::Scope(Tenant::built_in(), scope("room"));
    assert!(journal(&world).await.last().expect("a row").batch.prev.get(&stream).is_some());
}

pub(super) async fn young_rows_stay_in_the_journal(world: World) {
    world.budget("room", &[limit(1_000, "lifetime")]).await;
    world.apply(post("room", 1)).await;
    world.clock.advance(secs(3_600));
    let start = world.now();
    for _ in 0..3 {
        world.apply(post("room", 1)).await;
    }
    let old = world.store.archivable(0, start, usize::MAX).await.expect("works");
    assert_eq!(old.iter().map(|row| row.position).collect::<Vec<_>>(), [1, 2]);
    assert!(world.store.archivable(0, old[0].at, usize::MAX).await.expect("works").is_empty());
    assert_eq!(archivable(&world, 0, 1).await.len(), 1, "a row that is larger than a segment is one");
}

pub(super) async fn only_the_next_segment_is_recorded(world: World) {
    world.budget("room", &[limit(1_000, "lifetime")]).await;
    for _ in 0..8 {
        world.apply(post("room", 1)).await;
    }
    let database = world.store.database_id().await.expect("works");
    assert_eq!(world.store.database_id().await.expect("works"), database);
    assert_eq!(world.store.prune_journal(10).await.expect("works"), 0, "nothing is archived");
    let rows = archivable(&world, 0, usize::MAX).await;
    let encode = |rows: &[ArchivedRow], previous| segment::encode(database, previous, rows).segment;
    let (first, faster) = (encode(&rows[..3], NO_SEGMENT), encode(&rows[..4], NO_SEGMENT));
    let record = async |segment: &Segment| world.store.record_segment(segment).await.expect("works");
    assert!(!record(&encode(&rows[1..3], NO_SEGMENT)).await, "it does not begin at position 1");
    assert!(record(&first).await);
    assert!(!record(&first).await, "it is recorded already");
    assert!(!record(&faster).await, "another one has been recorded since");
    assert!(!record(&encode(&rows[3..5], faster.digest)).await, "it follows another segment");
    assert!(record(&encode(&rows[3..5], first.digest)).await);
    assert_eq!(world.store.prune_journal(2).await.expect("works"), 2);
    assert_eq!(journal(&world).await[0].position, 3, "the oldest rows go first");
    assert_eq!(world.store.prune_journal(10).await.expect("works"), 3);
    assert_eq!(journal(&world).await[0].position, 6, "rows without a segment stay");
}

pub(super) async fn the_last_segment_is_put_back(world: World) {
    let created = mixed_stream(&world, 120).await;
    world.clock.advance(Span::from_days(8));
    world.apply(post("org", 1)).await;
    while world.store.forget_keys(1_000).await.expect("works") > 0 {}
    let (whole, before) = (plain(journal(&world).await), snapshot(&world, &created).await);
    let all = archivable(&world, 0, usize::MAX).await;
    let (front, back) = all.split_at(all.len() / 2);
    let (first, last) = (archive(&world, front).await, archive(&world, back).await);
    let restore = async |segment: &Segment, rows: &[ArchivedRow]| {
        world.store.restore_segment(segment, rows.to_vec()).await.expect("works")
    };
    let left = journal(&world).await.len();
    assert!(!restore(&first, front).await, "another segment is the last one");
    let foreign = Segment { digest: first.digest, ..last.clone() };
    assert!(!restore(&foreign, back).await, "it has another digest");
    assert_eq!(journal(&world).await.len(), left, "nothing was put back");

    assert!(restore(&last, back).await);
    assert!(!restore(&last, back).await, "it was put back before");
    assert_eq!(world.store.last_segment().await.expect("works").as_ref(), Some(&first));
    assert_eq!(plain(journal(&world).await), whole[front.len()..]);
    // Some rows of the segment are deleted again, and others are not.
    assert!(world.store.record_segment(&last).await.expect("works"));
    assert_eq!(world.store.prune_journal(2).await.expect("works"), 2);
    assert!(restore(&last, back).await);
    assert_eq!(plain(journal(&world).await), whole[front.len()..], "each row is there once");
    assert!(restore(&first, front).await);
    assert_eq!(world.store.last_segment().await.expect("works"), None);

    assert_eq!(plain(journal(&world).await), whole);
    for row in [&all[0], &all[all.len() - 1]] {
        assert!(world.store.batch(row.id).await.expect("works").is_some());
    }
    assert_eq!(world.store.prune_journal(10).await.expect("works"), 0, "nothing is archived");
    world.store.rebuild().await.expect("no position is missing");
    assert_eq!(snapshot(&world, &created).await, before);
    world.assert_verified().await;
    world.apply(post("org", 1)).await;
    assert_eq!(journal(&world).await.len(), whole.len() + 1);
}
