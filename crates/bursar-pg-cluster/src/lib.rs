//! A throwaway PostgreSQL server that stops when the process that started it ends, and a PgBouncer in front of it.
//!
//! ```no_run
//! use bursar_pg_cluster::Cluster;
//!
//! let cluster = Cluster::start(false);
//! println!("an empty database at {}", cluster.fresh_database());
//! ```

mod pooler;

use std::ffi::OsString;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub use self::pooler::Pooler;

const MISSING: &str = "PostgreSQL is not installed: run `make setup`";

/// A running PostgreSQL server. It stops and its folder is deleted when the value is dropped or the process ends, even
/// by `SIGKILL`.
#[derive(Debug)]
pub struct Cluster {
    bin: PathBuf,
    folder: PathBuf,
    port: u16,
    durable: bool,
    environment: Vec<(OsString, OsString)>,
    databases: AtomicU32,
    app_role: OnceLock<()>,
    /// A shell that cleans up when its standard input closes, which the kernel does however this process ends.
    cleaner: Child,
}

impl Cluster {
    /// Returns whether PostgreSQL is installed.
    pub fn installed() -> bool {
        binaries().is_some()
    }

    /// Starts a server in the system's temporary folder. `durable` keeps the default settings that protect data in a crash.
    ///
    /// # Panics
    /// When PostgreSQL is not installed or does not start.
    pub fn start(durable: bool) -> Cluster {
        Cluster::start_in(&std::env::temp_dir(), durable)
    }

    /// Starts a server that keeps its files in a new folder below `parent`.
    ///
    /// # Panics
    /// When PostgreSQL is not installed or does not start.
    pub fn start_in(parent: &Path, durable: bool) -> Cluster {
        Cluster::start_with(parent, durable, Vec::new())
    }

    /// Starts a server whose processes have these variables in their environment.
    ///
    /// # Panics
    /// When PostgreSQL is not installed or does not start.
    pub fn start_with(parent: &Path, durable: bool, environment: Vec<(OsString, OsString)>) -> Cluster {
        let bin = binaries().expect(MISSING);
        let folder = tempfile::Builder::new().prefix("bursar-pg-").tempdir_in(parent).expect("a folder").keep();
        // PostgreSQL refuses to run as root.
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&folder));
        }
        let cleaner = cleaner(&bin, &folder);
        let init = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", "-D"];
        run(as_server(&bin.join("initdb")).args(init).arg(folder.join("data")));
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        // Another process may take the port before the server binds it.
        let port = (0..5).map(|_| free()).find(|port| start(&bin, &folder, durable, *port, &environment));
        let port = port.expect("PostgreSQL did not start; see its log");
        let (databases, app_role) = (AtomicU32::new(0), OnceLock::new());
        Cluster { bin, folder, port, durable, environment, databases, app_role, cleaner }
    }

    /// Returns the URL of one of its databases.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Returns the folder of its files, which is deleted when the server stops.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates an empty database and returns its URL.
    ///
    /// # Panics
    /// When the database cannot be created.
    pub fn fresh_database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::SeqCst));
        let create = format!("CREATE DATABASE {name} TEMPLATE template0");
        run(Command::new(self.bin.join("psql")).args(["-q", "-X", "-c", &create, &self.url("postgres")]));
        self.url(&name)
    }

    /// Returns the name of a role that owns nothing and cannot log in. Creates it when it is first called.
    ///
    /// # Panics
    /// When the role cannot be created.
    pub fn app_role(&self) -> &'static str {
        self.app_role.get_or_init(|| {
            let create = "CREATE ROLE bursar_app NOLOGIN";
            run(Command::new(self.bin.join("psql")).args(["-q", "-X", "-c", create, &self.url("postgres")]));
        });
        "bursar_app"
    }

    /// Copies a database and returns the URL of the copy. Ends the connections to the database, such as those that a pooler keeps.
    ///
    /// # Panics
    /// When the database cannot be created.
    pub fn copy_database(&self, url: &str) -> String {
        let from = url.rsplit('/').next().expect("a URL ends with its database");
        let name = format!("copy_{}", self.databases.fetch_add(1, Ordering::SeqCst));
        let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{from}'");
        let create = format!("CREATE DATABASE {name} TEMPLATE {from}");
        let psql = ["-q", "-X", "-o", "/dev/null", "-c", &end, "-c", &create, &self.url("postgres")];
        run(Command::new(self.bin.join("psql")).args(psql));
        self.url(&name)
    }

    /// Kills every process of the server with `SIGKILL`, and starts it again on the same port and data.
    ///
    /// # Panics
    /// When it does not start again.
    pub fn kill_and_restart(&self) {
        let server = self.process();
        // A stopped server forks no more, so that the list of its children, read before it dies, is complete.
        let stopped = Command::new("kill").args(["-STOP", &server]).stderr(Stdio::null()).status();
        stopped.expect("kill runs");
        let mut all = vec![server.clone()];
        all.extend(children(&server));
        // A process of the list may have ended by now, so that the exit status is not checked.
        let killed = Command::new("kill").arg("-KILL").args(&all).stderr(Stdio::null()).status();
        killed.expect("kill runs");
        // The server refuses to start while an old process is attached to its shared memory.
        let restarted = (0..50).any(|_| {
            if start(&self.bin, &self.folder, self.durable, self.port, &self.environment) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(100));
            false
        });
        assert!(restarted, "PostgreSQL did not start again; see its log");
    }

    /// Stops all processes of the server with `SIGSTOP`, until the value is dropped. The kernel still accepts connections.
    ///
    /// # Panics
    /// When the server does not run.
    pub fn pause(&self) -> Paused {
        let server = self.process();
        // Stopped first, so that it does not start another process meanwhile.
        signal("-STOP", std::slice::from_ref(&server));
        let mut all = children(&server);
        all.push(server);
        signal("-STOP", &all);
        Paused(all)
    }

    /// Returns the number of the main process.
    fn process(&self) -> String {
        let written = std::fs::read_to_string(self.folder.join("data/postmaster.pid")).expect("the server runs");
        written.lines().next().expect("its first line is the process").trim().to_owned()
    }

    /// Stops the server without a checkpoint, as a crash would, and starts it again on the same port and data.
    ///
    /// # Panics
    /// When it does not start again.
    pub fn crash_and_restart(&self) {
        let mut command = as_server(&self.bin.join("pg_ctl"));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.args(["-s", "-w", "-m", "immediate", "restart", "-D"]).arg(self.folder.join("data"));
        // The server must not inherit this process's pipes: their readers would wait until it ends.
        command.arg("-l").arg(self.folder.join("log"));
        let done = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(done.expect("pg_ctl runs").success(), "PostgreSQL did not start again");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.cleaner.stdin.take());
        // A failed cleanup cannot be reported from here.
        let _ = self.cleaner.wait();
    }
}

