//! Backends that fail: the caller gets an error that can be retried, and nothing is stored.

use std::time::Duration;

use bursar_blobs::{Backend, Backends, BlobError, Blobs, S3Settings};

use crate::home::{Home, pieces, random};
use crate::proxy::{Fault, Proxy};

/// A service behind a proxy that can fail.
async fn behind_proxy() -> (Home, Proxy, Blobs) {
    let home = Home::s3().await;
    let settings = home.s3.clone().unwrap();
    let target = settings.endpoint.clone().unwrap().replace("http://", "");
    let proxy = Proxy::start(target).await;
    let endpoint = Some(format!("http://{}", proxy.address));
    let blobs = Blobs::new(Backends::of(Backend::s3(&S3Settings { endpoint, ..settings }).unwrap()));
    (home, proxy, blobs)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_service_stores_nothing() {
    let (home, proxy, blobs) = behind_proxy().await;
    let bytes = random(1, 9 << 20);
    for fault in [Fault::Status(500), Fault::Status(503), Fault::CutAfter(100_000)] {
        proxy.set(fault);
        let error = blobs.put(&home.bursar, home.new_blob(), pieces(&bytes, 65_536)).await.unwrap_err();
        assert!(matches!(error, BlobError::Backend(_)), "{fault:?}: {error:?}");
    }
    proxy.set(Fault::None);
    let stored = blobs.put(&home.bursar, home.new_blob(), pieces(&bytes, 65_536)).await.unwrap();
    assert!(home.bytes(&stored.blob).await == bytes);
    proxy.set(Fault::Status(503));
    let error = blobs.get(&stored.blob, None).await.err().unwrap();
    assert!(matches!(error, BlobError::Backend(_)), "{error:?}");
    proxy.set(Fault::None);
    home.bursar.blob_records().delete(stored.blob.id).await.unwrap();
    assert_eq!(home.collect_after(Duration::from_secs(8 * 86_400)).await, 4);
    home.assert_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_cannot_be_deleted_stay_on_record() {
    let (home, proxy, blobs) = behind_proxy().await;
    let blob = home.put(random(1, 100)).await.blob;
    home.bursar.blob_records().delete(blob.id).await.unwrap();
    home.clock.advance(bursar::Span::from_days(8));
    proxy.set(Fault::Status(500));
    let report = blobs.collect(&home.bursar, 10, false).await.unwrap();
    assert_eq!((report.due, report.collected, report.failed), (1, 0, 1));
    assert!(home.find(blob.id).await.is_some());
    proxy.set(Fault::None);
    assert_eq!(blobs.collect(&home.bursar, 10, false).await.unwrap().collected, 1);
    home.assert_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_is_gone_is_an_error() {
    let home = Home::local().await;
    let blob = home.put(b"hello".to_vec()).await.blob;
    std::fs::remove_dir_all(home.directory.path().join("blobs")).unwrap();
    let error = home.blobs.get(&blob, None).await.err().unwrap();
    assert!(matches!(error, BlobError::Missing { .. }), "{error:?}");
    let report = home.blobs.orphans(&home.bursar, Duration::ZERO, false).await.unwrap();
    assert_eq!(report.missing, [blob.id]);
}
