//! A database and a backend for one case.

use std::sync::Arc;
use std::time::Duration;

use bursar::{Blob, BlobId, Bursar, ManualClock, Namespace, NamespaceConfig, Span, Time};
use bursar_blobs::{Backend, Backends, BlobError, Blobs, BodyStream, NewBlob, S3Settings, Stored, body};
use futures_util::{StreamExt, TryStreamExt};

use crate::s3;

pub(crate) struct Home {
    pub(crate) bursar: Bursar,
    pub(crate) blobs: Blobs,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) s3: Option<S3Settings>,
}

impl Home {
    pub(crate) async fn local() -> Home {
        let directory = tempfile::tempdir().unwrap();
        let backend = Backend::local(directory.path().join("blobs")).unwrap();
        Home::with(directory, Backends::of(backend), None).await
    }

    pub(crate) async fn s3() -> Home {
        let directory = tempfile::tempdir().unwrap();
        let settings = s3::settings(&directory.path().join("s3")).await;
        let backend = Backend::s3(&settings).unwrap();
        Home::with(directory, Backends::of(backend), Some(settings)).await
    }

    pub(crate) async fn with(directory: tempfile::TempDir, backends: Backends, s3: Option<S3Settings>) -> Home {
        let clock = Arc::new(ManualClock::at(Time::from_micros(4_000_000_000_000_000)));
        let url = format!("sqlite://{}", directory.path().join("bursar.db").display());
        let bursar = Bursar::options(&url).clock(clock.clone()).upkeep(None).open().await.unwrap();
        Home { bursar, blobs: Blobs::new(backends), clock, directory, s3 }
    }

    pub(crate) fn new_blob(&self) -> NewBlob {
        NewBlob::new(Namespace::new("media").unwrap())
    }

    pub(crate) async fn put(&self, bytes: impl Into<Vec<u8>>) -> Stored {
        self.blobs.put(&self.bursar, self.new_blob(), body(bytes.into())).await.unwrap()
    }

    pub(crate) async fn bytes(&self, blob: &Blob) -> Vec<u8> {
        let stream = self.blobs.get(blob, None).await.unwrap();
        stream
            .try_fold(Vec::new(), async |mut all, bytes| {
                all.extend_from_slice(&bytes);
                Ok(all)
            })
            .await
            .unwrap()
    }

    pub(crate) async fn find(&self, id: BlobId) -> Option<Blob> {
        self.bursar.blob_records().find_any(id).await.unwrap()
    }

    /// Passes time, and collects.
    pub(crate) async fn collect_after(&self, wait: Duration) -> usize {
        self.clock.advance(Span::from(wait));
        self.blobs.collect(&self.bursar, 1_000, false).await.unwrap().collected
    }

    /// Fails if anything is stored: a record or an object.
    pub(crate) async fn assert_empty(&self) {
        let records = self.bursar.blob_records().list_all(None, 10).await.unwrap();
        assert_eq!(records, [], "records are left");
        self.clock.advance(Span::from_days(1));
        let report = self.blobs.orphans(&self.bursar, Duration::ZERO, false).await.unwrap();
        assert_eq!((report.objects, report.orphans), (0, Vec::new()));
    }

    pub(crate) async fn configure(&self, config: NamespaceConfig) {
        self.bursar.blob_records().define_namespace("media", config).await.unwrap();
    }

    pub(crate) fn refused(error: &BlobError) -> &bursar::Refusal {
        match error {
            BlobError::Bursar(bursar::Error::Refused(refusal)) => refusal,
            other => panic!("not a refusal: {other:?}"),
        }
    }
}

/// Bytes that do not compress and differ by seed.
pub(crate) fn random(seed: u8, count: usize) -> Vec<u8> {
    let mut state = u64::from(seed) + 1;
    let step = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..count).map(step).collect()
}

/// A body in pieces.
pub(crate) fn pieces(bytes: &[u8], each: usize) -> BodyStream {
    let pieces: Vec<Vec<u8>> = bytes.chunks(each).map(<[u8]>::to_vec).collect();
    futures_util::stream::iter(pieces.into_iter().map(|piece| Ok(piece.into()))).boxed()
}

/// A body that breaks after its bytes.
pub(crate) fn broken(bytes: &[u8], each: usize) -> BodyStream {
    pieces(bytes, each).chain(futures_util::stream::iter([Err("the connection is gone".into())])).boxed()
}
