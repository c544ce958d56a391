//! A throwaway PgBouncer in front of a [`Cluster`].

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use super::{Cluster, is_root, run, spawn_apart};

const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// A running PgBouncer in transaction mode. It stops and its folder is deleted when the value is dropped or the process ends.
#[derive(Debug)]
pub struct Pooler {
    port: u16,
    /// The pooler. A shell stops it when its standard input closes, which the kernel does however this process ends.
    process: Child,
}

impl Pooler {
    /// Starts a pooler with `size` connections to each database of a server. It closes a connection that was idle for `idle`.
    ///
    /// # Panics
    /// When PgBouncer is not installed or does not start.
    pub fn start(cluster: &Cluster, size: u32, idle: Duration) -> Pooler {
        Pooler::start_ignoring(cluster, size, idle, "")
    }

    /// Starts a pooler that accepts the named startup parameters, and ignores them.
    ///
    /// # Panics
    /// When PgBouncer is not installed or does not start.
    pub fn start_ignoring(cluster: &Cluster, size: u32, idle: Duration, parameters: &str) -> Pooler {
        assert!(Path::new(PROGRAM).exists(), "PgBouncer is not installed: run `make setup`");
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        // Another process may take the port before the pooler binds it.
        let started = (0..5).find_map(|_| start(cluster.port, free(), size, idle, parameters));
        started.expect("PgBouncer did not start")
    }

    /// Returns the URL of a database, given its URL on the server.
    ///
    /// # Panics
    /// When the URL does not end with a database.
    pub fn url(&self, direct: &str) -> String {
        let database = direct.rsplit('/').next().expect("a URL ends with its database");
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // A failed cleanup cannot be reported from here.
        let _ = self.process.wait();
    }
}

/// Starts the pooler on a port; `None` if it ends at once.
fn start(server: u16, port: u16, size: u32, idle: Duration, ignored: &str) -> Option<Pooler> {
    let folder = tempfile::Builder::new().prefix("bursar-pooler-").tempdir().expect("a folder").keep();
    let log = folder.join("log");
    let settings = format!(
        "[databases]\n* = host=127.0.0.1 port={server}\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
         auth_type = trust\nauth_file = {folder}/users\nlogfile = {log}\n\
         pool_mode = transaction\ndefault_pool_size = {size}\nmax_client_conn = 2000\n\
         server_login_retry = 1\nserver_idle_timeout = {idle}\nignore_startup_parameters = {ignored}\n",
        folder = folder.display(),
        log = log.display(),
        idle = idle.as_secs().max(1)
    );
    std::fs::write(folder.join("pgbouncer.ini"), settings).expect("the settings can be written");
    std::fs::write(folder.join("users"), "\"postgres\" \"\"\n").expect("the users can be written");
    let mut process = spawn(&folder);
    let is_up = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("process up"));
    for _ in 0..600 {
        if is_up() {
            return Some(Pooler { port, process });
        }
        if process.try_wait().is_ok_and(|ended| ended.is_some()) {
            return None;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(Pooler { port, process });
    None
}

/// Starts the pooler, and a shell that stops it once this process has ended.
fn spawn(folder: &Path) -> Child {
    // PgBouncer refuses to run as root.
    let user: &[&str] = if is_root() {
        run(Command::new("chown").args(["-R", "postgres"]).arg(folder));
        &["-u", "postgres"]
    } else {
        &[]
    };
    let script = r#"
        folder=$1; shift
        exec 3<&0
        (cat <&3 >/dev/null; kill $$; rm -rf "$folder") &
        exec "$@" -q "$folder/pgbouncer.ini" 3<&-"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "bursar-pooler"]).arg(folder).arg(PROGRAM).args(user);
    spawn_apart(shell)
}
