//! Export of spans, as the configuration file and the environment set it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;

use serde_json::{Value, json};

use crate::process::{Process, TIMEOUT};

const OPERATOR: &str = "the operator's token, which no receiver gets";
const KEY: &str = "the-key-of-the-receiver";

/// Starts a receiver of spans; returns its address and the requests: their heads and bodies.
fn receiver() -> (String, mpsc::Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(stream.read_line(&mut head).unwrap() > 0, "{head}");
            }
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap()];
            stream.read_exact(&mut body).unwrap();
            // A request is known before it is answered, so that none is missing once its sender has ended.
            if sender.send((head, serde_json::from_slice(&body).unwrap())).is_err() {
                return;
            }
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    (address, requests)
}

/// Returns the names of the spans of a request, and the name of the service.
fn names(body: &Value) -> (Vec<&str>, &str) {
    let of_resource = &body["resourceSpans"][0];
    let spans = of_resource["scopeSpans"][0]["spans"].as_array().unwrap();
    let service = &of_resource["resource"]["attributes"][0];
    assert_eq!(service["key"], "service.name");
    (
        spans.iter().map(|span| span["name"].as_str().unwrap()).collect(),
        service["value"]["stringValue"].as_str().unwrap(),
    )
}

#[test]
fn spans_go_to_the_receiver_of_the_configuration_file_before_the_server_ends() {
    let (address, requests) = receiver();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    write("headers", &format!("api-key={KEY}\n"));
    let toml = format!(
        "database = \"sqlite://{}\"\nlisten = \"127.0.0.1:0\"\n\n[otlp]\nendpoint = \"http://{address}\"\n\
         headers_file = \"headers\"\nsample = 1\nservice_name = \"bursar-eu\"\n",
        folder.path().join("bursar.db").display()
    );
    let config = write("bursar.toml", &toml);
    // A receiver of the environment does not replace that of the file.
    let env = [
        ("BURSAR_OPERATOR_TOKEN", OPERATOR),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1/other"),
        ("OTEL_SERVICE_NAME", "other"),
        ("OTEL_TRACES_SAMPLER_ARG", "often"),
    ];
    let server = Process::start_with(&["serve", "--config", &config], &env);
    let job = json!({ "queue": "media", "kind": "k", "payload": "swordfish" });
    assert_eq!(server.request(OPERATOR, "POST", "/v1/jobs", job).0, 201);
    let leased = server.request(OPERATOR, "POST", "/v1/jobs/lease", json!({ "queues": ["media"] })).1;
    let job = &leased["jobs"][0];
    let path = format!("/v1/jobs/{}/complete", job["id"].as_str().unwrap());
    let done = server.request(OPERATOR, "POST", &path, json!({ "fence": job["lease"]["fence"] }));
    assert_eq!(done.0, 200, "{done:?}");
    let (code, log) = server.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("OTEL_TRACES_SAMPLER_ARG") && !log.contains("often"), "{log}");
    // The server ended, so whatever it sent has arrived.
    let received: Vec<(String, Value)> = requests.try_iter().collect();
    let mut all: Vec<&str> = Vec::new();
    for (head, body) in &received {
        assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("\r\napi-key: {KEY}\r\n")), "{head}");
        let (names, service) = names(body);
        assert_eq!(service, "bursar-eu");
        all.extend(names);
        let text = body.to_string();
        assert!(!text.contains("swordfish") && !text.contains(OPERATOR) && !log.contains(KEY), "{text}\n{log}");
    }
    all.sort_unstable();
    assert_eq!(all, ["POST /v1/jobs", "enqueue media", "process media"]);
}

#[test]
fn the_standard_variables_of_opentelemetry_enable_the_export() {
    let (address, requests) = receiver();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("bursar.db").display());
    let (endpoint, headers) = (format!("http://{address}/base/"), format!("api-key={KEY}"));
    let env = [
        ("BURSAR_OPERATOR_TOKEN", OPERATOR),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", headers.as_str()),
        ("OTEL_SERVICE_NAME", "bursar-us"),
    ];
    let server = Process::start(&url, &env);
    assert_eq!(server.request(OPERATOR, "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).0, 201);
    assert_eq!(server.stop().0, Some(0));
    let (head, body) = requests.recv_timeout(TIMEOUT).unwrap();
    assert!(head.starts_with("post /base/v1/traces http/1.1\r\n") && head.contains(KEY), "{head}");
    assert_eq!(names(&body), (vec!["enqueue q", "POST /v1/jobs"], "bursar-us"));
}
