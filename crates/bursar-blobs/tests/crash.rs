//! A process that uploads, commits, deletes and collects blobs in a local directory is killed at any moment. No acknowledged blob is
//! lost, no live record lacks its bytes, and collection and the scan for orphans find everything else that is left.
//!
//! The test program starts itself as that process.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bursar::{
    Blob, BlobId, BlobState, Budget, Bursar, Limit, Namespace, NamespaceConfig, Scope, Sha256Digest, Span, Time, Window,
};
use bursar_blobs::{Backends, Blobs, BodyStream, NewBlob, OrphanReport};
use bursar_testkit::{FileClock, Says, ended};
use futures_util::{StreamExt, TryStreamExt};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [first, folder, seed] = &args[..]
        && first == "child"
    {
        run(async |seed| child(Path::new(folder), seed).await, seed.parse().unwrap());
        return ExitCode::SUCCESS;
    }
    bursar_testkit::run_cases(&args, &[("kills_lose_no_bytes_and_leave_nothing_unfound", || run(killed, 1))])
}

fn run(work: impl AsyncFnOnce(u64), seed: u64) {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work(seed));
}

/// Long after the files of this test were written, so that none is too new to be an orphan.
const START: Time = Time::from_micros(4_000_000_000_000_000);
/// How long processes are killed, and how often at least and at most.
const KILLING: Duration = Duration::from_secs(8);
const KILLS: std::ops::RangeInclusive<u64> = 5..=60;
const SIGNED: Duration = Duration::from_secs(600);

struct Home {
    bursar: Bursar,
    blobs: Blobs,
    clock: Arc<FileClock>,
}

impl Home {
    async fn open(folder: &Path) -> Home {
        let clock = Arc::new(FileClock::open(&folder.join("clock"), START));
        let url = format!("sqlite://{}", folder.join("bursar.db").display());
        let bursar = Bursar::options(&url).clock(clock.clone()).upkeep(None).open().await.unwrap();
        Home { bursar, blobs: Blobs::new(Backends::local(folder.join("blobs")).unwrap()), clock }
    }

    async fn all(&self) -> Vec<Blob> {
        let mut all = Vec::new();
        loop {
            let page = self.bursar.blob_records().list_all(all.last().map(|blob: &Blob| blob.id), 1_000).await.unwrap();
            if page.is_empty() {
                return all;
            }
            all.extend(page);
        }
    }

    async fn orphans(&self, remove: bool) -> OrphanReport {
        self.blobs.orphans(&self.bursar, Duration::ZERO, remove).await.unwrap()
    }
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

fn namespace() -> Namespace {
    Namespace::new("media").unwrap()
}

/// The bytes of an upload. Unless there are none, they differ from those of any other one.
fn bytes(seed: u64, step: u64, size: u64) -> Vec<u8> {
    let mut bytes = vec![7; size as usize];
    let unique = [(seed as u32).to_be_bytes(), (step as u32).to_be_bytes()].concat();
    bytes.iter_mut().zip(unique).for_each(|(byte, unique)| *byte = unique);
    bytes
}

fn pieces(bytes: &[u8]) -> BodyStream {
    let pieces: Vec<Vec<u8>> = bytes.chunks(200_000).map(<[u8]>::to_vec).collect();
    futures_util::stream::iter(pieces.into_iter().map(|piece| Ok(piece.into()))).boxed()
}

/// Uploads, deletes and collects until it is killed. Prints what was acknowledged, and what it is about to delete.
async fn child(folder: &Path, seed: u64) {
    let home = Home::open(folder).await;
    let Home { bursar, blobs, .. } = &home;
    let mut random = Random(seed);
    let mut mine = Vec::new();
    for step in 0_u64.. {
        let size = [0, 10, 5_000, 300_000, 2_500_000][random.below(5) as usize];
        let bytes = bytes(seed, step, size);
        let new = NewBlob { size: Some(size), ..NewBlob::new(namespace()) };
        let stored = match random.below(4) {
            0 => blobs.put(bursar, NewBlob::new(namespace()), pieces(&bytes)).await.unwrap().blob,
            1 => blobs.put(bursar, new, pieces(&bytes)).await.unwrap().blob,
            2 => {
                let digest = Some(Sha256Digest(Sha256::digest(&bytes).into()));
                let signed = blobs.sign_upload(bursar, NewBlob { digest, ..new }, SIGNED).await.unwrap();
                if signed.target.is_some() {
                    blobs.receive_staged(&signed.blob, pieces(&bytes)).await.unwrap();
                }
                blobs.commit(bursar, signed.blob.id, None).await.unwrap().blob
            }
            _ => {
                let id = blobs.begin(bursar, new).await.unwrap();
                let half = size / 2;
                if half > 0 {
                    blobs.resume(bursar, id, 0, pieces(&bytes[..half as usize])).await.unwrap();
                }
                let done = blobs.resume(bursar, id, half, pieces(&bytes[half as usize..])).await.unwrap();
                done.stored.unwrap().blob
            }
        };
        say("stored", stored.id);
        mine.push(stored.id);
        if random.below(2) == 0 {
            let id = mine.swap_remove(random.below(mine.len() as u64) as usize);
            say("deleting", id);
            bursar.blob_records().delete(id).await.unwrap();
            // The same bytes may be stored again: then both names are of one blob.
            mine.retain(|other| *other != id);
        }
        if random.below(3) == 0 {
            blobs.collect(bursar, 100, false).await.unwrap();
        }
    }
}

fn say(word: &str, id: BlobId) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{word} {id}").unwrap();
    out.flush().unwrap();
}

