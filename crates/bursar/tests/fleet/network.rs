//! A proxy between a process and PostgreSQL that drops notifications, as a pooler does that gives the listening connection
//! to another client.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// The type of the server's notification message.
const NOTIFICATION: u8 = b'A';

/// Starts such a proxy for the life of this process, and returns the database URL through it.
pub(crate) fn deaf(url: &str) -> String {
    let (user, rest) = url.split_once('@').unwrap();
    let (server, database) = rest.split_once('/').unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = server.to_owned();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(&server).unwrap();
            // Messages are sent without delay.
            client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).unwrap();
            let (requests, answers) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || carry(requests, server));
            thread::spawn(move || carry_all_but_notifications(answers, client));
        }
    });
    format!("{user}@127.0.0.1:{port}/{database}?sslmode=disable")
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// Forwards message by message: a type byte, a length that includes itself, and the rest.
fn carry_all_but_notifications(mut from: TcpStream, mut to: TcpStream) {
    let mut head = [0; 5];
    while from.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        let mut rest = vec![0; length - 4];
        if from.read_exact(&mut rest).is_err() {
            break;
        }
        if head[0] != NOTIFICATION && to.write_all(&[&head[..], &rest].concat()).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}
