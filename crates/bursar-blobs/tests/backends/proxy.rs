//! A proxy in front of a service, which can fail.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What a faulty proxy does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It answers every request with this status.
    Status(u16),
    /// It closes the connection after this many bytes from the client.
    CutAfter(u64),
    /// It passes everything on.
    None,
}

/// A proxy in front of a service, whose fault can be changed.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    fault: tokio::sync::watch::Sender<Fault>,
}

impl Proxy {
    pub(crate) async fn start(to: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (fault, seen) = tokio::sync::watch::channel(Fault::None);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (mut seen, to) = (seen.clone(), to.clone());
                let fault = *seen.borrow_and_update();
                tokio::spawn(async move {
                    // A change of the fault closes the connections that are open.
                    tokio::select! {
                        () = pass(stream, to, fault) => {}
                        _ = seen.changed() => {}
                    }
                });
            }
        });
        Proxy { address, fault }
    }

    pub(crate) fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }
}

async fn pass(mut client: TcpStream, to: String, fault: Fault) {
    match fault {
        Fault::None => {
            let mut server = TcpStream::connect(to).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        }
        Fault::CutAfter(bytes) => {
            let mut server = TcpStream::connect(to).await.unwrap();
            let (mut from_client, mut to_client) = client.split();
            let (mut from_server, mut to_server) = server.split();
            let mut request = (&mut from_client).take(bytes);
            tokio::select! {
                _ = tokio::io::copy(&mut request, &mut to_server) => {}
                _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
            }
        }
        Fault::Status(status) => {
            let mut buffer = [0; 4096];
            let _ = client.read(&mut buffer).await;
            let answer = format!("HTTP/1.1 {status} Fault\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = client.write_all(answer.as_bytes()).await;
            // The rest of the request is read, so that the answer is not lost with the connection.
            while client.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
        }
    }
}