/// The processes of a server that is paused. It goes on when the value is dropped.
#[derive(Debug)]
pub struct Paused(Vec<String>);

impl Drop for Paused {
    fn drop(&mut self) {
        signal("-CONT", &self.0);
    }
}

/// Sends a signal to processes, some of which may have ended.
fn signal(signal: &str, processes: &[String]) {
    let sent = Command::new("kill").arg(signal).args(processes).stderr(Stdio::null()).status();
    sent.expect("kill runs");
}

/// Starts the server on a port; returns whether it runs.
fn start(bin: &Path, folder: &Path, durable: bool, port: u16, environment: &[(OsString, OsString)]) -> bool {
    let mut settings = format!(
        "-p {port} -h 127.0.0.1 -k {} -c max_connections=200 -c shared_preload_libraries=pg_stat_statements \
         -c log_line_prefix=%t:%p:%d:",
        folder.display()
    );
    if !durable {
        settings.push_str(" -c fsync=off -c full_page_writes=off");
    }
    let mut command = as_server(&bin.join("pg_ctl"));
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.args(["-s", "-w", "start", "-D"]).arg(folder.join("data"));
    command.arg("-l").arg(folder.join("log")).arg("-o").arg(settings);
    let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    started.expect("pg_ctl runs").success()
}

/// Returns the processes whose parent is this one.
fn children(parent: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").expect("/proc can be read");
    let numbers = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let parent_of = |process: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name, in parentheses, may contain any characters; state and parent follow it.
        Some(stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.to_owned())
    };
    numbers
        .filter(|process| process.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|process| parent_of(process).as_deref() == Some(parent))
        .collect()
}

/// Starts the shell that stops the server and deletes its folder once this process has ended.
fn cleaner(bin: &Path, folder: &Path) -> Child {
    let stop = as_server(&bin.join("pg_ctl"));
    let script = r#"
        folder=$1; shift
        cat >/dev/null
        "$@" -s -w -m immediate stop -D "$folder/data" >/dev/null 2>&1
        rm -rf "$folder""#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "bursar-pg-cluster"]).arg(folder).arg(stop.get_program()).args(stop.get_args());
    spawn_apart(shell)
}

/// Starts a shell that waits for the end of this process: its standard input ends then.
fn spawn_apart(mut shell: Command) -> Child {
    shell
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // In a process group of its own, so that Ctrl-C does not end it.
        .process_group(0)
        .current_dir("/")
        .spawn()
        .expect("a shell can be started")
}

/// Returns a command that runs as a user that PostgreSQL accepts.
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

/// Returns the folder of the newest installed version's programs.
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
