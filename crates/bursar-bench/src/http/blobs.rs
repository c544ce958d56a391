//! Blobs over HTTP, compared with the same bytes as plain files on the same disk.

mod files;
mod nginx;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;

use crate::engine::DatabaseHost;
use crate::error::BenchError;
use crate::http::blobs::files::Files;
use crate::http::blobs::nginx::Nginx;
use crate::http::client::{Connection, request, request_head};
use crate::http::process::Process;
use crate::http::{OPERATOR, UNCHECKED_TOKEN, WARM_UP, verify};
use crate::load::{Round, closed_loop};
use crate::machine::folder_on_disk;
use crate::plan::{Baseline, Effort, Measurement, Work};
use crate::report::Measured;

pub(crate) use nginx::is_installed as nginx_is_installed;

/// Blobs or files that downloads read, round-robin.
const STORED: usize = 1_000;
/// The first bytes of a body are the number of the upload: the same bytes are stored only once.
const NUMBER_BYTES: usize = 8;

/// Measures one line.
pub(crate) async fn measure(
    home: &mut DatabaseHost,
    line: &Measurement,
    effort: Effort,
) -> Result<Measured, BenchError> {
    let work = line.work.ok_or_else(|| BenchError::Failed("the blob bench needs a work".into()))?;
    let folder = tempfile::Builder::new().prefix("bursar-bench-blobs-").tempdir_in(folder_on_disk()?)?;
    let database = home.database().await?;
    let directory = folder.path().join("blobs").display().to_string();
    let args = ["serve", "--listen", "127.0.0.1:0", "--database", &database.url(), "--blobs-directory", &directory];
    let mut process = Process::start(&args.map(str::to_owned), Some(OPERATOR)).await?;
    let idle_mb = process.memory_mb("VmRSS")?;
    let mut server = Server::new(work, line.callers, process.address);
    server.store().await?;
    let mut plain = match line.baseline {
        Baseline::None => None,
        _ => Some(Plain::open(work, line.callers, &folder).await?),
    };
    let warm_up = effort.time.min(WARM_UP);
    server.round(warm_up).await?;
    if let Some(plain) = &mut plain {
        plain.round(warm_up).await?;
    }
    let mut measured = Measured { idle_mb: Some(idle_mb), ..Measured::default() };
    for _ in 0..effort.rounds {
        measured.fsyncs_ms.push(home.fsync_ms().await?);
        measured.rounds.push(server.round(effort.time).await?);
        if let Some(plain) = &mut plain {
            measured.baseline.push(plain.round(effort.time).await?);
        }
    }
    measured.rss_mb = process.memory_mb("VmHWM")?;
    verify(process.address).await?;
    process.end()?;
    home.remove(database).await?;
    Ok(measured)
}

/// `bursar serve`, and what callers send to it.
struct Server {
    work: Work,
    callers: usize,
    address: SocketAddr,
    body: Arc<[u8]>,
    /// Uploads so far.
    sent: usize,
    /// The blobs that downloads read.
    paths: Vec<String>,
}

impl Server {
    fn new(work: Work, callers: usize, address: SocketAddr) -> Server {
        Server { work, callers, address, body: body(work), sent: 0, paths: Vec::new() }
    }

    /// Stores the blobs that downloads read.
    async fn store(&mut self) -> Result<(), BenchError> {
        if self.work != Work::GetSmall {
            return Ok(());
        }
        let mut connection = Connection::open(self.address).await?;
        for number in 0..STORED {
            let id = upload(&mut connection, number, &self.body).await?;
            self.paths.push(format!("/v1/blobs/{id}"));
        }
        Ok(())
    }

    async fn round(&mut self, time: Duration) -> Result<Round, BenchError> {
        if self.work == Work::GetSmall {
            return download_round(self.address, OPERATOR, &self.paths, self.callers, time).await;
        }
        let (before, body) = (self.sent, self.body.clone());
        let round = callers_round(self.address, self.callers, time, move |mut connection, number| {
            let body = body.clone();
            async move {
                upload(&mut connection, before + number, &body).await?;
                Ok(connection)
            }
        })
        .await?;
        self.sent += round.done;
        Ok(round)
    }
}

/// The baseline: plain files, written by this process or read from nginx.
enum Plain {
    Files(Files),
    Nginx { nginx: Nginx, paths: Vec<String>, callers: usize },
}

impl Plain {
    async fn open(work: Work, callers: usize, folder: &TempDir) -> Result<Plain, BenchError> {
        let (files, body) = (Files::create(folder.path().join("files"), callers)?, body(work));
        if work != Work::GetSmall {
            return Ok(Plain::Files(files.with_source(&body)?));
        }
        for number in 0..STORED {
            files.write(number, &body)?;
        }
        let nginx = Nginx::start(folder.path(), files.folder()).await?;
        Ok(Plain::Nginx { nginx, paths: (0..STORED).map(|number| format!("/{number}")).collect(), callers })
    }

    async fn round(&mut self, time: Duration) -> Result<Round, BenchError> {
        match self {
            Plain::Files(files) => files.round(time).await,
            Plain::Nginx { nginx, paths, callers } => {
                download_round(nginx.address, UNCHECKED_TOKEN, paths, *callers, time).await
            }
        }
    }
}

/// Returns bytes that do not compress, as media are.
fn body(work: Work) -> Arc<[u8]> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let words = work.blob_bytes().unwrap_or(0) / NUMBER_BYTES;
    (0..words).flat_map(|_| next()).collect()
}

/// Sends the bytes with a number at their start, and returns the id of the blob.
async fn upload(connection: &mut Connection, number: usize, body: &[u8]) -> Result<String, BenchError> {
    let head = request_head("POST", "/v1/blobs", OPERATOR, "application/octet-stream", body.len());
    let number = (number as u64).to_le_bytes();
    let parts = [head.as_bytes(), &number[..], &body[number.len()..]];
    let stored = connection.send_parts(&parts).await?;
    stored.value("\"id\":\"").map(str::to_owned)
}

async fn download_round(
    address: SocketAddr,
    token: &str,
    paths: &[String],
    callers: usize,
    time: Duration,
) -> Result<Round, BenchError> {
    let requests: Arc<[String]> = paths.iter().map(|path| request("GET", path, token, "")).collect();
    let expected = Work::GetSmall.blob_bytes().unwrap_or(0);
    callers_round(address, callers, time, move |mut connection, number| {
        let requests = requests.clone();
        async move {
            let read = connection.send(&requests[number % requests.len()]).await?.len();
            if read != expected {
                return Err(BenchError::Failed(format!("a download has {read} bytes instead of {expected}")));
            }
            Ok(connection)
        }
    })
    .await
}

/// Runs callers that each use a connection at a time and return it.
async fn callers_round<F>(
    address: SocketAddr,
    callers: usize,
    time: Duration,
    operation: impl Fn(Connection, usize) -> F + Clone + Send + 'static,
) -> Result<Round, BenchError>
where
    F: Future<Output = Result<Connection, BenchError>> + Send,
{
    let mut open = Vec::with_capacity(callers);
    for _ in 0..callers {
        open.push(Connection::open(address).await?);
    }
    let idle = Arc::new(Mutex::new(open));
    closed_loop(callers, time, usize::MAX, move |number| {
        let (idle, operation) = (idle.clone(), operation.clone());
        async move {
            let taken = idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop();
            let connection = taken.ok_or_else(|| BenchError::Failed("a caller has no connection".into()))?;
            let connection = operation(connection, number).await?;
            idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(connection);
            Ok(())
        }
    })
    .await
}
