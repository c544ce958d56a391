//! Runs every example as a process and checks that it exits with status 0.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use bursar::{Budget, Bursar, JobState, Limit, Window};
use bursar_blobs::{Backends, Blobs};
use bursar_client::{ChargeBody, Client, CommandBody, JobBody, Payload, SettleWord, Upload};
use bursar_server::{Server, Settings};

/// Examples that need only SQLite.
const EXAMPLES: [(&str, &str); 11] = [
    ("agent_fleet", env!("CARGO_BIN_EXE_agent_fleet")),
    ("api_quota", env!("CARGO_BIN_EXE_api_quota")),
    ("first_steps", env!("CARGO_BIN_EXE_first_steps")),
    ("fleet_worker", env!("CARGO_BIN_EXE_fleet_worker")),
    ("media_worker", env!("CARGO_BIN_EXE_media_worker")),
    ("metered_api", env!("CARGO_BIN_EXE_metered_api")),
    ("own_rows_sqlite", env!("CARGO_BIN_EXE_own_rows_sqlite")),
    ("read_balances", env!("CARGO_BIN_EXE_read_balances")),
    ("seat_booking", env!("CARGO_BIN_EXE_seat_booking")),
    ("signed_api", env!("CARGO_BIN_EXE_signed_api")),
    ("upload_grant", env!("CARGO_BIN_EXE_upload_grant")),
];

/// Examples that need PostgreSQL and take its URL as their first argument.
const ON_POSTGRES: [(&str, &str); 1] = [("own_rows_postgres", env!("CARGO_BIN_EXE_own_rows_postgres"))];

#[test]
fn examples_on_sqlite_succeed() {
    for (name, program) in EXAMPLES {
        let output = Command::new(program).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn examples_on_postgres_succeed() {
    let url = bursar_testkit::fresh_database();
    // The second run finds the tables and the spend of the first.
    for (name, program) in ON_POSTGRES.into_iter().chain(ON_POSTGRES) {
        let output = Command::new(program).arg(&url).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn an_example_on_postgres_prints_its_usage() {
    for (name, program) in ON_POSTGRES {
        let output = Command::new(program).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("usage: "), "{name}: {said}");
    }
}

/// Examples that need a server: an application and its worker, and a worker that makes blobs.
const OVER_HTTP: [(&str, &str); 3] = [
    ("remote_media", env!("CARGO_BIN_EXE_remote_media")),
    ("remote_worker", env!("CARGO_BIN_EXE_remote_worker")),
    ("media_encoder", env!("CARGO_BIN_EXE_media_encoder")),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_and_a_worker_succeed_over_http() {
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
    let [(_, media), (_, worker), _] = OVER_HTTP;
    let (media, worker) = (start(media), start(worker));
    let ended = tokio::task::spawn_blocking(move || media.wait_with_output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(said.contains("https://videos.example/job_"), "{said}");
    // The worker drains on SIGTERM and exits with status 0.
    assert!(Command::new("kill").args(["-TERM", &worker.id().to_string()]).status().unwrap().success());
    let ended = tokio::task::spawn_blocking(move || worker.wait_with_output().unwrap()).await.unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "1 rendered, 0 failed, 0 handed back\n");
    drop(stop);
    running.await.unwrap();
    bursar.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_process_encodes_an_uploaded_blob() {
    const TOKEN: &str = "operator-token-for-examples-0123456789";
    let folder = tempfile::tempdir().unwrap();
    let bursar = Bursar::open("sqlite::memory:").await.unwrap();
    let blobs = Some(Blobs::new(Backends::local(folder.path()).unwrap()));
    let settings = Settings { operator_token: Some(TOKEN.into()), blobs, ..Settings::default() };
    let server = Server::bind(bursar.clone(), "127.0.0.1:0".parse().unwrap(), settings).await.unwrap();
    let url = format!("http://{}", server.address());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(server.run(async move { drop(stopped.await) }));

    let client = Client::new(&url).unwrap().token(TOKEN);
    bursar.ledger().define("customer:7", Budget::new([Limit::new(1_000, Window::Lifetime)])).await.unwrap();
    let upload = Upload { namespace: Some("media".try_into().unwrap()), ..Upload::default() };
    let source = client.blobs().put_bytes(&upload, "aaaaaaaab".repeat(1_000)).await.unwrap().id;
    let payload = Payload::new(format!(r#"{{"source":"{source}"}}"#)).unwrap();
    let mut job = JobBody::new("media".try_into().unwrap(), "video.encode".try_into().unwrap(), payload);
    job.blobs = vec![source];
    let charge = ChargeBody::new("customer:7".try_into().unwrap(), 600);
    let order =
        CommandBody { charges: vec![charge], settle: SettleWord::Job, jobs: vec![job], ..CommandBody::default() };
    let job = client.commands().submit(&order).await.unwrap().jobs[0].id;

    let mut command = Command::new(OVER_HTTP[2].1);
    command.env("BURSAR_SERVER", &url).env("BURSAR_TOKEN", TOKEN).stdout(Stdio::piped()).stderr(Stdio::piped());
    let worker = command.spawn().unwrap();
    let done = tokio::time::timeout(Duration::from_secs(120), async {
        loop {
            let job = bursar.jobs().find(job).await.unwrap().unwrap();
            match job.life.state {
                JobState::Succeeded => return job,
                JobState::Dead => panic!("{:?}", job.life.error),
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
    let done = done.await.expect("the job did not end within two minutes");
    assert_eq!((done.life.blobs.len(), done.life.blobs[0], done.total_cost()), (2, source, 21));
    let encoded = client.blobs().get(done.life.blobs[1]).await.unwrap().bytes().await.unwrap();
    assert_eq!(encoded, b"\x08a\x01b".repeat(1_000));
    assert!(Command::new("kill").args(["-TERM", &worker.id().to_string()]).status().unwrap().success());
    let ended = tokio::task::spawn_blocking(move || worker.wait_with_output().unwrap()).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "1 encoded, 0 failed\n");
    drop(stop);
    running.await.unwrap();
    bursar.close().await;
}

#[test]
fn every_example_is_run() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = files.map(|file| file.trim_end_matches(".rs").to_owned()).collect();
    let known = EXAMPLES.iter().chain(&ON_POSTGRES).chain(&OVER_HTTP).map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(there, known);
}
