//! Collection, and the scan for orphans.

use std::time::Duration;

use bursar::{BlobState, Bursar, NamespaceConfig, Span};

use crate::home::Home;

crate::on_backends!(
    a_deleted_blob_is_collected_after_its_grace,
    a_reference_keeps_a_blob,
    nodes_collect_at_once,
    orphans_are_found_both_ways,
);

const DAY: Duration = Duration::from_secs(86_400);

async fn a_deleted_blob_is_collected_after_its_grace(home: Home) {
    home.configure(NamespaceConfig { grace: Span::from_days(2), ..NamespaceConfig::default() }).await;
    let records = home.bursar.blob_records();
    let blob = home.put(b"one".to_vec()).await.blob;
    records.delete(blob.id).await.unwrap();
    assert_eq!(home.collect_after(DAY).await, 0);
    records.restore(blob.id).await.unwrap();
    assert_eq!(home.collect_after(10 * DAY).await, 0);
    records.delete(blob.id).await.unwrap();
    home.clock.advance(Span::from_days(2));
    let dry = home.blobs.collect(&home.bursar, 1_000, true).await.unwrap();
    assert_eq!((dry.due, dry.collected, dry.bytes), (1, 0, 3));
    assert_eq!(home.bytes(&blob).await, b"one");
    assert_eq!(home.collect_after(Duration::ZERO).await, 1);
    home.assert_empty().await;
}

async fn a_reference_keeps_a_blob(home: Home) {
    home.configure(NamespaceConfig { grace: Span::from_days(0), ..NamespaceConfig::default() }).await;
    let records = home.bursar.blob_records();
    let blob = home.put(b"one".to_vec()).await.blob;
    records.reference(blob.id, "post:1").await.unwrap();
    records.delete(blob.id).await.unwrap();
    assert_eq!(home.collect_after(DAY).await, 0);
    assert_eq!(home.bytes(&blob).await, b"one");
    records.release(blob.id, "post:1").await.unwrap();
    assert_eq!(home.collect_after(Duration::ZERO).await, 1);
    home.assert_empty().await;
}

async fn nodes_collect_at_once(home: Home) {
    home.configure(NamespaceConfig { grace: Span::from_days(0), ..NamespaceConfig::default() }).await;
    let mut kept = Vec::new();
    for number in 0..20u8 {
        let blob = home.put(vec![number; 10]).await.blob;
        home.bursar.blob_records().delete(blob.id).await.unwrap();
        if number % 4 == 0 {
            home.bursar.blob_records().restore(blob.id).await.unwrap();
            kept.push(blob);
        }
    }
    home.clock.advance(Span::from_days(1));
    let collect = || home.blobs.collect(&home.bursar, 1_000, false);
    let (one, two, three) = tokio::join!(collect(), collect(), collect());
    let collected = one.unwrap().collected + two.unwrap().collected + three.unwrap().collected;
    assert_eq!(collected, 15, "every blob is collected once");
    for blob in kept {
        assert_eq!(home.find(blob.id).await.unwrap().state, BlobState::Live);
        assert_eq!(home.bytes(&blob).await.len(), 10);
    }
}

async fn orphans_are_found_both_ways(home: Home) {
    let (one, two) = (home.put(b"one".to_vec()).await.blob, home.put(b"twotwo".to_vec()).await.blob);
    let scan = async |bursar: &bursar::Bursar, age, remove| home.blobs.orphans(bursar, age, remove).await.unwrap();
    let clean = scan(&home.bursar, Duration::ZERO, true).await;
    assert_eq!((clean.objects, clean.blobs, clean.orphans_total, clean.missing_total), (2, 2, 0, 0));
    // For another database both objects are orphans. Its clock is that of the objects.
    let other = Bursar::open(&format!("sqlite://{}", home.directory.path().join("other.db").display())).await.unwrap();
    let young = scan(&other, Duration::from_secs(3_600), true).await;
    assert_eq!((young.objects, young.orphans_total, young.deleted), (2, 0, 0), "objects of running uploads stay");
    let found = scan(&other, Duration::ZERO, false).await;
    assert_eq!((found.orphans_total, found.orphan_bytes, found.deleted), (2, 9, 0));
    let deleted = scan(&other, Duration::ZERO, true).await;
    assert_eq!((deleted.orphans_total, deleted.deleted), (2, 2));
    // Now the records of the first database have no bytes.
    let missing = scan(&home.bursar, Duration::ZERO, false).await;
    assert_eq!((missing.objects, missing.missing_total), (0, 2));
    assert_eq!(missing.missing, [one.id, two.id]);
}
