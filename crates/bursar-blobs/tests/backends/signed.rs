//! Signed uploads.

use std::time::Duration;

use bursar::{BlobState, Refusal, Sha256Digest};
use bursar_blobs::{BlobError, NewBlob, SignedUpload, Target, body};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::home::{Home, random};

crate::on_backends!(
    a_signed_upload_is_committed,
    a_commit_needs_the_announced_bytes,
    bytes_that_are_there_need_no_upload,
    a_signed_upload_that_is_not_committed_is_collected,
);

const TTL: Duration = Duration::from_secs(600);

fn announced(home: &Home, bytes: &[u8]) -> NewBlob {
    let digest = Sha256Digest(Sha256::digest(bytes).into());
    NewBlob { size: Some(bytes.len() as u64), digest: Some(digest), ..home.new_blob() }
}

/// Sends bytes as the caller of a signed upload does. Returns whether they were accepted.
async fn send(home: &Home, upload: &SignedUpload, bytes: &[u8]) -> bool {
    match upload.target.as_ref().unwrap() {
        Target::Server => home.blobs.receive_staged(&upload.blob, body(bytes.to_vec())).await.is_ok(),
        Target::Request { url, headers } => (200..300).contains(&put(url, headers, bytes).await),
        Target::Parts { .. } => panic!("a small upload has one request"),
    }
}

/// Sends a plain `PUT`, and returns the status.
async fn put(url: &str, headers: &[(String, String)], bytes: &[u8]) -> u16 {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    let mut head =
        format!("PUT /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n", bytes.len());
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    let _ = stream.write_all(bytes).await;
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    answer.split(' ').nth(1).unwrap_or("0").parse().unwrap()
}

async fn a_signed_upload_is_committed(home: Home) {
    let bytes = random(1, 100_000);
    let upload = home.blobs.sign_upload(&home.bursar, announced(&home, &bytes), TTL).await.unwrap();
    assert_eq!(upload.blob.state, BlobState::Pending);
    assert!(send(&home, &upload, &bytes).await);
    let stored = home.blobs.commit(&home.bursar, upload.blob.id, None).await.unwrap();
    assert_eq!((stored.found, stored.blob.state), (false, BlobState::Live));
    assert!(home.bytes(&stored.blob).await == bytes);
    // The answer to a commit can be lost: repeating it gives the same blob.
    let again = home.blobs.commit(&home.bursar, upload.blob.id, None).await.unwrap();
    assert_eq!(again.blob, stored.blob);
    let report = home.blobs.orphans(&home.bursar, Duration::ZERO, false).await.unwrap();
    assert_eq!((report.objects, report.orphans_total), (1, 0));
}

async fn a_commit_needs_the_announced_bytes(home: Home) {
    let bytes = random(2, 50_000);
    let upload = home.blobs.sign_upload(&home.bursar, announced(&home, &bytes), TTL).await.unwrap();
    let error = home.blobs.commit(&home.bursar, upload.blob.id, None).await.unwrap_err();
    assert!(matches!(error, BlobError::NotUploaded { .. }), "{error:?}");
    // Bytes of another length or digest are refused when they arrive, or at the commit at the latest.
    for other in [random(3, 50_000), random(3, 60_000), random(3, 10)] {
        let upload = home.blobs.sign_upload(&home.bursar, announced(&home, &bytes), TTL).await.unwrap();
        let accepted = send(&home, &upload, &other).await;
        let error = home.blobs.commit(&home.bursar, upload.blob.id, None).await.unwrap_err();
        match error {
            BlobError::NotUploaded { .. } => assert!(!accepted),
            // A backend may keep bytes that it has refused.
            BlobError::Length { .. } | BlobError::Digest { .. } => {}
            other => panic!("{other:?}"),
        }
        assert_ne!(home.find(upload.blob.id).await.unwrap().state, BlobState::Live);
    }
    home.collect_after(Duration::from_secs(86_400)).await;
    home.assert_empty().await;
}

async fn bytes_that_are_there_need_no_upload(home: Home) {
    let stored = home.put(b"hello".to_vec()).await;
    let upload = home.blobs.sign_upload(&home.bursar, announced(&home, b"hello"), TTL).await.unwrap();
    assert!(upload.target.is_none());
    assert_eq!(upload.blob.id, stored.blob.id);
    // Another tenant must bring the bytes itself.
    let stranger = home.bursar.tenant("stranger").unwrap();
    let upload = home.blobs.sign_upload(&stranger, announced(&home, b"hello"), TTL).await.unwrap();
    assert!(upload.target.is_some());
    let error = home.blobs.commit(&stranger, stored.blob.id, None).await.unwrap_err();
    assert!(matches!(Home::refused(&error), Refusal::UnknownBlob { .. }), "{error:?}");
}

async fn a_signed_upload_that_is_not_committed_is_collected(home: Home) {
    let bytes = random(4, 10_000);
    let upload = home.blobs.sign_upload(&home.bursar, announced(&home, &bytes), TTL).await.unwrap();
    assert!(send(&home, &upload, &bytes).await);
    assert_eq!(home.collect_after(TTL).await, 0);
    assert_eq!(home.collect_after(TTL + Duration::from_secs(1)).await, 1);
    home.assert_empty().await;
}