/// What the killed processes have said.
#[derive(Default)]
struct Said {
    stored: BTreeSet<BlobId>,
    deleting: BTreeSet<BlobId>,
}

impl Said {
    fn note(&mut self, line: &str) {
        let (word, id) = line.split_once(' ').unwrap();
        let id = id.parse().unwrap();
        match word {
            "stored" => self.stored.insert(id),
            "deleting" => self.deleting.insert(id),
            other => panic!("the process said {other}"),
        };
    }
}

async fn killed(seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(folder.path()).await;
    let most = Limit::new(1 << 40, Window::Lifetime);
    home.bursar.ledger().define("storage", Budget::new([most])).await.unwrap();
    let charge = Some(Scope::new("storage").unwrap());
    let config = NamespaceConfig { charge, grace: Span::from_days(0), ..NamespaceConfig::default() };
    home.bursar.blob_records().define_namespace("media", config).await.unwrap();
    home.bursar.close().await;

    let (mut random, mut said) = (Random(seed), Said::default());
    let until = Instant::now() + KILLING;
    let mut kills = 0;
    while kills < *KILLS.start() || kills < *KILLS.end() && Instant::now() < until {
        kills += 1;
        let args = ["child".to_owned(), folder.path().display().to_string(), kills.to_string()];
        let mut child =
            Command::new(std::env::current_exe().unwrap()).args(args).stdout(Stdio::piped()).spawn().unwrap();
        let says = Says::on(child.stdout.take().unwrap());
        for _ in 0..=random.below(15) {
            said.note(&says.next_line().expect("the process works until it is killed"));
        }
        // It works on meanwhile, so the kill comes at any step.
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        child.kill().unwrap();
        ended(&mut child);
        says.rest().iter().for_each(|line| said.note(line));
        check(folder.path(), &said).await;
    }
    let orphans = finish(folder.path(), &said).await;
    let (stored, deleting) = (said.stored.len(), said.deleting.len());
    println!("{kills} kills, {stored} uploads, {deleting} deletions, {orphans} orphans");
}

/// Checks that every acknowledged blob and every live record has its bytes.
async fn check(folder: &Path, said: &Said) {
    let home = Home::open(folder).await;
    let records: BTreeMap<BlobId, Blob> = home.all().await.into_iter().map(|blob| (blob.id, blob)).collect();
    for id in said.stored.difference(&said.deleting) {
        let blob = records.get(id).unwrap_or_else(|| panic!("{id} was acknowledged and has no record"));
        assert!(blob.is_available(), "{id} was acknowledged: {blob:?}");
    }
    for blob in records.values().filter(|blob| blob.state == BlobState::Live) {
        let mut stream = home.blobs.get(blob, None).await.unwrap();
        let (mut hasher, mut size) = (Sha256::new(), 0);
        while let Some(bytes) = stream.try_next().await.unwrap() {
            hasher.update(&bytes);
            size += bytes.len() as u64;
        }
        let found = (Some(size), Some(Sha256Digest(hasher.finalize().into())));
        assert_eq!(found, (blob.size, blob.digest), "{blob:?} has other bytes");
    }
    assert_eq!(home.orphans(false).await.missing, [], "live records lack their bytes");
    home.bursar.close().await;
}

/// Collects, and checks that nothing but live blobs is left: no file, and no unit of their budget. Returns the number of orphans.
async fn finish(folder: &Path, said: &Said) -> u64 {
    let home = Home::open(folder).await;
    home.clock.advance(Span::from_days(2));
    loop {
        let report = home.blobs.collect(&home.bursar, 1_000, false).await.unwrap();
        assert_eq!(report.failed, 0);
        if report.due == 0 {
            break;
        }
    }
    let scanned = home.orphans(true).await;
    assert_eq!(scanned.deleted, scanned.orphans_total);
    assert_eq!(home.orphans(false).await.orphans, []);
    let left = home.all().await;
    assert!(left.iter().all(Blob::is_available), "only live blobs are left: {left:?}");
    let kept: BTreeSet<BlobId> = said.stored.difference(&said.deleting).copied().collect();
    assert!(left.iter().map(|blob| blob.id).collect::<BTreeSet<_>>().is_superset(&kept));
    let mut files = BTreeSet::new();
    walk(&folder.join("blobs"), &mut files);
    assert_eq!(files, left.iter().map(|blob| blob.id.to_string()).collect(), "a file for each live blob, and no other");
    let posted = home.bursar.ledger().remaining("storage").await.unwrap()[0].posted;
    assert_eq!(posted, left.iter().map(|blob| blob.size.unwrap() as i64).sum::<i64>());
    let violations = home.bursar.verify().await.unwrap().violations;
    assert!(violations.is_empty(), "{violations:?}");
    home.bursar.close().await;
    scanned.orphans_total
}

/// Adds the names of all files below a folder.
fn walk(folder: &Path, files: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => walk(&entry.path(), files),
            false => assert!(files.insert(entry.file_name().into_string().unwrap())),
        }
    }
}
