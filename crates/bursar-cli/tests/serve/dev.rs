//! `bursar dev`: the fleet, the screen and the port.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

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

/// Types every command of a screen as it stands, in a shell that has only its usual variables.
fn type_suggestions(screen: &[String], folder: &Path, expected: usize) {
    let lines = screen.join("\n");
    let (_, lines) = lines.split_once("In another terminal, in this folder:\n").unwrap();
    let (commands, http) = lines.split_once("\nOver HTTP, after the export below:\n").unwrap();
    // A command may be broken into two lines.
    let commands = commands.replace("\\\n", " ");
    assert_eq!(commands.lines().count(), expected, "{commands}");
    for line in commands.lines() {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(folder).env_clear().env("PATH", "/usr/bin:/bin");
        let mut child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 1];
        let read = child.stdout.as_mut().unwrap().read(&mut first).unwrap();
        if line.ends_with(" top") {
            // It goes on until its reader is gone.
            drop(child.stdout.take());
        }
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && read == 1, "{line}: {output:?}");
    }
    let (curl, rest) = http.split_once("\nThe operator token").unwrap();
    let export = rest.lines().find(|line| line.starts_with("export ")).unwrap();
    let output = Command::new("sh").args(["-c", &format!("{export}\n{curl}")]).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{curl}: {output:?}"));
    assert!(answer["items"].is_array(), "{curl}: {answer}");
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
    // The fleet may have begun, whose queues have scopes of their own.
    let budgets = process.request(&token, "GET", "/v1/budgets?prefix=acme", Value::Null);
    assert_eq!((budgets.0, budgets.1["items"].as_array().unwrap().len()), (200, 10), "the demo's budgets are served");
    let began = now();
    while jobs(&process, &token, "leased") == 0 {
        assert!(began.elapsed() < TIMEOUT, "workers lease jobs");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    type_suggestions(&screen, Path::new("."), 1);
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

#[test]
fn what_dev_prints_can_be_typed_when_cargo_runs_it() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("target/release/bursar");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_bursar"), &program).unwrap();
    let manifest = folder.path().join("crates/bursar-cli").display().to_string();
    let libraries = format!("{}/target/release/deps", folder.path().display());
    // `cargo run` passes the path from the folder that it is called in, and adds variables and folders to search.
    let env = [
        ("CARGO", "/usr/local/cargo/bin/cargo"),
        ("CARGO_MANIFEST_DIR", &manifest),
        ("CARGO_PKG_NAME", "bursar-cli"),
        ("LD_LIBRARY_PATH", &libraries),
        ("PATH", "/usr/local/cargo/bin:/usr/bin:/bin"),
    ];
    let mut cargo = Command::new(&program);
    cargo.arg0("target/release/bursar").current_dir(folder.path());
    let process = Process::run_by(cargo, &["dev", "--listen", "127.0.0.1:0"], &env);
    let screen = process.screen();
    assert!(screen.contains(&"  target/release/bursar dead list".to_owned()), "{screen:?}");
    type_suggestions(&screen, folder.path(), 4);
    assert_eq!(process.stop().0, Some(0));
}

#[test]
fn a_folder_is_served_by_one_dev_at_a_time_with_one_token() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().display().to_string();
    let first = start(&data, &["--quiet"]);
    let old = token(&first.screen());
    let (code, told) = Process::fails(&["dev", "--data", &data, "--listen", "127.0.0.1:0"], &[]);
    assert_eq!(code, Some(5), "{told}");
    assert!(told.contains(&format!("already serves {data} at http://{} (process ", first.address)), "{told}");
    assert!(told.contains("nothing was started") && told.contains("--data"), "{told}");
    assert_eq!(first.request(&old, "GET", "/v1/budgets", Value::Null).0, 200, "the first one goes on");
    // The lock ends with its process, even if that is killed.
    drop(first);
    let second = start(&data, &["--quiet"]);
    let new = token(&second.screen());
    assert_eq!(second.request(&new, "GET", "/v1/budgets", Value::Null).0, 200);
    assert_eq!(second.request(&old, "GET", "/v1/budgets", Value::Null).0, 401, "the earlier token is revoked");
    assert_eq!(second.stop().0, Some(0));
}
