//! Backups of a database in use, and restores: a copy is one snapshot, and a failure changes nothing.

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

struct Folder(tempfile::TempDir);

impl Folder {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Creates a folder with a database that has spent `count` units.
    async fn with(name: &str, count: usize) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        let store = folder.open(name).await;
        for _ in 0..count {
            done(&store, vec![spend()]).await;
        }
        store.close().await;
        folder
    }

    async fn open(&self, name: &str) -> SqliteStore {
        SqliteStore::open(self.path(name), setup(&clock())).await.unwrap()
    }

    /// Returns the units spent in a database.
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

fn no_progress() -> CopyProgress {
    Arc::new(|_, _| {})
}

async fn copy(from: &Path, to: &Path, how: CopyOptions) -> Result<Copied, StoreError> {
    backup(from, to, how, setup(&clock()), no_progress()).await
}

async fn restore_copy(from: &Path, to: &Path, how: CopyOptions) -> Result<Copied, StoreError> {
    restore(from, to, how, setup(&clock()), no_progress()).await
}

#[tokio::test]
async fn a_copy_is_one_snapshot_despite_concurrent_writes() {
    let folder = Folder::with("a.db", 5).await;
    let writer = Connection::open(folder.path("a.db")).unwrap();
    writer.execute_batch("CREATE TABLE mine (text TEXT)").unwrap();
    let text = "x".repeat(1_000_000);
    for _ in 0..20 {
        writer.execute("INSERT INTO mine VALUES (?1)", [&text]).unwrap();
    }
    let (writer, steps_seen) = (Mutex::new(writer), Arc::new(Mutex::new(Vec::new())));
    let steps = steps_seen.clone();
    // Another connection commits between any two steps. SQLite's own backup would start again each time.
    let progress: CopyProgress = Arc::new(move |done, total| {
        steps.lock().unwrap().push((done, total));
        writer.lock().unwrap().execute("INSERT INTO mine VALUES (?1)", [&text]).unwrap();
    });
    let copied = backup(&folder.path("a.db"), &folder.path("b.db"), NEW, setup(&clock()), progress).await.unwrap();
    let steps_seen = steps_seen.lock().unwrap().clone();
    assert!(steps_seen.len() >= 5, "the copy has several steps: {steps_seen:?}");
    assert!(
        steps_seen.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 == pair[1].1),
        "progress only increases: {steps_seen:?}"
    );
    assert_eq!(steps_seen.last(), Some(&(copied.bytes, copied.bytes)));
    assert_eq!(copied.checked.unwrap().1.violations, Vec::<String>::new());
    let rows = |name: &str| -> i64 {
        let conn = Connection::open(folder.path(name)).unwrap();
        conn.query_row("SELECT count(*) FROM mine", [], |row| row.get(0)).unwrap()
    };
    assert_eq!((rows("b.db"), rows("a.db")), (20, 20 + steps_seen.len() as i64));
    assert_eq!((folder.spent("b.db").await, folder.files()), (5, vec!["a.db".to_owned(), "b.db".to_owned()]));
}

#[tokio::test]
async fn a_file_is_replaced_only_with_the_option() {
    let folder = Folder::with("a.db", 3).await;
    let (a, b) = (folder.path("a.db"), folder.path("b.db"));
    // The leftovers of a killed backup do not matter.
    std::fs::write(folder.path("b.db.part"), b"half a copy").unwrap();
    std::fs::write(folder.path("b.db.part-wal"), b"and its log").unwrap();
    copy(&a, &b, NEW).await.unwrap();
    let store = folder.open("a.db").await;
    done(&store, vec![spend()]).await;
    assert!(copy(&a, &b, NEW).await.unwrap_err().to_string().contains("already exists"));
    assert!(copy(&a, &a, REPLACE).await.unwrap_err().to_string().contains("are the same file"));
    copy(&a, &b, REPLACE).await.unwrap();
    store.close().await;
    assert_eq!(folder.spent("b.db").await, 4);
    assert!(copy(&folder.path("gone.db"), &b, REPLACE).await.unwrap_err().to_string().contains("there is no database"));
    assert_eq!(folder.files(), ["a.db", "b.db"]);

    // A restore to a new file, and over a file that no process has open.
    restore_copy(&b, &folder.path("c.db"), NEW).await.unwrap();
    assert!(restore_copy(&b, &a, NEW).await.unwrap_err().to_string().contains("already exists"));
    let store = folder.open("a.db").await;
    done(&store, vec![spend()]).await;
    let used = restore_copy(&b, &a, REPLACE).await.unwrap_err();
    assert!(matches!(&used, StoreError::Busy(_)) && used.to_string().contains("in use"), "{used}");
    done(&store, vec![spend()]).await;
    store.close().await;
    assert_eq!(folder.spent("a.db").await, 6, "the open store continues");
    restore_copy(&b, &a, REPLACE).await.unwrap();
    assert_eq!((folder.spent("a.db").await, folder.spent("c.db").await), (4, 4));
    assert_eq!(folder.files(), ["a.db", "b.db", "c.db"]);
}

