//! Moves between backends.

use bursar::NamespaceConfig;
use bursar_blobs::{Backend, Backends, Blobs};

use crate::home::{Home, random};
use crate::s3;

/// A directory and a bucket, with new blobs in the directory.
async fn both() -> (Home, Backend, Backend) {
    let directory = tempfile::tempdir().unwrap();
    let local = Backend::local(directory.path().join("blobs")).unwrap();
    let bucket = Backend::s3(&s3::settings(&directory.path().join("s3")).await).unwrap();
    let home = Home::with(directory, Backends::of(local.clone()).and(bucket.clone()), None).await;
    (home, local, bucket)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blobs_move_to_the_bucket_and_back() {
    let (home, local, bucket) = both().await;
    let blobs: Vec<_> = {
        let mut all = Vec::new();
        for seed in 0..5 {
            all.push((home.put(random(seed, 100_000 * (1 + usize::from(seed)))).await.blob, seed));
        }
        all
    };
    for (to, from) in [(&bucket, &local), (&local, &bucket)] {
        // The move goes in steps, and can go on after any of them.
        let (first, last) = home.blobs.move_some(&home.bursar, to.name(), None, 2).await.unwrap();
        let (second, _) = home.blobs.move_some(&home.bursar, to.name(), last, 100).await.unwrap();
        assert_eq!((first.moved, second.moved, second.there, second.failed), (2, 3, 0, 0));
        for (blob, seed) in &blobs {
            let now = home.find(blob.id).await.unwrap();
            assert_eq!(now.backend, *to.name());
            assert!(home.bytes(&now).await == random(*seed, 100_000 * (1 + usize::from(*seed))));
        }
        let report = home.blobs.orphans(&home.bursar, std::time::Duration::ZERO, false).await.unwrap();
        assert_eq!((report.objects, report.missing_total), (5, 0), "nothing is left in {}", from.name());
        let (again, last) = home.blobs.move_some(&home.bursar, to.name(), None, 100).await.unwrap();
        assert_eq!(home.blobs.move_some(&home.bursar, to.name(), last, 100).await.unwrap().1, None);
        assert_eq!((again.moved, again.there), (0, 5));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_bytes_stay_where_they_are() {
    let (home, local, bucket) = both().await;
    home.configure(NamespaceConfig::default()).await;
    let blob = home.put(random(1, 1_000)).await.blob;
    let name = blob.id.to_string();
    let file = home.directory.path().join("blobs/objects").join(&name[name.len() - 2..]).join(&name);
    std::fs::write(&file, random(2, 1_000)).unwrap();
    let (report, _) = home.blobs.move_some(&home.bursar, bucket.name(), None, 100).await.unwrap();
    assert_eq!((report.moved, report.failed), (0, 1));
    assert_eq!(home.find(blob.id).await.unwrap().backend, *local.name());
    let only_bucket = Blobs::new(Backends::of(bucket));
    let report = only_bucket.orphans(&home.bursar, std::time::Duration::ZERO, false).await.unwrap();
    assert_eq!(report.objects, 0, "the copy is removed");
}
