//! Copies of a database that is in use: they end, they are one snapshot, and what is wrong with them changes nothing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bursar_core::budget::Limit;
use bursar_core::request::{Charge, Command, Op, Request};
use bursar_core::window::Window;
use bursar_store::prelude::*;
use bursar_store::sqlite::{backup, restore};
use bursar_store::{Copied, CopyOptions, CopyProgress, SqliteStore, StoreError};
use rusqlite::Connection;

use crate::ask::{clock, done, key_of, setup};

const NEW: CopyOptions = CopyOptions { replace: false, verify: true };
const REPLACE: CopyOptions = CopyOptions { replace: true, verify: true };

struct Place(tempfile::TempDir);

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// With a database that has spent `count` units.
    async fn with(name: &str, count: usize) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        let store = place.open(name).await;
        for _ in 0..count {
            done(&store, vec![spend()]).await;
        }
        store.close().await;
        place
    }

    async fn open(&self, name: &str) -> SqliteStore {
        SqliteStore::open(self.path(name), setup(&clock())).await.unwrap()
    }

    /// What was spent in a database, and the names of all files.
    async fn spent(&self, name: &str) -> i64 {
        let store = self.open(name).await;
        let row = store.scope(&key_of("room")).await.unwrap();
        store.close().await;
        row.map_or(0, |row| row.balances[0].posted)
    }

    fn files(&self) -> Vec<String> {
        let mut files: Vec<String> =
            std::fs::read_dir(self.0.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        files.retain(|name| !name.ends_with("-gate") && !name.ends_with("-turn"));
        files.sort();
        files
    }
}

fn spend() -> Request {
    let charge = Charge::new(key_of("room").1, 1).within([Limit::new(1_000_000, Window::Lifetime)]);
    Op::Submit(Command { charges: vec![charge], ..Command::default() }).into()
}

fn quiet() -> CopyProgress {
    Arc::new(|_, _| {})
}

async fn copy(from: &Path, to: &Path, how: CopyOptions) -> Result<Copied, StoreError> {
    backup(from, to, how, setup(&clock()), quiet()).await
}

async fn bring_back(from: &Path, to: &Path, how: CopyOptions) -> Result<Copied, StoreError> {
    restore(from, to, how, setup(&clock()), quiet()).await
}

#[tokio::test]
async fn a_copy_is_one_snapshot_and_does_not_start_over_however_much_is_written() {
    let place = Place::with("a.db", 5).await;
    let writer = Connection::open(place.path("a.db")).unwrap();
    writer.execute_batch("CREATE TABLE mine (text TEXT)").unwrap();
    let text = "x".repeat(1_000_000);
    for _ in 0..20 {
        writer.execute("INSERT INTO mine VALUES (?1)", [&text]).unwrap();
    }
    let (writer, told) = (Mutex::new(writer), Arc::new(Mutex::new(Vec::new())));
    let steps = told.clone();
    // Between any two steps another connection commits, which would make a plain copy start over.
    let progress: CopyProgress = Arc::new(move |done, total| {
        steps.lock().unwrap().push((done, total));
        writer.lock().unwrap().execute("INSERT INTO mine VALUES (?1)", [&text]).unwrap();
    });
    let copied = backup(&place.path("a.db"), &place.path("b.db"), NEW, setup(&clock()), progress).await.unwrap();
    let told = told.lock().unwrap().clone();
    assert!(told.len() >= 5, "it took several steps: {told:?}");
    assert!(told.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 == pair[1].1), "it only goes on: {told:?}");
    assert_eq!(told.last(), Some(&(copied.bytes, copied.bytes)));
    assert_eq!(copied.checked.unwrap().1.violations, Vec::<String>::new());
    let rows = |name: &str| -> i64 {
        let conn = Connection::open(place.path(name)).unwrap();
        conn.query_row("SELECT count(*) FROM mine", [], |row| row.get(0)).unwrap()
    };
    assert_eq!((rows("b.db"), rows("a.db")), (20, 20 + told.len() as i64));
    assert_eq!((place.spent("b.db").await, place.files()), (5, vec!["a.db".to_owned(), "b.db".to_owned()]));
}

#[tokio::test]
async fn what_is_there_is_replaced_only_when_that_is_said() {
    let place = Place::with("a.db", 3).await;
    let (a, b) = (place.path("a.db"), place.path("b.db"));
    // What is left of one that was killed is in nobody's way.
    std::fs::write(place.path("b.db.part"), b"half a copy").unwrap();
    std::fs::write(place.path("b.db.part-wal"), b"and its log").unwrap();
    copy(&a, &b, NEW).await.unwrap();
    let store = place.open("a.db").await;
    done(&store, vec![spend()]).await;
    assert!(copy(&a, &b, NEW).await.unwrap_err().to_string().contains("is there already"));
    assert!(copy(&a, &a, REPLACE).await.unwrap_err().to_string().contains("are one file"));
    copy(&a, &b, REPLACE).await.unwrap();
    store.close().await;
    assert_eq!(place.spent("b.db").await, 4);
    assert!(copy(&place.path("gone.db"), &b, REPLACE).await.unwrap_err().to_string().contains("there is no database"));
    assert_eq!(place.files(), ["a.db", "b.db"]);

    // The way back: into a new place, and over an old one that nobody has open.
    bring_back(&b, &place.path("c.db"), NEW).await.unwrap();
    assert!(bring_back(&b, &a, NEW).await.unwrap_err().to_string().contains("is there already"));
    let store = place.open("a.db").await;
    done(&store, vec![spend()]).await;
    let used = bring_back(&b, &a, REPLACE).await.unwrap_err();
    assert!(matches!(&used, StoreError::Busy(_)) && used.to_string().contains("in use"), "{used}");
    done(&store, vec![spend()]).await;
    store.close().await;
    assert_eq!(place.spent("a.db").await, 6, "who used it goes on");
    bring_back(&b, &a, REPLACE).await.unwrap();
    assert_eq!((place.spent("a.db").await, place.spent("c.db").await), (4, 4));
    assert_eq!(place.files(), ["a.db", "b.db", "c.db"]);
}

