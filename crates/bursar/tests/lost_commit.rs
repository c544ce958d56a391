//! PostgreSQL with a network that fails during a commit. With an idempotency key the commit is retried; without, its
//! outcome is unknown.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bursar::{Budget, Bursar, Charge, Command, Error, IdempotencyKey, Limit, Op, Request, Scope, StoreError, Window};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The network forwards everything.
const PASS: u8 = 0;
/// The network drops the answer to the next commit.
const LOSE_ANSWER: u8 = 1;
/// The network drops the next commit.
const LOSE_COMMIT: u8 = 2;

/// The message of the client that commits a batch: a simple query with its length.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// A network between Bursar and its database that can fail once.
struct Network {
    port: u16,
    fails: Arc<AtomicU8>,
}

impl Network {
    async fn to(server: String) -> Network {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, fails) = (listener.local_addr().unwrap().port(), Arc::new(AtomicU8::new(PASS)));
        let failure = fails.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.unwrap();
                tokio::spawn(carry(client, server, failure.clone()));
            }
        });
        Network { port, fails }
    }

    fn fail(&self, how: u8) {
        self.fails.store(how, Ordering::SeqCst);
    }

    fn has_failed(&self) -> bool {
        self.fails.load(Ordering::SeqCst) == PASS
    }
}

/// Forwards bytes both ways until one side disconnects, or until the network fails at a commit.
async fn carry(mut client: TcpStream, mut server: TcpStream, fails: Arc<AtomicU8>) {
    let (mut sent, mut received) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            read = client.read(&mut sent) => {
                let Ok(length @ 1..) = read else { return };
                let commits = sent[..length].windows(COMMIT.len()).any(|bytes| bytes == COMMIT);
                match if commits { fails.swap(PASS, Ordering::SeqCst) } else { PASS } {
                    LOSE_COMMIT => return,
                    LOSE_ANSWER => {
                        server.write_all(&sent[..length]).await.unwrap();
                        // The commit is done when the server answers; the answer is dropped.
                        assert_ne!(server.read(&mut received).await.unwrap(), 0);
                        return;
                    }
                    _ => if server.write_all(&sent[..length]).await.is_err() { return },
                }
            }
            read = server.read(&mut received) => {
                let Ok(length @ 1..) = read else { return };
                if client.write_all(&received[..length]).await.is_err() { return }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_lost_with_its_connection_is_retried_with_a_key() {
    let direct = bursar_testkit::fresh_database();
    let (user, rest) = direct.split_once('@').unwrap();
    let (server, database) = rest.split_once('/').unwrap();
    let network = Network::to(server.to_owned()).await;
    let url = format!("{user}@127.0.0.1:{}/{database}?sslmode=disable", network.port);
    let bursar = Bursar::options(&url).upkeep(None).open().await.unwrap();
    let ledger = bursar.ledger();
    ledger.define("room", Budget::new([Limit::new(100, Window::Lifetime)])).await.unwrap();
    let posted = async || bursar.ledger().budget("room").await.unwrap().unwrap().balances[0].posted;
    let room = Scope::new("room").unwrap();
    let charge = Command { charges: vec![Charge::new(room.clone(), 1)], ..Command::default() };
    let credit = Op::Credit { scope: room, amount: 1, hold: None };

    let mut expected = 0;
    for (name, op, each) in [("charge", Op::Submit(charge), 1), ("credit", credit, -1)] {
        let request = || Request::from(op.clone());
        for (how, lost) in [(LOSE_ANSWER, "answer"), (LOSE_COMMIT, "commit")] {
            let key = || IdempotencyKey::new(format!("{name}/{lost}")).unwrap();
            network.fail(how);
            let first = bursar.request(request().with_key(key())).await.unwrap();
            assert!(network.has_failed(), "the connection was cut: {name}");
            expected += each;
            assert_eq!(posted().await, expected, "executed once, whether or not the first commit arrived");
            let again = bursar.request(request().with_key(key())).await.unwrap();
            assert!(again.replayed && again.command == first.command);
            assert_eq!(posted().await, expected);
        }
        for (how, done) in [(LOSE_ANSWER, each), (LOSE_COMMIT, 0)] {
            network.fail(how);
            let unknown = bursar.request(request()).await.unwrap_err();
            assert!(network.has_failed(), "the connection was cut: {name}");
            let Error::Store(error) = &unknown else { panic!("{unknown}") };
            assert!(matches!(**error, StoreError::UnknownOutcome(_)), "{unknown}");
            expected += done;
            assert_eq!(posted().await, expected, "not retried without a key");
        }
    }
    assert!(bursar.verify().await.unwrap().is_ok());
    bursar.close().await;
}
