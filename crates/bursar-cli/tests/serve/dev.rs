//! `bursar dev`: the fleet, the screen and the port.

use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};

use crate::process::{Process, TIMEOUT, now};

fn start(data: &str, more: &[&str]) -> Process {
    let args = ["dev", "--data", data, "--listen", "127.0.0.1:0"];
    Process::start_with(&[&args, more].concat(), &[])
}

fn token(screen: &[String]) -> String {
    let token = screen.iter().find_map(|line| line.strip_prefix("export BURSAR_TOKEN="));
    token.expect("the screen has the token").to_owned()
}

/// Returns the jobs in a state.
fn jobs(process: &Process, token: &str, state: &str) -> usize {
    let (status, jobs) = process.request(token, "GET", &format!("/v1/jobs?state={state}"), Value::Null);
    assert_eq!(status, 200, "{jobs}");
    jobs["items"].as_array().unwrap().len()
}

#[test]
fn dev_works_until_it_is_stopped_and_warns_against_production_use() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").display().to_string();
    let process = start(&data, &[]);
    let screen = process.screen();
    assert!(screen[0].starts_with("NOT FOR PRODUCTION"), "{screen:?}");
    assert!(screen.len() <= 23, "the screen and the address fit 24 lines: {screen:?}");
    let token = token(&screen);
    let budgets = process.request(&token, "GET", "/v1/budgets", Value::Null);
    assert_eq!((budgets.0, budgets.1["items"].as_array().unwrap().len()), (200, 10), "the demo's budgets are served");
    let began = now();
    while jobs(&process, &token, "leased") == 0 {
        assert!(began.elapsed() < TIMEOUT, "workers lease jobs");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // What it suggests can be typed as it stands, while it runs. The command may be broken into two lines.
    let lines = screen.join("\n");
    let (before, _) = lines.split_once("acme/research/scout\n").unwrap();
    let begin = before.rfind("\n  /").unwrap();
    let typed = format!("{}acme/research/scout", &before[begin..]);
    let output = Command::new("sh").args(["-c", &typed]).output().unwrap();
    assert!(output.status.success(), "{typed}: {output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("day"), "{typed}");
    let (code, rest) = process.stop();
    assert_eq!((code, rest.as_str()), (Some(0), ""), "it ends without a warning");

    let again = start(&data, &["--quiet"]);
    let screen = again.screen();
    assert!(screen.iter().any(|line| line.contains("without the demo's fleet")), "{screen:?}");
    assert_eq!(jobs(&again, &self::token(&screen), "leased"), 0, "the fleet has returned its jobs");
    assert_eq!(again.request(&self::token(&screen), "GET", "/v1/verify", Value::Null).1["ok"], true);
    assert_eq!(again.stop().0, Some(0));
}

#[test]
fn dev_leaves_a_database_with_data_of_its_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().display().to_string();
    let url = format!("sqlite://{data}/bursar.db");
    let server = Process::start(&url, &[]);
    let token = server.created_token();
    assert_eq!(server.request(&token, "POST", "/v1/jobs", json!({ "queue": "q", "kind": "k" })).0, 201);
    assert_eq!(server.stop().0, Some(0));

    let process = start(&data, &[]);
    let screen = process.screen();
    assert!(screen.iter().any(|line| line.contains("which has data of your own")), "{screen:?}");
    assert!(screen.iter().any(|line| line.ends_with("dev --data bursar-demo")), "{screen:?}");
    let token = self::token(&screen);
    assert_eq!(process.request(&token, "GET", "/v1/budgets", Value::Null).1["items"], json!([]));
    assert_eq!(jobs(&process, &token, "queued"), 1);
    assert_eq!(process.stop().0, Some(0));
}

#[test]
fn dev_uses_the_next_free_port_and_says_so() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().display().to_string();
    let listen = format!("127.0.0.1:{port}");
    let process = Process::start_with(&["dev", "--quiet", "--data", &data, "--listen", &listen], &[]);
    let used = process.address.port();
    assert!(used > port, "{used} follows {port}");
    let screen = process.screen();
    let told = format!("Port {port} is taken: this server uses {used} instead.");
    assert!(screen.contains(&told), "{screen:?}");
    assert_eq!(process.stop().0, Some(0));
}
