//! Encoding and decoding a segment.

use bursar_core::blob::Sha256Digest;
use bursar_core::bounds::SEGMENT_BLOCK_BYTES;
use bursar_core::id::BatchId;
use bursar_core::time::Time;
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{ArchivedRow, Segment, SegmentError};
use crate::codec;

/// The first bytes of a segment.
const MAGIC: &[u8; 7] = b"BURSARJ";
/// The version of the format.
const VERSION: u8 = 1;
/// The bytes before the head: magic, version, and the length of the head.
const PREFIX: usize = 12;
/// The most bytes of a head. A segment has some hundred blocks.
const HEAD_BYTES_MAX: usize = 16 << 20;
/// The effort of the compression, from 0 to 10.
const LEVEL: u8 = 6;

/// The head of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The identity of the database.
    pub database: u128,
    /// The position of the first event.
    pub first: u64,
    /// The position of the last event.
    pub last: u64,
    /// The digest of the segment before; zeros for the first one.
    pub previous: Sha256Digest,
    /// The blocks, in order.
    pub blocks: Vec<Block>,
}

/// A block, as the head describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The position of its first event.
    pub first: u64,
    /// The number of its rows.
    pub rows: u32,
    /// The lowest id of its transactions.
    pub least_id: u128,
    /// The highest id of its transactions.
    pub greatest_id: u128,
    /// Its bytes in the file.
    pub bytes: u32,
    /// Its bytes before compression.
    pub plain: u32,
    /// The SHA-256 of its bytes in the file.
    pub digest: Sha256Digest,
}

/// A row within a block.
#[derive(Serialize, Deserialize)]
struct Row<'a> {
    position: u64,
    id: u128,
    at: i64,
    count: u32,
    prev: &'a str,
    entries: &'a str,
}

/// A segment that was encoded.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The file.
    pub bytes: Vec<u8>,
    /// What the database has to know of it.
    pub segment: Segment,
}

/// Encodes consecutive rows as a segment.
///
/// # Panics
/// When there are no rows, or a row has more than 4 GiB, which no engine stores.
pub fn encode(database: u128, previous: Sha256Digest, rows: &[ArchivedRow]) -> Encoded {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { panic!("a segment has rows") };
    let (mut blocks, mut contents) = (Vec::new(), Vec::new());
    let (mut plain, mut from) = (Vec::with_capacity(SEGMENT_BLOCK_BYTES * 5 / 4), 0);
    for (index, row) in rows.iter().enumerate() {
        append(row, &mut plain);
        if plain.len() >= SEGMENT_BLOCK_BYTES || index + 1 == rows.len() {
            blocks.push(close_block(&rows[from..=index], &plain, &mut contents));
            plain.clear();
            from = index + 1;
        }
    }
    let plain_bytes = blocks.iter().map(|block| u64::from(block.plain)).sum();
    let ids = (blocks.iter().map(|block| block.least_id).min(), blocks.iter().map(|block| block.greatest_id).max());
    let head = Head { database, first: first.position, last: last.last(), previous, blocks };
    let mut bytes = Vec::with_capacity(PREFIX + 128 * head.blocks.len() + contents.len());
    bytes.extend_from_slice(MAGIC);
    bytes.push(VERSION);
    bytes.extend_from_slice(&[0; 4]);
    codec::append(&head, &mut bytes);
    let head_bytes = bytes.len();
    let length = u32::try_from(head_bytes - PREFIX).expect("a head has some kilobytes");
    bytes[8..PREFIX].copy_from_slice(&length.to_le_bytes());
    let digest = digest(&bytes);
    bytes.append(&mut contents);
    let times = rows.iter().map(|row| row.at);
    let segment = Segment {
        first: head.first,
        last: head.last,
        rows: rows.len() as u64,
        ids: (BatchId(ids.0.unwrap_or_default()), BatchId(ids.1.unwrap_or_default())),
        times: (times.clone().min().unwrap_or(first.at), times.max().unwrap_or(last.at)),
        bytes: bytes.len() as u64,
        head_bytes: head_bytes as u64,
        plain_bytes,
        digest,
        previous,
    };
    Encoded { bytes, segment }
}

/// Compresses a block, appends it to the contents, and describes it.
fn close_block(rows: &[ArchivedRow], plain: &[u8], contents: &mut Vec<u8>) -> Block {
    let compressed = compress_to_vec(plain, LEVEL);
    let ids = rows.iter().map(|row| row.id.0);
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a row has less than 4 GiB");
    let block = Block {
        first: rows[0].position,
        rows: u32::try_from(rows.len()).expect("a block has some thousand rows"),
        least_id: ids.clone().min().unwrap_or_default(),
        greatest_id: ids.max().unwrap_or_default(),
        bytes: length(&compressed),
        plain: length(plain),
        digest: digest(&compressed),
    };
    contents.extend_from_slice(&compressed);
    block
}

fn append(row: &ArchivedRow, plain: &mut Vec<u8>) {
    let ArchivedRow { position, id, at, count, prev, entries } = row;
    let row = Row { position: *position, id: id.0, at: at.micros(), count: *count, prev, entries };
    codec::append(&row, plain);
}

fn digest(bytes: &[u8]) -> Sha256Digest {
    Sha256Digest(Sha256::digest(bytes).into())
}

