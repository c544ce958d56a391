//! A throwaway PostgreSQL, gone with the process that started it.

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const MISSING: &str = "PostgreSQL is not installed: run `make test`, which installs PostgreSQL";

/// The cluster of this process, started when it is first asked for. It is fast and not durable: `fsync` is off.
pub fn postgres() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| Cluster::start(false))
}

/// The address of a new, empty database in the cluster of this process.
pub fn fresh_database() -> String {
    postgres().fresh_database()
}

/// A running PostgreSQL. It stops and its folder is deleted when it is dropped, or when the process ends, however.
#[derive(Debug)]
pub struct Cluster {
    bin: PathBuf,
    folder: PathBuf,
    port: u16,
    durable: bool,
    databases: AtomicU32,
    /// Waits until the pipe to it is closed, which no way of dying prevents, and then cleans up.
    keeper: Child,
}

impl Cluster {
    /// Whether PostgreSQL is there to be started.
    pub fn installed() -> bool {
        binaries().is_some()
    }

    /// Starts one; `durable` leaves everything at its default that keeps data safe in a crash.
    ///
    /// # Panics
    /// When PostgreSQL is not installed or does not start.
    pub fn start(durable: bool) -> Cluster {
        Cluster::start_in(&std::env::temp_dir(), durable)
    }

    /// Starts one that keeps its files in a folder of its own below this one.
    ///
    /// # Panics
    /// When PostgreSQL is not installed or does not start.
    pub fn start_in(parent: &Path, durable: bool) -> Cluster {
        let bin = binaries().expect(MISSING);
        let folder = tempfile::Builder::new().prefix("bursar-pg-").tempdir_in(parent).expect("a folder").keep();
        // It refuses to run as root.
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&folder));
        }
        let keeper = keeper(&bin, &folder);
        let init = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", "-D"];
        run(as_server(&bin.join("initdb")).args(init).arg(folder.join("data")));
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        // Somebody else may take the port meanwhile.
        let port = (0..5).map(|_| free()).find(|port| start(&bin, &folder, durable, *port));
        let port = port.expect("PostgreSQL starts; see its log");
        Cluster { bin, folder, port, durable, databases: AtomicU32::new(0), keeper }
    }

    /// The address of one of its databases.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Where it keeps its files, for as long as it lives.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The address of a new, empty database.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn fresh_database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::SeqCst));
        let create = format!("CREATE DATABASE {name} TEMPLATE template0");
        run(Command::new(self.bin.join("psql")).args(["-q", "-X", "-c", &create, &self.url("postgres")]));
        self.url(&name)
    }

    /// The address of a copy of a database that nobody is connected to.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn copy_database(&self, url: &str) -> String {
        let from = url.rsplit('/').next().expect("an address ends with its database");
        let name = format!("copy_{}", self.databases.fetch_add(1, Ordering::SeqCst));
        let create = format!("CREATE DATABASE {name} TEMPLATE {from}");
        run(Command::new(self.bin.join("psql")).args(["-q", "-X", "-c", &create, &self.url("postgres")]));
        self.url(&name)
    }

    /// Kills every process of the server with `SIGKILL`, and starts it again on the same port and data.
    ///
    /// # Panics
    /// When it does not come back.
    pub fn kill_and_restart(&self) {
        let written = std::fs::read_to_string(self.folder.join("data/postmaster.pid")).expect("the server runs");
        let server = written.lines().next().expect("its first line is the process").trim().to_owned();
        // Its children are asked for before it is gone and they are nobody's; it makes no more of them meanwhile, of which one would be left.
        let stopped = Command::new("kill").args(["-STOP", &server]).stderr(Stdio::null()).status();
        stopped.expect("kill runs");
        let mut all = vec![server.clone()];
        all.extend(children(&server));
        // One that ended meanwhile is no failure.
        let killed = Command::new("kill").arg("-KILL").args(&all).stderr(Stdio::null()).status();
        killed.expect("kill runs");
        // It refuses to start as long as one of the old processes has its memory.
        let came_back = (0..50).any(|_| {
            if start(&self.bin, &self.folder, self.durable, self.port) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(100));
            false
        });
        assert!(came_back, "PostgreSQL starts again; see its log");
    }

    /// Stops the server as a crash would, and starts it again on the same port and data.
    ///
    /// # Panics
    /// When it does not come back.
    pub fn crash_and_restart(&self) {
        let mut command = as_server(&self.bin.join("pg_ctl"));
        command.args(["-s", "-w", "-m", "immediate", "restart", "-D"]).arg(self.folder.join("data"));
        // The server must not inherit our pipes: whoever reads them would wait for its end.
        command.arg("-l").arg(self.folder.join("log"));
        let done = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(done.expect("pg_ctl runs").success(), "PostgreSQL starts again");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // If it fails there is nothing left to be done about it here.
        let _ = self.keeper.wait();
    }
}

/// Starts the server on a port, and says whether that worked.
fn start(bin: &Path, folder: &Path, durable: bool, port: u16) -> bool {
    let mut settings = format!(
        "-p {port} -h 127.0.0.1 -k {} -c max_connections=200 -c shared_preload_libraries=pg_stat_statements",
        folder.display()
    );
    if !durable {
        settings.push_str(" -c fsync=off -c full_page_writes=off");
    }
    let mut command = as_server(&bin.join("pg_ctl"));
    command.args(["-s", "-w", "start", "-D"]).arg(folder.join("data"));
    command.arg("-l").arg(folder.join("log")).arg("-o").arg(settings);
    let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    started.expect("pg_ctl runs").success()
}

/// The processes whose parent is this one.
fn children(parent: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").expect("processes can be listed");
    let numbers = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let parent_of = |process: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name, in parentheses, may hold anything; the state and the parent follow it.
        Some(stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.to_owned())
    };
    numbers
        .filter(|process| process.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|process| parent_of(process).as_deref() == Some(parent))
        .collect()
}

/// A shell that outlives this process by just so long as cleaning up takes.
fn keeper(bin: &Path, folder: &Path) -> Child {
    let stop = as_server(&bin.join("pg_ctl"));
    let script = r#"
        folder=$1; shift
        cat >/dev/null
        "$@" -s -w -m immediate stop -D "$folder/data" >/dev/null 2>&1
        rm -rf "$folder""#;
    Command::new("sh")
        .args(["-c", script, "bursar-testkit"])
        .arg(folder)
        .arg(stop.get_program())
        .args(stop.get_args())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Not in our group: an interrupt from the keyboard must not take it along.
        .process_group(0)
        .current_dir("/")
        .spawn()
        .expect("a shell can be started")
}

/// The command as a user the server agrees to run as.
fn as_server(program: &Path) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir("/");
    command
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The newest version that is installed.
fn binaries() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let versions = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    let number = |bin: &PathBuf| bin.parent()?.file_name()?.to_str()?.parse::<u32>().ok();
    versions.filter(|bin| bin.join("initdb").exists() && bin.join("pg_ctl").exists()).max_by_key(number)
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
