//! A connection that is lost after the commit, before its answer arrives.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bursar::{Bursar, Error, Limit, StoreError, Window};

/// The message of the client that commits a batch: a simple query with its length.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// A proxy between a client and its server that can drop the answer to a commit.
struct Line {
    server: String,
    /// Whether to forward the next commit and drop its answer.
    cut_next: AtomicBool,
    /// Whether all connections are refused.
    down: AtomicBool,
}

impl Line {
    /// Starts a proxy and returns the database URL through it.
    fn to(url: &str) -> (Arc<Line>, String) {
        let server = url.split(['@', '/']).find(|part| part.contains("127.0.0.1")).unwrap().to_owned();
        let near = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = url.replace(&server, &near.local_addr().unwrap().to_string());
        let line = Arc::new(Line { server, cut_next: AtomicBool::new(false), down: AtomicBool::new(false) });
        let this = line.clone();
        thread::spawn(move || {
            for client in near.incoming().flatten() {
                if !this.down.load(Ordering::SeqCst) {
                    let (this, server) = (this.clone(), TcpStream::connect(&this.server).unwrap());
                    thread::spawn(move || this.carry(client, server));
                }
            }
        });
        (line, address)
    }

    fn carry(self: Arc<Line>, mut client: TcpStream, mut server: TcpStream) {
        let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        let this = self.clone();
        let answers = thread::spawn(move || {
            let mut buffer = [0; 65_536];
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                if this.down.load(Ordering::SeqCst) || to.write_all(&buffer[..read]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Both);
        });
        let mut buffer = [0; 65_536];
        while let Ok(read @ 1..) = client.read(&mut buffer) {
            let commit = buffer[..read].windows(COMMIT.len()).any(|bytes| bytes == COMMIT);
            if commit && self.cut_next.swap(false, Ordering::SeqCst) {
                self.down.store(true, Ordering::SeqCst);
            }
            if server.write_all(&buffer[..read]).is_err() {
                break;
            }
            if self.down.load(Ordering::SeqCst) {
                // The server answers once the commit is done; the answer is dropped.
                answers.join().unwrap();
                return;
            }
        }
        let _ = server.shutdown(Shutdown::Both);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_commit_answer_is_an_unknown_outcome_if_the_retry_fails() {
    let (line, url) = Line::to(&bursar_testkit::fresh_database());
    let bursar = Bursar::options(&url).upkeep(None).open().await.unwrap();
    let limit = || [Limit::new(10, Window::Lifetime)];
    let post = || bursar.command().charge_within("room", 4, limit()).key("once").submit();
    bursar.command().charge_within("room", 1, limit()).submit().await.unwrap();

    line.cut_next.store(true, Ordering::SeqCst);
    let error = post().await.unwrap_err();
    let unknown = matches!(&error, Error::Store(error) if matches!(**error, StoreError::UnknownOutcome(_)));
    assert!(unknown, "the outcome should be unknown: {error}");

    line.down.store(false, Ordering::SeqCst);
    let again = post().await.unwrap();
    assert!(again.replayed, "the first attempt was committed");
    assert_eq!(again.remaining("room"), Some(5));
}
