//! Databases of schema version 4, with what versions 2 to 4 added: groups of dead jobs, blobs, and holds that charge when they expire.

use bursar::{BlobId, BlobState, Bursar, HoldState, JobId, Span};

use crate::opened::{Opened, on_both_engines};
use crate::{assert_sound, balances};

on_both_engines! { 4:
    a_database_of_version_4_opens_with_its_contents,
    a_database_of_version_4_is_rebuilt_from_its_journal,
    a_database_of_version_4_can_be_used,
}

/// The blobs, their states, lengths and references of jobs and of the application.
const BLOBS: [(&str, BlobState, u64, u64, usize); 5] = [
    ("used_blob", BlobState::Live, 100, 1, 0),
    ("made_blob", BlobState::Live, 40, 1, 0),
    ("named_blob", BlobState::Live, 30, 0, 1),
    ("deleted_blob", BlobState::Live, 20, 0, 0),
    ("brief_blob", BlobState::Live, 10, 0, 0),
];

async fn assert_contents(opened: &Opened) {
    let (bursar, known) = (&opened.bursar, opened.known);
    let blobs = bursar.blob_records();
    for (name, state, size, jobs, references) in BLOBS {
        let blob = blobs.find_any(known.id(name)).await.unwrap().unwrap_or_else(|| panic!("{name} is there"));
        assert_eq!(
            (blob.state, blob.size, blob.jobs, blob.references.len()),
            (state, Some(size), jobs, references),
            "{name}"
        );
        assert_eq!(blob.deleted_at.is_some(), name == "deleted_blob", "{name}");
    }
    assert_eq!(blobs.list_all(None, 100).await.unwrap().len(), BLOBS.len() + 1, "one is being uploaded");
    let named = blobs.find(known.id("named_blob")).await.unwrap().unwrap();
    assert_eq!((named.filename.as_deref(), named.metadata.as_str()), (Some("named.txt"), r#"{"album":7}"#));
    let media = blobs.namespace(&"media".try_into().unwrap()).await.unwrap();
    assert_eq!((media.charge.unwrap().as_str(), media.bytes_max), ("disk", 500));
    assert_eq!(balances(bursar, "disk").await, "lifetime 190+60");

    let job = bursar.jobs().find(known.id::<JobId>("blob_job")).await.unwrap().unwrap();
    let used = job.life.blobs.clone();
    assert_eq!((used, job.total_cost()), ([known.id("used_blob"), known.id("made_blob")].to_vec(), 320));
    let groups = bursar.jobs().dead_groups(None, None, 10).await.unwrap();
    assert_eq!(groups.iter().map(|group| (group.kind.as_str(), group.count)).collect::<Vec<_>>(), [("fails", 3)]);

    // 320 of the job, 80 of the hold that expired, and 25 of the one that was corrected.
    assert_eq!(balances(bursar, "team").await, "lifetime 425+700");
    for (name, state) in [
        ("charging_hold", HoldState::Held),
        ("charged_hold", HoldState::Expired),
        ("corrected_hold", HoldState::Committed),
    ] {
        let hold = bursar.ledger().find(known.id(name)).await.unwrap().unwrap();
        assert_eq!(hold.state, state, "{name}");
    }
    assert_sound(bursar).await;
}

async fn a_database_of_version_4_opens_with_its_contents(opened: Opened) {
    assert_contents(&opened).await;
    opened.bursar.close().await;
}

async fn a_database_of_version_4_is_rebuilt_from_its_journal(opened: Opened) {
    opened.bursar.rebuild().await.unwrap();
    assert_contents(&opened).await;
    opened.bursar.close().await;
}

async fn a_database_of_version_4_can_be_used(opened: Opened) {
    let (bursar, clock, known) = (&opened.bursar, &opened.clock, opened.known);
    let blobs = bursar.blob_records();
    blobs.restore(known.id("deleted_blob")).await.unwrap();
    blobs.release(known.id("named_blob"), "post:42").await.unwrap();
    blobs.delete(known.id("named_blob")).await.unwrap();
    clock.advance(Span::from_days(2));
    let due: Vec<BlobId> = blobs.due(10).await.unwrap().iter().map(|blob| blob.id).collect();
    let expected = [known.id::<BlobId>("named_blob"), known.id("brief_blob")];
    assert!(expected.iter().all(|blob| due.contains(blob)), "{due:?}");
    assert_eq!(blobs.doom(expected.to_vec()).await.unwrap(), 2);
    assert_eq!(blobs.collect(expected.to_vec()).await.unwrap(), 2);
    assert_eq!(posted(bursar, "disk").await, 160);
    // The hold that charges at its expiry does so a month later.
    clock.advance(Span::from_days(29));
    assert_eq!(posted(bursar, "team").await, 1_025);
    bursar.sweep(100).await.unwrap();
    bursar.ledger().commit(known.id("charging_hold"), 650).await.unwrap();
    assert_eq!(posted(bursar, "team").await, 1_075);
    assert_sound(bursar).await;
    opened.bursar.close().await;
}

async fn posted(bursar: &Bursar, scope: &str) -> i64 {
    bursar.ledger().budget(scope).await.unwrap().unwrap().balances[0].posted
}