/// Returns the bytes up to the end of the head, from the first bytes of a segment.
///
/// # Errors
/// When they are not those of a segment.
pub fn head_bytes(bytes: &[u8]) -> Result<usize, SegmentError> {
    let prefix = bytes.get(..PREFIX).ok_or(SegmentError::NotASegment)?;
    if prefix[..7] != *MAGIC {
        return Err(SegmentError::NotASegment);
    }
    if prefix[7] != VERSION {
        return Err(SegmentError::UnknownVersion(prefix[7]));
    }
    let length = u32::from_le_bytes([prefix[8], prefix[9], prefix[10], prefix[11]]) as usize;
    if length > HEAD_BYTES_MAX {
        return Err(SegmentError::DamagedHead("its length is above the maximum"));
    }
    Ok(PREFIX + length)
}

impl Head {
    /// Reads the head from the bytes of a segment, which may end with the head. Also returns the digest of the segment.
    ///
    /// # Errors
    /// When the bytes are not those of a segment, or the head contradicts itself.
    pub fn read(bytes: &[u8]) -> Result<(Head, Sha256Digest), SegmentError> {
        let end = head_bytes(bytes)?;
        let whole = bytes.get(..end);
        let whole = whole.ok_or(SegmentError::WrongLength { expected: end as u64, found: bytes.len() as u64 })?;
        let unreadable = SegmentError::DamagedHead("it cannot be decoded");
        let (head, rest): (Head, &[u8]) = postcard::take_from_bytes(&whole[PREFIX..]).map_err(|_| unreadable)?;
        if !rest.is_empty() {
            return Err(SegmentError::DamagedHead("it has bytes after its end"));
        }
        head.check()?;
        Ok((head, digest(whole)))
    }

    fn check(&self) -> Result<(), SegmentError> {
        let is_ordered = self.blocks.windows(2).all(|pair| pair[0].first < pair[1].first);
        let (first, last) = (self.blocks.first().map(|block| block.first), self.blocks.last().map(|block| block.first));
        if first != Some(self.first)
            || self.first == 0
            || !is_ordered
            || last > Some(self.last)
            || self.last == u64::MAX
        {
            return Err(SegmentError::DamagedHead("its positions contradict each other"));
        }
        Ok(())
    }

    /// Returns the bytes of the blocks.
    fn content_bytes(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.bytes)).sum()
    }

    /// Returns the block with a position of this segment.
    pub fn block_of(&self, position: u64) -> usize {
        self.blocks.partition_point(|block| block.first <= position).saturating_sub(1)
    }

    /// Returns the blocks that may have a transaction.
    pub fn blocks_with(&self, id: BatchId) -> impl Iterator<Item = usize> {
        let may_have = move |block: &Block| block.least_id <= id.0 && id.0 <= block.greatest_id;
        self.blocks.iter().enumerate().filter(move |(_, block)| may_have(block)).map(|(index, _)| index)
    }

    /// Returns where the bytes of a block are, in a segment whose head ends at `head_bytes`.
    pub fn range_of(&self, index: usize, head_bytes: u64) -> std::ops::Range<u64> {
        let start = head_bytes + self.blocks[..index].iter().map(|block| u64::from(block.bytes)).sum::<u64>();
        start..start + u64::from(self.blocks[index].bytes)
    }

    /// Returns the last position of a block.
    fn end_of(&self, index: usize) -> u64 {
        self.blocks.get(index + 1).map_or(self.last, |next| next.first - 1)
    }
}

/// Decodes the rows of a block.
///
/// # Errors
/// When the bytes are not those that the head describes.
pub fn decode_block(head: &Head, index: usize, bytes: &[u8]) -> Result<Vec<ArchivedRow>, SegmentError> {
    let block = &head.blocks[index];
    let damaged = |problem| SegmentError::DamagedBlock { index, position: block.first, problem };
    if bytes.len() != block.bytes as usize || digest(bytes) != block.digest {
        return Err(damaged("its bytes do not have the digest in the head"));
    }
    let plain = decompress_to_vec_with_limit(bytes, block.plain as usize);
    let plain = plain.map_err(|_| damaged("it cannot be decompressed"))?;
    let (mut rest, mut rows, mut next) = (&plain[..], Vec::new(), block.first);
    while !rest.is_empty() {
        let (row, after): (Row<'_>, &[u8]) =
            postcard::take_from_bytes(rest).map_err(|_| damaged("a row cannot be decoded"))?;
        if row.position != next || row.count == 0 {
            return Err(damaged("its positions are not consecutive"));
        }
        if !(block.least_id..=block.greatest_id).contains(&row.id) {
            return Err(damaged("a transaction is outside of the range in the head"));
        }
        next = row.position.saturating_add(u64::from(row.count));
        rows.push(ArchivedRow {
            position: row.position,
            id: BatchId(row.id),
            at: Time::from_micros(row.at),
            count: row.count,
            prev: row.prev.to_owned(),
            entries: row.entries.to_owned(),
        });
        rest = after;
    }
    if rows.len() != block.rows as usize || next != head.end_of(index).saturating_add(1) {
        return Err(damaged("rows are missing"));
    }
    Ok(rows)
}

/// Checks a whole segment, and returns its head, its digest and its rows.
///
/// # Errors
/// When any byte differs from what was written. Compare the digest with the one in the database or in the next segment.
pub fn check(bytes: &[u8]) -> Result<(Head, Sha256Digest, Vec<ArchivedRow>), SegmentError> {
    let (head, digest) = Head::read(bytes)?;
    let head_end = head_bytes(bytes)? as u64;
    let (expected, found) = (head_end + head.content_bytes(), bytes.len() as u64);
    if expected != found {
        return Err(SegmentError::WrongLength { expected, found });
    }
    let mut rows = Vec::new();
    for index in 0..head.blocks.len() {
        let range = head.range_of(index, head_end);
        rows.extend(decode_block(&head, index, &bytes[range.start as usize..range.end as usize])?);
    }
    Ok((head, digest, rows))
}
