//! A throwaway server does not outlive the process that started it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bursar_pg_cluster::Cluster;

const CHILD: &str = "BURSAR_PG_CLUSTER_CHILD";

#[test]
fn a_killed_process_leaves_no_server_and_no_folder() {
    if std::env::var_os(CHILD).is_some() {
        let cluster = Cluster::start(false);
        println!("\nfolder={}", cluster.folder().display());
        loop {
            std::thread::park();
        }
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_process_leaves_no_server_and_no_folder", "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let folder = lines.filter_map(|line| line.strip_prefix("folder=").map(str::to_owned)).next().unwrap();
    assert!(Path::new(&folder).join("data/postmaster.pid").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until_deleted(Path::new(&folder));
}

#[test]
fn a_dropped_cluster_is_stopped_and_deleted() {
    let cluster = Cluster::start(false);
    let folder = cluster.folder().to_owned();
    assert!(cluster.fresh_database().ends_with("/test_0"));
    drop(cluster);
    assert!(!folder.exists());
}

/// Waits until the folder is deleted, which happens after the server has stopped.
fn wait_until_deleted(folder: &Path) {
    for _ in 0..2_400 {
        if !folder.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{} still exists", folder.display());
}