#[tokio::test]
async fn a_copy_that_is_spoiled_changes_nothing() {
    let place = Place::with("a.db", 3).await;
    let (a, b) = (place.path("a.db"), place.path("b.db"));
    copy(&a, &b, NEW).await.unwrap();
    let good = std::fs::read(&b).unwrap();
    let half = good.len() / 2 / 4_096 * 4_096;
    let zapped = |place: std::ops::Range<usize>| {
        let mut bytes = good.clone();
        bytes[place].fill(0xa5);
        bytes
    };
    let spoiled = [
        ("half of it", good[..half].to_vec()),
        ("all but a byte", good[..good.len() - 1].to_vec()),
        ("nothing", Vec::new()),
        ("another head", zapped(0..1)),
        ("a page of noise", zapped(half..half + 4_096)),
        ("something else", b"not a database ".repeat(1_000)),
    ];
    for (what, bytes) in spoiled {
        std::fs::write(&b, bytes).unwrap();
        let wrong = bring_back(&b, &a, REPLACE).await.unwrap_err().to_string();
        assert!(wrong.contains("b.db") && wrong.contains("nothing was changed"), "{what}: {wrong}");
        assert_eq!((place.spent("a.db").await, place.files()), (3, vec!["a.db".to_owned(), "b.db".to_owned()]));
    }
    // What is no database cannot be locked, so that nobody knows who uses it.
    std::fs::write(&b, &good).unwrap();
    std::fs::write(place.path("c.db"), b"no database at all").unwrap();
    let unlocked = bring_back(&b, &place.path("c.db"), REPLACE).await.unwrap_err().to_string();
    assert!(unlocked.contains("c.db cannot be locked"), "{unlocked}");
    assert_eq!(std::fs::read(place.path("c.db")).unwrap(), b"no database at all");
    std::fs::remove_file(place.path("c.db")).unwrap();
    // A database of somebody else's, and books that do not agree.
    std::fs::remove_file(&b).unwrap();
    Connection::open(&b).unwrap().execute_batch("CREATE TABLE other (x)").unwrap();
    assert!(bring_back(&b, &a, REPLACE).await.unwrap_err().to_string().contains("no tables of Bursar's"));
    assert!(copy(&b, &place.path("c.db"), NEW).await.unwrap_err().to_string().contains("no tables of Bursar's"));
    std::fs::write(&b, &good).unwrap();
    Connection::open(&b).unwrap().execute("UPDATE bursar_postings SET amount = 7", []).unwrap();
    assert!(bring_back(&b, &a, REPLACE).await.unwrap_err().to_string().contains("does not verify"));
    let torn = "UPDATE bursar_journal SET entries = replace(entries, 'room', 'ro\\m') WHERE position = 2";
    Connection::open(&b).unwrap().execute_batch(&format!("UPDATE bursar_postings SET amount = 1; {torn}")).unwrap();
    assert!(bring_back(&b, &a, REPLACE).await.unwrap_err().to_string().contains("journal row"));
    std::fs::write(&b, &good).unwrap();
    Connection::open(&b).unwrap().execute("UPDATE bursar_postings SET amount = 7", []).unwrap();
    assert!(copy(&b, &place.path("c.db"), NEW).await.unwrap_err().to_string().contains("does not verify"));
    assert_eq!((place.spent("a.db").await, place.files()), (3, vec!["a.db".to_owned(), "b.db".to_owned()]));
}

#[tokio::test]
async fn a_log_that_is_left_is_not_taken_for_a_part_of_what_is_restored() {
    let place = Place::with("a.db", 3).await;
    copy(&place.path("a.db"), &place.path("b.db"), NEW).await.unwrap();
    std::fs::write(place.path("c.db-wal"), b"left over").unwrap();
    let left = bring_back(&place.path("b.db"), &place.path("c.db"), NEW).await.unwrap_err().to_string();
    assert!(left.contains("c.db-wal"), "{left}");
    bring_back(&place.path("b.db"), &place.path("c.db"), REPLACE).await.unwrap();
    assert_eq!((place.spent("c.db").await, place.files()), (3, ["a.db", "b.db", "c.db"].map(str::to_owned).to_vec()));
    // A database that is in use is no copy.
    let store = place.open("a.db").await;
    done(&store, vec![spend()]).await;
    let used = bring_back(&place.path("a.db"), &place.path("d.db"), NEW).await.unwrap_err().to_string();
    assert!(used.contains("bursar backup"), "{used}");
    store.close().await;
}
