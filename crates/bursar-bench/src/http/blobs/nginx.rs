//! nginx, which serves a folder.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::error::BenchError;
use crate::jobs::TIMEOUT;

/// A running nginx. It is killed on drop.
pub(super) struct Nginx {
    child: Child,
    pub(super) address: SocketAddr,
}

const PROGRAM: &str = "nginx";
const WAIT: Duration = Duration::from_millis(10);

/// Returns whether nginx can be started.
pub(crate) fn is_installed() -> bool {
    let asked = Command::new(PROGRAM).arg("-v").stdin(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

impl Nginx {
    /// Starts it with a folder for its own files, and waits until it answers.
    pub(super) async fn start(own: &Path, served: &Path) -> Result<Nginx, BenchError> {
        let address = free_address()?;
        let config = own.join("nginx.conf");
        std::fs::write(&config, settings(address, own, served))?;
        let mut command = Command::new(PROGRAM);
        command.arg("-c").arg(&config).arg("-e").arg(own.join("nginx.log")).stdin(Stdio::null());
        let mut nginx = Nginx { child: command.spawn()?, address };
        let until = Instant::now() + TIMEOUT;
        while TcpStream::connect(address).await.is_err() {
            if Instant::now() > until || nginx.child.try_wait()?.is_some() {
                return Err(BenchError::Failed("nginx did not start".into()));
            }
            tokio::time::sleep(WAIT).await;
        }
        Ok(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It has no workers of its own, so nothing is left behind. This fails if it has ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One process on one core, as the server's callers need the other one; no log, as the server writes none for a download.
fn settings(address: SocketAddr, own: &Path, served: &Path) -> String {
    let (own, served) = (own.display(), served.display());
    format!(
        "daemon off;\nmaster_process off;\npid {own}/nginx.pid;\nevents {{ worker_connections 1024; }}\nhttp {{
  access_log off;\n  sendfile on;\n  tcp_nopush on;\n  keepalive_requests 1000000000;\n  default_type application/octet-stream;
  client_body_temp_path {own}/nginx-body;\n  proxy_temp_path {own}/nginx-proxy;\n  fastcgi_temp_path {own}/nginx-fastcgi;
  uwsgi_temp_path {own}/nginx-uwsgi;\n  scgi_temp_path {own}/nginx-scgi;
  open_file_cache max=10000 inactive=60s;\n  server {{ listen {address}; root {served}; }}\n}}\n"
    )
}

fn free_address() -> Result<SocketAddr, BenchError> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
