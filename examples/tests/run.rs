//! Every example does what it claims: run as a process, it ends with status 0.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use bursar::Bursar;
use bursar_server::{Server, Settings};

/// Those that need nothing but SQLite.
const EXAMPLES: [(&str, &str); 9] = [
    ("agent_fleet", env!("CARGO_BIN_EXE_agent_fleet")),
    ("api_quota", env!("CARGO_BIN_EXE_api_quota")),
    ("first_steps", env!("CARGO_BIN_EXE_first_steps")),
    ("fleet_worker", env!("CARGO_BIN_EXE_fleet_worker")),
    ("media_worker", env!("CARGO_BIN_EXE_media_worker")),
    ("metered_api", env!("CARGO_BIN_EXE_metered_api")),
    ("own_rows_sqlite", env!("CARGO_BIN_EXE_own_rows_sqlite")),
    ("seat_booking", env!("CARGO_BIN_EXE_seat_booking")),
    ("upload_grant", env!("CARGO_BIN_EXE_upload_grant")),
];

/// Those that need a PostgreSQL, whose address they take as their first argument.
const ON_POSTGRES: [(&str, &str); 1] = [("own_rows_postgres", env!("CARGO_BIN_EXE_own_rows_postgres"))];

#[test]
fn examples_on_sqlite_do_what_they_claim() {
    for (name, program) in EXAMPLES {
        let output = Command::new(program).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn examples_on_postgres_do_what_they_claim() {
    let url = bursar_testkit::fresh_database();
    // The second time the tables are there, and what was spent the first time is.
    for (name, program) in ON_POSTGRES.into_iter().chain(ON_POSTGRES) {
        let output = Command::new(program).arg(&url).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn an_example_on_postgres_says_what_it_needs() {
    for (name, program) in ON_POSTGRES {
        let output = Command::new(program).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("usage: "), "{name}: {said}");
    }
}

/// Those that need a server: an application, and the worker that works for it.
const OVER_HTTP: [(&str, &str); 2] =
    [("remote_media", env!("CARGO_BIN_EXE_remote_media")), ("remote_worker", env!("CARGO_BIN_EXE_remote_worker"))];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_and_a_worker_over_http_do_what_they_claim() {
    const TOKEN: &str = "operator-token-for-examples-0123456789";
    let bursar = Bursar::open("sqlite::memory:").await.unwrap();
    let settings = Settings { operator_token: Some(TOKEN.into()), ..Settings::default() };
    let server = Server::bind(bursar.clone(), "127.0.0.1:0".parse().unwrap(), settings).await.unwrap();
    let url = format!("http://{}", server.address());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(server.run(async move { drop(stopped.await) }));
    let start = |program: &str| {
        let mut command = Command::new(program);
        command.env("BURSAR_SERVER", &url).env("BURSAR_TOKEN", TOKEN).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let [(_, media), (_, worker)] = OVER_HTTP;
    let (media, worker) = (start(media), start(worker));
    let ended = tokio::task::spawn_blocking(move || media.wait_with_output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(said.contains("https://videos.example/job_"), "{said}");
    // The worker is told to end, and ends well.
    assert!(Command::new("kill").args(["-TERM", &worker.id().to_string()]).status().unwrap().success());
    let ended = tokio::task::spawn_blocking(move || worker.wait_with_output().unwrap()).await.unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "1 rendered, 0 failed, 0 handed back\n");
    drop(stop);
    running.await.unwrap();
    bursar.close().await;
}

#[test]
fn no_example_is_left_out() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = files.map(|file| file.trim_end_matches(".rs").to_owned()).collect();
    let known = EXAMPLES.iter().chain(&ON_POSTGRES).chain(&OVER_HTTP).map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(there, known);
}
