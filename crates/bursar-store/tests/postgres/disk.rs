//! A server whose disk is full or slow. The server is real; `disk.c` stands between it and the C library.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bursar_testkit::Cluster;
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;

use crate::faults::{World, options};

/// A disk for the files of a server.
struct Disk {
    /// The library and the state of the disk.
    folder: TempDir,
}

impl Disk {
    /// Compiles the library.
    fn new() -> Disk {
        let folder = tempfile::Builder::new().prefix("bursar-disk-").tempdir().unwrap();
        // The server runs as another user.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), mode).unwrap();
        let disk = Disk { folder };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/postgres/disk.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(disk.library());
        assert!(compiler.arg(source).arg("-ldl").status().unwrap().success(), "the library is not compiled");
        disk.set("");
        disk
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("disk.so")
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Sets what the disk does from now on.
    fn set(&self, state: &str) {
        // A reader sees the old state or the new one.
        let new = self.folder.path().join("new");
        std::fs::write(&new, state).unwrap();
        std::fs::rename(new, self.state()).unwrap();
    }

    /// Starts a server on the disk that waits for its syncs.
    fn start(&self) -> Cluster {
        let variable = |name: &str, value: PathBuf| (OsString::from(name), value.into_os_string());
        let environment = vec![variable("LD_PRELOAD", self.library()), variable("BURSAR_TEST_DISK", self.state())];
        Cluster::start_with(&std::env::temp_dir(), true, environment)
    }
}

#[tokio::test]
async fn a_server_whose_disk_was_full_is_used_again() {
    let disk = Disk::new();
    let cluster = disk.start();
    let mut world = World::open(&cluster.fresh_database(), options()).await;
    world.post().await;
    disk.set("full /base/");
    world.post_until_it_fails().await;
    assert!(!world.attempt().await, "the disk is still full");
    disk.set("");
    world.post().await;
    world.finish().await;
}

/// The server stops itself when it cannot write its log.
#[tokio::test]
async fn a_server_that_stopped_because_its_disk_was_full_is_used_again() {
    let disk = Disk::new();
    let cluster = disk.start();
    let url = cluster.fresh_database();
    let mut world = World::open(&url, options()).await;
    world.post().await;
    disk.set("full /pg_wal/");
    let mut conn = PgConnection::connect(&url).await.unwrap();
    // Each switch begins another file of the log, and needs something written to the one before.
    while sqlx::query("SELECT pg_switch_wal()").execute(&mut conn).await.is_ok() && world.attempt_counted().await {}
    world.post_until_it_fails().await;
    disk.set("");
    // An operator starts it again once there is room.
    cluster.crash_and_restart();
    world.post().await;
    world.finish().await;
}

#[tokio::test]
async fn a_slow_disk_delays_requests_and_ends_none_wrongly() {
    let disk = Disk::new();
    let cluster = disk.start();
    let mut world = World::open(&cluster.fresh_database(), options()).await;
    world.post().await;
    disk.set("slow 300");
    let began = tokio::time::Instant::now();
    assert!(world.attempt_counted().await, "a slow disk is not a fault");
    assert!(began.elapsed() >= Duration::from_millis(300), "the commit did not wait for the disk");
    // Longer than the store waits for an answer.
    disk.set("slow 4000");
    assert!(!world.attempt().await, "the answer came before the disk had written");
    disk.set("");
    world.post().await;
    world.finish().await;
}
