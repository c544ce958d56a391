//! A blob that is larger than the memory that its transfer may occupy.

use crate::process::Process;

const MIB: usize = 1 << 20;
const LENGTH: usize = 256 * MIB;
/// How much the peak memory of the server may grow (B10).
const GROWTH_MB_MAX: u64 = 64;

/// Returns one MiB of the blob. Each differs from all others.
fn block(number: usize) -> Vec<u8> {
    let mut block = vec![b'.'; MIB];
    for (place, byte) in block.iter_mut().step_by(4_093).enumerate() {
        *byte = (number * 31 + place) as u8;
    }
    block[..8].copy_from_slice(&(number as u64).to_le_bytes());
    block
}

#[test]
fn a_large_blob_is_stored_and_read_in_bounded_memory() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
    let token = "a token of more than thirty-two characters";
    let process = Process::start(&url, &[("BURSAR_OPERATOR_TOKEN", token)]);
    // The first upload creates what all need.
    assert_eq!(process.upload(token, "/v1/blobs", 5, [b"small".to_vec()]).0, 201);
    let before = process.memory_mb_max();

    let (status, blob) = process.upload(token, "/v1/blobs?namespace=media", LENGTH, (0..LENGTH / MIB).map(block));
    assert_eq!((status, blob["size"].as_u64()), (201, Some(LENGTH as u64)), "{blob}");
    let path = format!("/v1/blobs/{}", blob["id"].as_str().unwrap());

    let range = format!("bytes={}-{}", 200 * MIB, 201 * MIB - 1);
    let mut part = Vec::new();
    assert_eq!(process.download(token, &path, Some(&range), |bytes| part.extend_from_slice(bytes)), 206);
    assert!(part == block(200), "a range has other bytes");

    let (mut number, mut received) = (0, Vec::with_capacity(2 * MIB));
    let status = process.download(token, &path, None, |bytes| {
        received.extend_from_slice(bytes);
        while received.len() >= MIB {
            assert!(received[..MIB] == block(number), "MiB {number} has other bytes");
            received.drain(..MIB);
            number += 1;
        }
    });
    assert_eq!((status, number, received.len()), (200, LENGTH / MIB, 0));

    let growth = process.memory_mb_max() - before;
    assert!(growth < GROWTH_MB_MAX, "the memory of the server grew by {growth} MiB");
    assert_eq!(process.stop().0, Some(0));
}