#[tokio::test]
async fn restoring_a_damaged_copy_changes_nothing() {
    let folder = Folder::with("a.db", 3).await;
    let (a, b) = (folder.path("a.db"), folder.path("b.db"));
    copy(&a, &b, NEW).await.unwrap();
    let good = std::fs::read(&b).unwrap();
    let half = good.len() / 2 / 4_096 * 4_096;
    let overwritten = |range: std::ops::Range<usize>| {
        let mut bytes = good.clone();
        bytes[range].fill(0xa5);
        bytes
    };
    let damaged = [
        ("half of the file", good[..half].to_vec()),
        ("all but the last byte", good[..good.len() - 1].to_vec()),
        ("an empty file", Vec::new()),
        ("a wrong header", overwritten(0..1)),
        ("an overwritten page", overwritten(half..half + 4_096)),
        ("another file", b"not a database ".repeat(1_000)),
    ];
    for (what, bytes) in damaged {
        std::fs::write(&b, bytes).unwrap();
        let error = restore_copy(&b, &a, REPLACE).await.unwrap_err().to_string();
        assert!(error.contains("b.db") && error.contains("nothing was changed"), "{what}: {error}");
        assert_eq!((folder.spent("a.db").await, folder.files()), (3, vec!["a.db".to_owned(), "b.db".to_owned()]));
    }
    // A file that is not a database cannot be locked, so it may be in use.
    std::fs::write(&b, &good).unwrap();
    std::fs::write(folder.path("c.db"), b"no database at all").unwrap();
    let unlocked = restore_copy(&b, &folder.path("c.db"), REPLACE).await.unwrap_err().to_string();
    assert!(unlocked.contains("c.db cannot be locked"), "{unlocked}");
    assert_eq!(std::fs::read(folder.path("c.db")).unwrap(), b"no database at all");
    std::fs::remove_file(folder.path("c.db")).unwrap();
    // A database without Bursar's tables, and one whose balances are wrong.
    std::fs::remove_file(&b).unwrap();
    Connection::open(&b).unwrap().execute_batch("CREATE TABLE other (x)").unwrap();
    assert!(restore_copy(&b, &a, REPLACE).await.unwrap_err().to_string().contains("no Bursar tables"));
    assert!(copy(&b, &folder.path("c.db"), NEW).await.unwrap_err().to_string().contains("no Bursar tables"));
    std::fs::write(&b, &good).unwrap();
    Connection::open(&b).unwrap().execute("UPDATE bursar_postings SET amount = 7", []).unwrap();
    assert!(restore_copy(&b, &a, REPLACE).await.unwrap_err().to_string().contains("failed verification"));
    let torn = "UPDATE bursar_journal SET entries = replace(entries, 'room', 'ro\\m') WHERE position = 2";
    Connection::open(&b).unwrap().execute_batch(&format!("UPDATE bursar_postings SET amount = 1; {torn}")).unwrap();
    assert!(restore_copy(&b, &a, REPLACE).await.unwrap_err().to_string().contains("journal row"));
    std::fs::write(&b, &good).unwrap();
    Connection::open(&b).unwrap().execute("UPDATE bursar_postings SET amount = 7", []).unwrap();
    assert!(copy(&b, &folder.path("c.db"), NEW).await.unwrap_err().to_string().contains("failed verification"));
    assert_eq!((folder.spent("a.db").await, folder.files()), (3, vec!["a.db".to_owned(), "b.db".to_owned()]));
}

#[tokio::test]
async fn a_leftover_log_is_not_applied_to_a_restored_file() {
    let folder = Folder::with("a.db", 3).await;
    copy(&folder.path("a.db"), &folder.path("b.db"), NEW).await.unwrap();
    std::fs::write(folder.path("c.db-wal"), b"left over").unwrap();
    let left = restore_copy(&folder.path("b.db"), &folder.path("c.db"), NEW).await.unwrap_err().to_string();
    assert!(left.contains("c.db-wal"), "{left}");
    restore_copy(&folder.path("b.db"), &folder.path("c.db"), REPLACE).await.unwrap();
    assert_eq!((folder.spent("c.db").await, folder.files()), (3, ["a.db", "b.db", "c.db"].map(str::to_owned).to_vec()));
    // A database in use cannot be restored from.
    let store = folder.open("a.db").await;
    done(&store, vec![spend()]).await;
    let used = restore_copy(&folder.path("a.db"), &folder.path("d.db"), NEW).await.unwrap_err().to_string();
    assert!(used.contains("bursar backup"), "{used}");
    store.close().await;
}
