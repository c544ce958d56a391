//! Uploads and downloads.

use bursar::{BlobState, Budget, Limit, NamespaceConfig, Refusal, Window};
use bursar_blobs::{BlobError, NewBlob, body};
use futures_util::TryStreamExt;

use crate::home::{Home, broken, pieces, random};

crate::on_backends!(
    bytes_come_back_as_they_were,
    the_same_bytes_are_stored_once,
    bad_uploads_leave_nothing,
    a_range_is_read,
    storage_is_a_budget,
    the_backend_tells_what_it_can_do,
);

async fn bytes_come_back_as_they_were(home: Home) {
    for (seed, size) in [0, 1, 5_000, 1 << 20, (9 << 20) + 17].into_iter().enumerate() {
        let bytes = random(seed as u8, size);
        for known in [true, false] {
            let size = known.then_some(size as u64);
            let new = NewBlob {
                size,
                namespace: bursar::Namespace::new(if known { "a" } else { "b" }).unwrap(),
                ..home.new_blob()
            };
            let stored = home.blobs.put(&home.bursar, new, pieces(&bytes, 70_000)).await.unwrap();
            assert_eq!((stored.found, stored.blob.state), (false, BlobState::Live));
            assert_eq!(stored.blob.size, Some(bytes.len() as u64));
            assert!(home.bytes(&stored.blob).await == bytes, "{} bytes came back changed", bytes.len());
        }
    }
    let report = home.blobs.orphans(&home.bursar, std::time::Duration::ZERO, false).await.unwrap();
    assert_eq!((report.objects, report.blobs, report.orphans_total, report.missing_total), (10, 10, 0, 0));
}

async fn the_same_bytes_are_stored_once(home: Home) {
    let first = home.put(b"hello".to_vec()).await;
    let again = home.put(b"hello".to_vec()).await;
    assert_eq!((first.found, again.found), (false, true));
    assert_eq!(first.blob.id, again.blob.id);
    // The second object is collected, the first one stays.
    assert_eq!(home.collect_after(std::time::Duration::from_secs(1)).await, 1);
    assert_eq!(home.bytes(&first.blob).await, b"hello");
    // Other namespaces and tenants have their own.
    let other = NewBlob::new(bursar::Namespace::new("other").unwrap());
    assert!(!home.blobs.put(&home.bursar, other, body("hello")).await.unwrap().found);
    let stranger = home.bursar.tenant("stranger").unwrap();
    assert!(!home.blobs.put(&stranger, home.new_blob(), body("hello")).await.unwrap().found);
}

async fn bad_uploads_leave_nothing(home: Home) {
    let digest = home.put(b"other".to_vec()).await.blob;
    home.bursar.blob_records().delete(digest.id).await.unwrap();
    assert_eq!(home.collect_after(std::time::Duration::from_secs(8 * 86_400)).await, 1);
    let bytes = random(1, 3 << 20);
    let short = NewBlob { size: Some(5 << 20), ..home.new_blob() };
    let long = NewBlob { size: Some(10), ..home.new_blob() };
    let wrong = NewBlob { digest: digest.digest, ..home.new_blob() };
    let png = NewBlob { content_type: Some("image/png".into()), ..home.new_blob() };
    let put = |new: NewBlob, body| home.blobs.put(&home.bursar, new, body);
    let error = put(short, pieces(&bytes, 9_999)).await.unwrap_err();
    assert!(matches!(error, BlobError::Length { announced: 5_242_880, received: 3_145_728 }), "{error:?}");
    let error = put(long, pieces(&bytes, 9_999)).await.unwrap_err();
    assert!(matches!(error, BlobError::Length { announced: 10, received: 9_999 }), "{error:?}");
    let error = put(wrong, pieces(&bytes, 9_999)).await.unwrap_err();
    assert!(matches!(error, BlobError::Digest { .. }), "{error:?}");
    let error = put(png, pieces(&bytes, 9_999)).await.unwrap_err();
    assert!(matches!(error, BlobError::Type { found: None, .. }), "{error:?}");
    let error = put(home.new_blob(), broken(&bytes, 9_999)).await.unwrap_err();
    assert!(matches!(error, BlobError::Interrupted(_)), "{error:?}");
    let error = put(NewBlob { filename: Some("../x".into()), ..home.new_blob() }, body("x")).await.unwrap_err();
    assert!(matches!(Home::refused(&error), Refusal::Invalid(_)), "{error:?}");
    assert_eq!(
        home.collect_after(std::time::Duration::ZERO).await,
        5,
        "the records of failed uploads are collected at once"
    );
    home.assert_empty().await;
}

