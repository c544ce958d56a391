//! The archive of the journal, beside the blobs.

use std::time::Duration;

use bursar::{ArchiveOptions, ArchivePlace, Budget, Bursar, Limit, Span, Window};
use bursar_blobs::JournalObjects;

use crate::home::Home;
use crate::on_backends;

on_backends! {
    the_journal_is_archived_beside_the_blobs,
}

async fn the_journal_is_archived_beside_the_blobs(home: Home) {
    let stored = home.put("some bytes").await;
    let budget = Budget::new([Limit::new(100, Window::Lifetime)]);
    home.bursar.ledger().define("room", budget).await.unwrap();
    for _ in 0..10 {
        home.bursar.ledger().post("room", 1).await.unwrap();
    }
    home.clock.advance(Span::from_days(2));
    home.bursar.ledger().post("room", 1).await.unwrap();
    let (before, end) = home.bursar.journal().read(0, 1_000).await.unwrap();

    let place = JournalObjects::new(home.blobs.backends().primary().clone());
    let archive = ArchiveOptions::at(place.clone()).after(Duration::from_secs(3_600));
    let url = format!("sqlite://{}", home.directory.path().join("bursar.db").display());
    let options = Bursar::options(&url).clock(home.clock.clone()).upkeep(None);
    let bursar = options.archive(archive).open().await.unwrap();
    let segment = bursar.journal().archive().await.unwrap().segments.remove(0);
    assert_eq!((segment.first, segment.last), (1, end - 1));
    assert_eq!(place.list().await.unwrap(), [segment.name()]);
    let mut read = Vec::new();
    let mut at = 0;
    while at < end {
        let (events, next) = bursar.journal().read(at, 1_000).await.unwrap();
        read.extend(events);
        at = next;
    }
    assert_eq!(read, before);
    let proof = bursar.journal().prove().await.unwrap();
    assert_eq!((proof.segments, proof.position, proof.unknown_files), (1, end, Vec::new()));
    assert_eq!(bursar.rebuild().await.unwrap(), end);
    // A scan for objects without a blob leaves segments alone.
    home.clock.advance(Span::from_days(2));
    let orphans = home.blobs.orphans(&home.bursar, Duration::ZERO, true).await.unwrap();
    assert_eq!((orphans.orphans_total, orphans.deleted), (0, 0));
    assert_eq!(home.bytes(&stored.blob).await, b"some bytes");
    bursar.journal().prove().await.unwrap();

    assert_eq!(place.read("nothing", 0..5).await.unwrap_err().kind(), std::io::ErrorKind::NotFound);
    place.put(&segment.name(), b"BURSARJ".to_vec()).await.unwrap();
    let error = bursar.journal().prove().await.unwrap_err().to_string();
    assert!(error.contains(&segment.name()), "{error}");
}
