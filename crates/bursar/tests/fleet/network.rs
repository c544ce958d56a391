//! A network between a process and PostgreSQL on which notifications get lost, as with a pooler that gives the connection which
//! listens to somebody else.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// The kind of message by which the server tells who listens.
const NOTIFICATION: u8 = b'A';

/// The address of the database by way of such a network, which is there as long as this process.
pub(crate) fn deaf(url: &str) -> String {
    let (user, rest) = url.split_once('@').unwrap();
    let (server, database) = rest.split_once('/').unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = server.to_owned();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(&server).unwrap();
            // Whoever waits for the end of a message does not wait for another one.
            client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).unwrap();
            let (asks, answers) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || carry(asks, server));
            thread::spawn(move || carry_all_but_notifications(answers, client));
        }
    });
    format!("{user}@127.0.0.1:{port}/{database}?sslmode=disable")
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// Message by message: a letter, a length that counts itself, and the rest.
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