async fn a_range_is_read(home: Home) {
    let bytes = random(2, (2 << 20) + 5);
    let blob = home.put(bytes.clone()).await.blob;
    for range in [0..1, 7..1_000_000, (1 << 20) - 1..(1 << 20) + 1, (2 << 20)..(2 << 20) + 5] {
        let stream = home.blobs.get(&blob, Some(range.start as u64..range.end as u64)).await.unwrap();
        let read: Vec<u8> = stream
            .try_fold(Vec::new(), async |mut all, next| {
                all.extend_from_slice(&next);
                Ok(all)
            })
            .await
            .unwrap();
        assert!(read == bytes[range.clone()], "{range:?} differs");
    }
}

async fn storage_is_a_budget(home: Home) {
    home.bursar.ledger().define("storage", Budget::new([Limit::new(10 << 20, Window::Lifetime)])).await.unwrap();
    let charge = Some(bursar::Scope::new("storage").unwrap());
    home.configure(NamespaceConfig { charge, ..NamespaceConfig::default() }).await;
    let posted = async || home.bursar.ledger().remaining("storage").await.unwrap()[0].posted;
    let first = home.put(random(1, 6 << 20)).await.blob;
    assert_eq!(posted().await, 6 << 20);
    // A length that does not fit is refused before a byte is read.
    let unread = Box::pin(futures_util::stream::poll_fn(|_| panic!("the body was read")));
    let known = NewBlob { size: Some(5 << 20), ..home.new_blob() };
    let error = home.blobs.put(&home.bursar, known, unread).await.unwrap_err();
    assert!(matches!(Home::refused(&error), Refusal::Refused(_)), "{error:?}");
    // An unknown length is aborted where it no longer fits.
    let error = home.blobs.put(&home.bursar, home.new_blob(), pieces(&random(3, 5 << 20), 65_536)).await.unwrap_err();
    assert!(matches!(Home::refused(&error), Refusal::Refused(_)), "{error:?}");
    assert_eq!(posted().await, 6 << 20);
    // What fits is stored, although its first step alone would not.
    let small = home.blobs.put(&home.bursar, home.new_blob(), pieces(&random(4, 3 << 20), 65_536)).await.unwrap().blob;
    assert_eq!(posted().await, 9 << 20);
    // Collection gives the bytes back.
    home.bursar.blob_records().delete(first.id).await.unwrap();
    home.bursar.blob_records().delete(small.id).await.unwrap();
    home.collect_after(std::time::Duration::from_secs(8 * 86_400)).await;
    assert_eq!(posted().await, 0);
    let violations = home.bursar.verify().await.unwrap().violations;
    assert!(violations.is_empty(), "{violations:?}");
    home.assert_empty().await;
}

async fn the_backend_tells_what_it_can_do(home: Home) {
    let abilities = home.blobs.abilities().await.unwrap();
    // Garage, the real service of proof/blobs, stores a conditional put without looking at its condition. Only a real service
    // has a prefix.
    assert_eq!(abilities.conditional_put, home.s3.as_ref().is_none_or(|settings| settings.prefix.is_none()));
    assert_eq!(abilities.signed_requests, home.s3.is_some());
    home.assert_empty().await;
}
