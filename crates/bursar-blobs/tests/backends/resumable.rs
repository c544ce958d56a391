//! Resumable uploads.

use std::time::Duration;

use bursar::BlobState;
use bursar_blobs::{BlobError, Blobs, BodyStream, NewBlob, body};

use crate::home::{Home, broken, pieces, random};

crate::on_backends!(
    an_upload_continues_where_it_broke,
    an_upload_that_was_cut_off_before_its_end_is_completed,
    an_upload_can_be_cancelled_or_forgotten,
    lies_are_refused,
    of_two_nodes_one_continues_an_upload,
    a_request_that_hangs_loses_its_upload_to_the_next_one,
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

/// Two nodes share the backend and the database, but not the lock of a process.
async fn of_two_nodes_one_continues_an_upload(home: Home) {
    let nodes = [home.blobs.clone(), Blobs::new(home.blobs.backends().clone())];
    for round in 0..10 {
        let new = NewBlob { size: Some(2_000), ..home.new_blob() };
        let id = nodes[0].begin(&home.bursar, new).await.unwrap();
        let bytes = [random(round, 1_000), random(100 + round, 700)];
        let (one, other) = tokio::join!(
            nodes[0].resume(&home.bursar, id, 0, pieces(&bytes[0], 100)),
            nodes[1].resume(&home.bursar, id, 0, pieces(&bytes[1], 100)),
        );
        let (winner, loser) = match (&one, &other) {
            (Ok(_), Err(error)) => (0, error),
            (Err(error), Ok(_)) => (1, error),
            both => panic!("one of them wins: {both:?}"),
        };
        assert!(matches!(loser, BlobError::Locked | BlobError::Offset { .. }), "{loser:?}");
        let kept = &bytes[winner];
        assert_eq!(nodes[1].progress(&home.bursar, id).await.unwrap().offset, kept.len() as u64);
        let rest = random(200, 2_000 - kept.len());
        let done = nodes[1].resume(&home.bursar, id, kept.len() as u64, pieces(&rest, 500)).await.unwrap();
        let blob = done.stored.unwrap().blob;
        assert!(home.bytes(&blob).await == [kept.as_slice(), &rest].concat(), "the blob has what was kept");
    }
    let report = home.blobs.orphans(&home.bursar, Duration::ZERO, false).await.unwrap();
    assert_eq!((report.objects, report.orphans_total), (10, 0));
}

async fn a_request_that_hangs_loses_its_upload_to_the_next_one(home: Home) {
    let other = Blobs::new(home.blobs.backends().clone());
    let new = NewBlob { size: Some(20), ..home.new_blob() };
    let id = home.blobs.begin(&home.bursar, new).await.unwrap();
    let (arrives, mut arriving) = tokio::sync::mpsc::unbounded_channel::<&'static str>();
    let (seen, mut read) = tokio::sync::mpsc::unbounded_channel();
    let hanging: BodyStream = Box::pin(futures_util::stream::poll_fn(move |context| {
        let polled = arriving.poll_recv(context).map(|text| text.map(|text| Ok(text.into())));
        seen.send(polled.is_pending()).unwrap();
        polled
    }));
    let first = {
        let (blobs, bursar) = (home.blobs.clone(), home.bursar.clone());
        tokio::spawn(async move { blobs.resume(&bursar, id, 0, hanging).await })
    };
    arrives.send("first bytes").unwrap();
    // The first request has taken its bytes and waits for more.
    while !read.recv().await.unwrap() {}
    let again = home.blobs.resume(&home.bursar, id, 0, body("x")).await.unwrap_err();
    assert!(matches!(again, BlobError::Locked), "the same process knows that it hangs: {again:?}");
    assert_eq!(other.resume(&home.bursar, id, 0, body("second")).await.unwrap().offset, 6);
    drop(arrives);
    let late = first.await.unwrap().unwrap_err();
    assert!(matches!(late, BlobError::Locked), "{late:?}");
    assert_eq!(home.blobs.progress(&home.bursar, id).await.unwrap().offset, 6);
    let done = home.blobs.resume(&home.bursar, id, 6, body(" and the rest.")).await.unwrap();
    assert_eq!(home.bytes(&done.stored.unwrap().blob).await, b"second and the rest.");
}
