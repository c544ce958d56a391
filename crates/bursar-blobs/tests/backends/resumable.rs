//! Resumable uploads.

use std::time::Duration;

use bursar::BlobState;
use bursar_blobs::{BlobError, NewBlob, body};

use crate::home::{Home, broken, pieces, random};

crate::on_backends!(
    an_upload_continues_where_it_broke,
    an_upload_that_was_cut_off_before_its_end_is_completed,
    an_upload_can_be_cancelled_or_forgotten,
    lies_are_refused,
);

async fn an_upload_continues_where_it_broke(home: Home) {
    let bytes = random(1, 3 << 20);
    let new = NewBlob { size: Some(bytes.len() as u64), ..home.new_blob() };
    let id = home.blobs.begin(&home.bursar, new).await.unwrap();
    let error = home.blobs.resume(&home.bursar, id, 0, broken(&bytes[..1_000_000], 33_333)).await.unwrap_err();
    assert!(matches!(error, BlobError::Interrupted(_)), "{error:?}");
    let progress = home.blobs.progress(&home.bursar, id).await.unwrap();
    assert_eq!((progress.offset, progress.stored), (1_000_000, None));
    // Another position is refused, and the right one is told.
    let error = home.blobs.resume(&home.bursar, id, 5, body("x")).await.unwrap_err();
    assert!(matches!(error, BlobError::Offset { offset: 1_000_000 }), "{error:?}");
    let progress =
        home.blobs.resume(&home.bursar, id, 1_000_000, pieces(&bytes[1_000_000..2_000_000], 50_000)).await.unwrap();
    assert_eq!((progress.offset, progress.stored), (2_000_000, None));
    let progress = home.blobs.resume(&home.bursar, id, 2_000_000, pieces(&bytes[2_000_000..], 50_000)).await.unwrap();
    let stored = progress.stored.unwrap();
    assert_eq!((stored.blob.id, stored.blob.state), (id, BlobState::Live));
    assert!(home.bytes(&stored.blob).await == bytes);
    assert_eq!(home.blobs.progress(&home.bursar, id).await.unwrap().offset, bytes.len() as u64);
    let report = home.blobs.orphans(&home.bursar, Duration::ZERO, false).await.unwrap();
    assert_eq!((report.objects, report.orphans_total), (1, 0));
}

async fn an_upload_that_was_cut_off_before_its_end_is_completed(home: Home) {
    let bytes = random(2, 100_000);
    let new = NewBlob { size: Some(bytes.len() as u64), ..home.new_blob() };
    let id = home.blobs.begin(&home.bursar, new).await.unwrap();
    // The bytes are all there, but the connection broke before the answer.
    let error = home.blobs.resume(&home.bursar, id, 0, broken(&bytes, 33_333)).await.unwrap_err();
    assert!(matches!(error, BlobError::Interrupted(_)), "{error:?}");
    let stored = home.blobs.progress(&home.bursar, id).await.unwrap().stored.unwrap();
    assert!(home.bytes(&stored.blob).await == bytes);
}

async fn an_upload_can_be_cancelled_or_forgotten(home: Home) {
    for cancelled in [true, false] {
        let new = NewBlob { size: Some(1_000), ..home.new_blob() };
        let id = home.blobs.begin(&home.bursar, new).await.unwrap();
        home.blobs.resume(&home.bursar, id, 0, body(random(3, 400))).await.unwrap();
        if cancelled {
            home.blobs.cancel(&home.bursar, id).await.unwrap();
            assert_eq!(home.collect_after(Duration::ZERO).await, 1);
        } else {
            // Every request gives the upload another day.
            home.clock.advance(bursar::Span::from(Duration::from_secs(80_000)));
            home.blobs.resume(&home.bursar, id, 400, body(random(4, 100))).await.unwrap();
            assert_eq!(home.collect_after(Duration::from_secs(80_000)).await, 0);
            assert_eq!(home.collect_after(Duration::from_secs(7_000)).await, 1);
        }
        home.blobs.progress(&home.bursar, id).await.unwrap_err();
        home.assert_empty().await;
    }
}

async fn lies_are_refused(home: Home) {
    let new = NewBlob { size: Some(10), ..home.new_blob() };
    let id = home.blobs.begin(&home.bursar, new).await.unwrap();
    let error = home.blobs.resume(&home.bursar, id, 0, body(random(5, 11))).await.unwrap_err();
    assert!(matches!(error, BlobError::Length { announced: 10, received: 11 }), "{error:?}");
    assert_eq!(home.blobs.progress(&home.bursar, id).await.unwrap().offset, 0);
    home.blobs.cancel(&home.bursar, id).await.unwrap();
    let new = NewBlob { size: Some(10), content_type: Some("image/png".into()), ..home.new_blob() };
    let id = home.blobs.begin(&home.bursar, new).await.unwrap();
    let error = home.blobs.resume(&home.bursar, id, 0, body("0123456789")).await.unwrap_err();
    assert!(matches!(error, BlobError::Type { .. }), "{error:?}");
    assert_eq!(home.collect_after(Duration::ZERO).await, 2);
    home.assert_empty().await;
}
