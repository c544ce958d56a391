//! Slow, broken and large transfers: they leave nothing, and occupy bounded memory.

use std::time::Duration;

use bursar_server::{Limits, Settings};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

use super::{NEVER, Site, bytes, got, head, local, on_engines, text};
use crate::test_server::Engine;

on_engines!(an_upload_that_breaks_leaves_nothing);

const PATIENCE: Duration = Duration::from_secs(60);

async fn in_flight(site: &Site) -> u64 {
    let text = site.server.call("GET", "/metrics", Value::Null).await.is(200).text;
    text.lines().find_map(|line| line.strip_prefix("bursar_http_bytes_in_flight ")?.trim().parse().ok()).unwrap()
}

/// Waits until an upload has been given up.
async fn until_given_up(site: &Site, blobs: usize) {
    let until = Instant::now() + PATIENCE;
    loop {
        let page = site.call("GET", "/v1/blobs?state=all", Value::Null).await.is(200).json();
        let items = page["items"].as_array().unwrap();
        if items.len() == blobs && items.iter().all(|blob| blob["state"] == "doomed") && site.files().is_empty() {
            return;
        }
        assert!(Instant::now() < until, "the upload is not given up: {page} {:?}", site.files());
        tokio::task::yield_now().await;
    }
}

async fn an_upload_that_breaks_leaves_nothing(site: Site) {
    let body = bytes(1, 3_000_000);
    for (number, lengths) in [("Content-Length", "4000000"), ("Transfer-Encoding", "chunked")].into_iter().enumerate() {
        let mut stream = TcpStream::connect(site.server.address).await.unwrap();
        let start = head("POST", "/v1/blobs", Some(&site.user), &[lengths]);
        stream.write_all(format!("{start}\r\n").as_bytes()).await.unwrap();
        if number == 1 {
            stream.write_all(b"3d0900\r\n").await.unwrap();
        }
        stream.write_all(&body).await.unwrap();
        drop(stream);
        until_given_up(&site, number + 1).await;
    }
    assert_eq!(site.collect(false).await["collected"], 2);
    let page = site.call("GET", "/v1/blobs?state=all", Value::Null).await.is(200).json();
    assert_eq!(page["items"], serde_json::json!([]));
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_is_too_slow_is_cut_off() {
    let limits = Limits { stall: Duration::from_millis(300), collection: NEVER, ..Limits::default() };
    let site = Site::with(Engine::Sqlite, |folder| Settings { limits, ..local(folder) }).await;
    let form = "--XX\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nbegun";
    let form_media = ("Content-Type", "multipart/form-data; boundary=XX");
    let raw_media = ("Content-Type", "application/octet-stream");
    for (number, (media, begun)) in [(raw_media, "begun"), (form_media, form)].into_iter().enumerate() {
        let mut stream = TcpStream::connect(site.server.address).await.unwrap();
        let start = head("POST", "/v1/blobs", Some(&site.user), &[media, ("Content-Length", "1000000")]);
        stream.write_all(format!("{start}\r\n{begun}").as_bytes()).await.unwrap();
        assert_eq!(got(stream, "POST").await.is(408).problem(), "timeout", "{media:?}");
        until_given_up(&site, number + 1).await;
    }
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_upload_occupies_little_memory() {
    const MIB: usize = 1 << 20;
    let site = Site::new(Engine::Sqlite).await;
    let mut stream = TcpStream::connect(site.server.address).await.unwrap();
    let length = (64 * MIB).to_string();
    let start = head("POST", "/v1/blobs?namespace=media", Some(&site.user), &[("Content-Length", &length)]);
    stream.write_all(format!("{start}\r\n").as_bytes()).await.unwrap();
    let until = Instant::now() + PATIENCE;
    while in_flight(&site).await == 0 {
        assert!(Instant::now() < until, "the upload is not counted");
    }
    let piece = bytes(1, MIB);
    for number in 0..64 {
        stream.write_all(&piece).await.unwrap();
        if number % 8 == 0 {
            assert_eq!(in_flight(&site).await, 3 * MIB as u64, "two parts that are written, and one that is filled");
        }
    }
    let blob = got(stream, "POST").await.is(201).head.json();
    assert_eq!(blob["size"], 64 * MIB);
    // An unread download counts as one piece, until its reader is gone.
    while in_flight(&site).await > 0 {
        assert!(Instant::now() < until, "the upload is still counted");
    }
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(2_048).unwrap();
    let mut reader = socket.connect(site.server.address).await.unwrap();
    let get = head("GET", &format!("/v1/blobs/{}", text(&blob, "id")), Some(&site.user), &[]);
    reader.write_all(format!("{get}\r\n").as_bytes()).await.unwrap();
    let mut some = [0; 100];
    reader.read_exact(&mut some).await.unwrap();
    assert!(some.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&some));
    assert_eq!(in_flight(&site).await, 256 << 10);
    drop(reader);
    while in_flight(&site).await > 0 {
        assert!(Instant::now() < until, "the download is still counted");
    }
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_of_one_principal_are_bounded() {
    let slow = Duration::from_secs(600);
    let limits = Limits { principal_bytes: 7 << 20, stall: slow, collection: NEVER, ..Limits::default() };
    let site = Site::with(Engine::Sqlite, |folder| Settings { limits, ..local(folder) }).await;
    let begin = async |token: &str| {
        let mut stream = TcpStream::connect(site.server.address).await.unwrap();
        let headers = [("Content-Length", "10000000"), ("Expect", "100-continue")];
        let start = head("POST", "/v1/blobs", Some(token), &headers);
        stream.write_all(format!("{start}\r\n").as_bytes()).await.unwrap();
        let mut answer = vec![0; 1 << 12];
        let read = stream.read(&mut answer).await.unwrap();
        (stream, String::from_utf8_lossy(&answer[..read]).into_owned())
    };
    let mut running = Vec::new();
    for _ in 0..2 {
        let (stream, answer) = begin(&site.user).await;
        assert!(answer.starts_with("HTTP/1.1 100 "), "{answer}");
        running.push(stream);
    }
    let (_, refused) = begin(&site.user).await;
    assert!(refused.starts_with("HTTP/1.1 429 ") && refused.contains("too-many-bytes"), "{refused}");
    let (other, answer) = begin(&site.admin).await;
    assert!(answer.starts_with("HTTP/1.1 100 "), "another principal has its own room: {answer}");
    drop((running, other));
    until_given_up(&site, 3).await;
    site.stop().await;
}
