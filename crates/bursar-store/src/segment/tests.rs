//! The format keeps what it was given, and every change of a segment or of the chain is found.

use super::*;

const DATABASE: u128 = 0x0123_4567_89ab_cdef;

/// A generator of numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// Rows from a position on, with entries of up to `bytes` bytes.
fn rows(numbers: &mut Numbers, first: u64, count: usize, bytes: u64) -> Vec<ArchivedRow> {
    let mut position = first;
    let mut row = || {
        let (count, length) = (1 + numbers.next(5) as u32, numbers.next(bytes));
        let entries: String = (0..length).map(|_| char::from(b'a' + numbers.next(26) as u8)).collect();
        let row = ArchivedRow {
            position,
            id: BatchId(u128::from(position) << 80 | u128::from(numbers.next(1 << 30))),
            at: Time::from_micros(1_794_823_200_000_000 + position as i64 * 1_000 - numbers.next(5_000) as i64),
            count,
            prev: format!("{{\"hold_{}\":\"tx_é\"}}", numbers.next(9)),
            entries: format!("[\"{entries}\"]"),
        };
        position += u64::from(count);
        row
    };
    (0..count).map(|_| row()).collect()
}

/// A chain of segments.
fn segments(numbers: &mut Numbers, count: usize) -> Vec<(Encoded, Vec<ArchivedRow>)> {
    let (mut first, mut previous) = (1, NO_SEGMENT);
    let mut segment = || {
        let amount = 1 + numbers.next(6) as usize;
        let rows = rows(numbers, first, amount, 40);
        let encoded = encode(DATABASE, previous, &rows);
        (first, previous) = (encoded.segment.last + 1, encoded.segment.digest);
        (encoded, rows)
    };
    (0..count).map(|_| segment()).collect()
}

/// Follows a chain of files, and returns the number of the first bad one with its error.
fn follow<'a>(files: impl IntoIterator<Item = &'a [u8]>) -> Result<Chain, (usize, SegmentError)> {
    let mut chain = Chain::of(DATABASE);
    for (index, file) in files.into_iter().enumerate() {
        let (head, digest, _) = check(file).map_err(|error| (index, error))?;
        chain.follow(&head, digest).map_err(|error| (index, error))?;
    }
    Ok(chain)
}

#[test]
fn rows_come_back_as_they_were() {
    let mut numbers = Numbers(1);
    for (count, bytes) in [(1, 1), (1, 1_000_000), (7, 50), (300, 4_000), (20_000, 30)] {
        let first = 1 + numbers.next(1 << 40);
        let written = rows(&mut numbers, first, count, bytes);
        let Encoded { bytes, segment } = encode(DATABASE, NO_SEGMENT, &written);
        let (head, digest, read) = check(&bytes).expect("it is intact");
        assert!(read == written, "{count} rows");
        assert_eq!((head.first, head.last, digest), (first, written[count - 1].last(), segment.digest));
        assert_eq!((segment.bytes, segment.rows), (bytes.len() as u64, count as u64));
        // A reader of one block reads the head, and then the block only.
        let (head, _) = Head::read(&bytes[..segment.head_bytes as usize]).expect("the head is intact");
        let wanted = &written[numbers.next(count as u64) as usize];
        let index = head.block_of(wanted.last());
        assert!(head.blocks_with(wanted.id).any(|with| with == index));
        let range = head.range_of(index, segment.head_bytes);
        let block = decode_block(&head, index, &bytes[range.start as usize..range.end as usize]).expect("intact");
        assert!(block.contains(wanted));
    }
}

#[test]
fn equal_rows_make_equal_files() {
    let rows = rows(&mut Numbers(2), 1, 50, 500);
    let one = encode(DATABASE, NO_SEGMENT, &rows);
    let other = encode(DATABASE, NO_SEGMENT, &rows);
    assert_eq!(one.bytes, other.bytes);
    assert_eq!(one.segment.name(), other.segment.name());
}

#[test]
fn every_changed_byte_is_found() {
    let files = segments(&mut Numbers(3), 3);
    for (index, (file, _)) in files.iter().enumerate() {
        for at in 0..file.bytes.len() {
            for flip in [1, 0x80] {
                let mut changed: Vec<Vec<u8>> = files.iter().map(|(file, _)| file.bytes.clone()).collect();
                changed[index][at] ^= flip;
                let found = follow(changed.iter().map(Vec::as_slice));
                // A change of the last head is only seen in the digest, which the database has.
                let by_chain = matches!(&found, Err((bad, _)) if *bad == index || *bad == index + 1);
                let by_digest = found.is_ok_and(|chain| chain.digest() != files[2].0.segment.digest);
                assert!(by_chain || by_digest, "byte {at} of segment {index}");
            }
        }
    }
}

#[test]
fn every_other_length_is_found() {
    let files = segments(&mut Numbers(4), 2);
    for (file, _) in &files {
        for length in 0..file.bytes.len() {
            assert!(check(&file.bytes[..length]).is_err(), "{length} bytes");
        }
        let longer = [&file.bytes[..], &[0]].concat();
        assert!(matches!(check(&longer), Err(SegmentError::WrongLength { .. })));
    }
}

#[test]
fn missing_reordered_and_foreign_segments_are_named() {
    let mut numbers = Numbers(5);
    let files = segments(&mut numbers, 5);
    let all: Vec<&[u8]> = files.iter().map(|(file, _)| &file.bytes[..]).collect();
    let whole = follow(all.iter().copied()).expect("the chain is intact");
    assert_eq!((whole.next(), whole.digest()), (files[4].0.segment.last + 1, files[4].0.segment.digest));
    for missing in 0..4 {
        let left = all.iter().enumerate().filter(|(index, _)| *index != missing).map(|(_, file)| *file);
        let (bad, error) = follow(left).expect_err("a segment is missing");
        assert!(bad == missing && matches!(error, SegmentError::WrongPosition { .. }), "{missing}: {error}");
    }
    for swapped in 0..4 {
        let mut order = all.clone();
        order.swap(swapped, swapped + 1);
        let (bad, error) = follow(order).expect_err("two segments are swapped");
        assert!(bad == swapped && matches!(error, SegmentError::WrongPosition { .. }), "{swapped}: {error}");
    }
    let foreign = encode(DATABASE + 1, files[1].0.segment.digest, &files[2].1);
    let (bad, error) = follow([all[0], all[1], &foreign.bytes]).expect_err("a segment is foreign");
    assert!(bad == 2 && matches!(error, SegmentError::Foreign { .. }), "{error}");
    // The same positions with other rows, as after a restore of an older backup.
    let other = rows(&mut numbers, files[2].0.segment.first, 4, 40);
    let other = encode(DATABASE, files[1].0.segment.digest, &other);
    let (bad, _) = follow([all[0], all[1], &other.bytes, all[3]]).expect_err("the rows are others");
    assert_eq!(bad, 3);
    let other = encode(DATABASE, files[3].0.segment.digest, &files[2].1);
    let (bad, error) = follow([all[0], all[1], &other.bytes]).expect_err("it follows another segment");
    assert!(bad == 2 && matches!(error, SegmentError::BrokenChain { .. }), "{error}");
}

#[test]
fn fuzz_damaged_segments_are_refused_without_a_panic() {
    let files = segments(&mut Numbers(6), 2);
    let samples: Vec<&[u8]> = files.iter().map(|(file, _)| &file.bytes[..]).collect();
    bursar_fuzz::bytes(&samples, |bytes| {
        let Ok((head, _, read)) = check(bytes) else { return };
        // A file that is accepted has what it says, though it need not be the file that was written.
        assert_eq!(read.first().map(|row| row.position), Some(head.first));
        assert_eq!(read.last().map(ArchivedRow::last), Some(head.last));
    });
}
