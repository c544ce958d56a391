//! Every command on a database and over a server: the output and the exit code must be the same.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bursar::{BlobSpec, Bursar, Sha256Digest};

use crate::workdir::{Finished, Workdir};

pub(crate) const TOKEN: &str = "operator-token-for-tests-0123456789abcdef";

/// A server on its own database and a free port.
pub(crate) struct TestServer {
    pub(crate) dir: Workdir,
    child: Child,
    pub(crate) url: String,
}

impl TestServer {
    fn new() -> TestServer {
        TestServer::in_dir(Workdir::ready(), &[("BURSAR_OPERATOR_TOKEN", TOKEN)]).0
    }

    /// Starts a server in a folder; also returns what it printed on standard error at startup.
    pub(crate) fn in_dir(dir: Workdir, env: &[(&str, &str)]) -> (TestServer, String) {
        let notes = dir.0.path().join("notes");
        let mut child = Command::new(env!("CARGO_BIN_EXE_bursar"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .current_dir(dir.0.path())
            .env_remove("BURSAR_DATABASE")
            .env_remove("BURSAR_OPERATOR_TOKEN")
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&notes).expect("a file"))
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("the first line");
        let url = line.trim().strip_prefix("listening on ").expect("the address").to_owned();
        let notes = std::fs::read_to_string(notes).expect("the notes");
        (TestServer { dir, child, url }, notes)
    }

    fn run(&self, args: &[&str], input: &str) -> Finished {
        let env = [("BURSAR_SERVER", self.url.as_str()), ("BURSAR_TOKEN", TOKEN)];
        self.dir.run_in(&env, args, input)
    }
}

impl TestServer {
    /// Stops the server and returns its folder.
    pub(crate) fn stop(mut self) -> Workdir {
        std::mem::replace(&mut self.dir, Workdir::empty())
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Masks what differs from run to run: ids, tokens, times and actors. Runs of spaces become one space.
fn normalized(text: &str) -> String {
    let mut lines = Vec::new();
    for line in without_refusals(text).lines() {
        let line = line.replace("\"operator\"", "ACTOR").replace("\"tester\"", "ACTOR");
        if line.contains("\"correlation_id\"") || line.contains("\"request_id\"") && line.trim_start().starts_with('"')
        {
            continue;
        }
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        lines.push(masked(&without_moments(&words)));
    }
    lines.join("\n")
}

/// Removes the field `refusals` of budgets: only a server lasts long enough to count them. It is the last field, and its items have no
/// lists.
fn without_refusals(text: &str) -> String {
    let mut plain = text.to_owned();
    while let Some(field) = plain.find("\"refusals\": [") {
        let begin = plain[..field].rfind(',').expect("a field before it");
        let end = field + plain[field..].find(']').expect("the end of the list") + 1;
        plain.replace_range(begin..end, "");
    }
    plain
}

/// Replaces every time that is shown relative to now by a word: `in 5 min (2026-11-17 17:20 UTC)`, `3 min ago`, `now`; and how
/// long an attempt `took`.
fn without_moments(words: &[&str]) -> String {
    let is_number = |word: &str| word.parse::<u32>().is_ok();
    let (mut plain, mut rest) = (Vec::new(), words);
    while let Some((word, after)) = rest.split_first() {
        rest = match rest {
            ["in", number, _, exact, _, _, rest @ ..] if is_number(number) && exact.starts_with("(20") => {
                plain.push("MOMENT");
                rest
            }
            [number, _, "ago", rest @ ..] if is_number(number) => {
                plain.push("MOMENT");
                rest
            }
            ["took", number, _, rest @ ..] if is_number(number) => {
                plain.push("TOOK");
                rest
            }
            ["now", exact, _, _, rest @ ..] if exact.starts_with("(20") => {
                plain.push("MOMENT");
                rest
            }
            _ => {
                plain.push(if *word == "now" { "MOMENT" } else { word });
                after
            }
        };
        if plain.last() == Some(&"MOMENT") && rest.first().is_some_and(|exact| exact.starts_with("(20")) {
            rest = rest.get(3..).unwrap_or_default();
        }
    }
    plain.join(" ")
}

/// Replaces every id, token and time by a word.
fn masked(text: &str) -> String {
    let part_of_word = |c: char| c.is_ascii_alphanumeric() || "_-:.".contains(c);
    let mut plain = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find(part_of_word) {
        let end = rest[begin..].find(|c| !part_of_word(c)).map_or(rest.len(), |length| begin + length);
        let word = rest[begin..end].trim_end_matches([':', '.']);
        plain.push_str(&rest[..begin]);
        let is_time = word.len() == 27 && word.as_bytes()[10] == b'T' && word.ends_with('Z');
        let is_id = word.len() >= 29 && word.split_once('_').is_some_and(|(prefix, _)| (3..=5).contains(&prefix.len()));
        plain.push_str(if is_time {
            "TIME"
        } else if is_id {
            "ID"
        } else {
            word
        });
        plain.push_str(&rest[begin + word.len()..end]);
        rest = &rest[end..];
    }
    plain + rest
}

/// A database and a server, with the values that a test remembers of each.
pub(crate) struct Backends {
    local: Workdir,
    pub(crate) served: TestServer,
    remembered: [std::collections::BTreeMap<String, String>; 2],
}

impl Backends {
    pub(crate) fn new() -> Backends {
        Backends { local: Workdir::ready(), served: TestServer::new(), remembered: Default::default() }
    }

    /// Runs a command on both; `{name}` stands for a remembered value.
    pub(crate) fn run(&mut self, code: i32, args: &[&str], input: &str) -> [Finished; 2] {
        let filled = |backend: usize, text: &str| {
            self.remembered[backend]
                .iter()
                .fold(text.to_owned(), |text, (name, id)| text.replace(&format!("{{{name}}}"), id))
        };
        let args_of = |backend: usize| args.iter().map(|arg| filled(backend, arg)).collect::<Vec<_>>();
        let (local_args, served_args) = (args_of(0), args_of(1));
        let local_args: Vec<&str> = local_args.iter().map(String::as_str).collect();
        let served_args: Vec<&str> = served_args.iter().map(String::as_str).collect();
        let local = self.local.run_in(&[("USER", "tester")], &local_args, &filled(0, input)).exits(code);
        let served = self.served.run(&served_args, &filled(1, input)).exits(code);
        assert_eq!(normalized(&local.out), normalized(&served.out), "{args:?}\n{}\n{}", local.out, served.out);
        let errors = |ran: &Finished| match serde_json::from_str::<serde_json::Value>(&ran.err) {
            // Only a server gives requests an id.
            Ok(mut problem) => {
                problem.as_object_mut().expect("an object").remove("request_id");
                problem["violations"].as_array_mut().into_iter().flatten().for_each(|v| v["retry_after_ms"] = 0.into());
                normalized(&problem.to_string())
            }
            Err(_) => normalized(&ran.err),
        };
        assert_eq!(errors(&local), errors(&served), "{args:?}");
        [local, served]
    }

    /// Runs a read-only command twice: for people and as JSON.
    pub(crate) fn read(&mut self, args: &[&str]) {
        self.run(0, args, "");
        self.run(0, &[args, &["--json"]].concat(), "");
    }

    /// Records a blob in both databases, and remembers its ids.
    fn remember_blob(&mut self, name: &str, namespace: &str, byte: u8) {
        for (backend, dir) in [&self.local, &self.served.dir].into_iter().enumerate() {
            self.remembered[backend].insert(name.to_owned(), stored_blob(dir, namespace, byte));
        }
    }

    /// Runs a command with `--json` and remembers a part of the answer.
    pub(crate) fn remember(&mut self, name: &str, pointer: &str, args: &[&str], input: &str) {
        let ran = self.run(0, &[args, &["--json"]].concat(), input);
        for (backend, ran) in ran.iter().enumerate() {
            let json: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
            let part = match json.pointer(pointer).unwrap_or_else(|| panic!("{pointer} of {json}")) {
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            self.remembered[backend].insert(name.to_owned(), part);
        }
    }
}

/// Records a blob whose bytes are stored, in the database of a folder.
fn stored_blob(dir: &Workdir, namespace: &str, byte: u8) -> String {
    let url = format!("sqlite://{}", dir.0.path().join("bursar-data/bursar.db").display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let bursar = Bursar::open(&url).await.expect("the database opens");
        let name = namespace.try_into().expect("a valid name");
        let spec = BlobSpec::new(name, "local".try_into().expect("a valid name"));
        let started = bursar.blob_records().start(spec, Duration::from_secs(3_600), None).await.expect("it begins");
        let stored = bursar.blob_records().store(started.blob, 10, Sha256Digest([byte; 32])).await.expect("it ends");
        bursar.close().await;
        stored.blob.to_string()
    })
}

#[test]
fn budget_hold_and_grant_commands_are_the_same_over_a_server() {
    let mut both = Backends::new();
    let define =
        ["budget", "define", "a", "--limit", "1000:lifetime", "--limit", "500:bucket:1:30000000000", "--unit", "usd"];
    both.run(0, &[&define[..], &["--trip", "900:lifetime", "--threshold", "50", "--reason", "plan"]].concat(), "");
    both.run(0, &["budget", "define", "child", "--limit", "90:lifetime", "--parent", "a", "--json"], "");
    both.remember("hold", "/hold/id", &["hold", "place", "a=100", "--ttl-ms", "60000", "--key", "k"], "");
    both.run(0, &["hold", "place", "a=100", "--ttl-ms", "60000", "--key", "k"], "");
    both.run(0, &["hold", "place", "a=5", "--ttl", "10m", "--on-expiry-charge", "3"], "");
    both.run(3, &["hold", "place", "child=91", "--json"], "");
    both.run(3, &["hold", "place", "child=91"], "");
    both.read(&["hold", "show", "{hold}"]);
    both.read(&["hold", "list", "a"]);
    both.run(0, &["hold", "extend", "{hold}", "--by-ms", "5", "--json"], "");
    both.run(0, &["hold", "commit", "{hold}", "--actual", "130"], "");
    both.run(5, &["hold", "commit", "{hold}", "--json"], "");
    both.read(&["hold", "history", "{hold}"]);
    both.remember("other", "/hold/id", &["hold", "place", "child=9"], "");
    both.run(0, &["hold", "release", "{other}", "--reason", "no"], "");
    both.run(4, &["hold", "show", "hold_00000000000000000000000000"], "");
    both.run(4, &["budget", "show", "nowhere"], "");
    both.run(4, &["budget", "history", "nowhere", "--json"], "");
    both.run(0, &["post", "child=5", "--reason", "at once"], "");
    both.run(2, &["post", "child=-5", "--json"], "");
    both.run(0, &["budget", "credit", "child", "2", "--json"], "");
    both.run(0, &["budget", "spent", "child", "--to", "2099-01-01T00:00:00Z"], "");
    both.run(0, &["budget", "freeze", "child", "--reason", "audit"], "");
    both.run(3, &["post", "child=5"], "");
    both.run(0, &["budget", "unfreeze", "child"], "");
    both.read(&["budget", "list"]);
    both.read(&["budget", "show", "child"]);
    both.read(&["budget", "history", "child", "--most", "3"]);
    both.remember("grant", "/id", &["grant", "mint", "upload", "s", "--ttl-ms", "60000", "--payload", "[1]"], "");
    both.remember("token", "/token", &["grant", "mint", "upload", "t", "--ttl-ms", "60000"], "");
    both.run(0, &["grant", "redeem", "upload", "t", "-"], "{token}");
    both.run(3, &["grant", "redeem", "upload", "t", "{token}"], "");
    both.run(0, &["grant", "revoke", "{grant}", "--reason", "typo"], "");
    both.read(&["grant", "list"]);
    both.read(&["grant", "show", "{grant}"]);
    both.run(4, &["grant", "show", "grant_00000000000000000000000000", "--json"], "");
    let command = r#"{ "charges": [{ "scope": "child", "amount": 3 }], "jobs": [{ "queue": "q", "kind": "k" }] }"#;
    both.run(0, &["command", "submit", "-", "--dry-run"], command);
    both.run(0, &["command", "submit", "-", "--key", "once", "--json"], command);
    both.run(0, &["command", "submit", "-", "--key", "once"], command);
    both.run(2, &["command", "submit", "-", "--json"], r#"{ "chargs": [] }"#);
    both.read(&["journal", "list"]);
    both.read(&["journal", "list", "--stream", "scope:child", "--kind", "budget", "--most", "2"]);
    both.read(&["journal", "list", "--stream", "{hold}"]);
    both.read(&["verify"]);
}

#[test]
fn job_commands_are_the_same_over_a_server() {
    let mut both = Backends::new();
    let jobs = r#"{ "jobs": [{ "queue": "q", "kind": "a" }, { "queue": "q", "kind": "b", "tags": ["t"] }, { "queue": "q", "kind": "c" },
        { "queue": "q", "kind": "d" }] }"#;
    both.run(0, &["job", "enqueue", "--file", "-"], jobs);
    both.remember(
        "job",
        "/jobs/0/id",
        &["job", "enqueue", "q", "x", "--payload", r#"{"n":1.50}"#, "--priority", "9"],
        "",
    );
    both.run(0, &["job", "enqueue", "q", "x", "--key", "once"], "");
    both.run(0, &["job", "enqueue", "q", "x", "--key", "once"], "");
    both.remember("fence", "/jobs/0/lease/fence", &["job", "lease", "q", "--worker", "w"], "");
    both.run(0, &["job", "heartbeat", "{job}", "--fence", "{fence}"], "");
    let report = ["job", "progress", "{job}", "--fence", "{fence}", "--percent", "40", "--checkpoint", r#"{"n":1.50}"#];
    both.run(0, &report, "");
    both.read(&["job", "show", "{job}"]);
    both.run(5, &["job", "complete", "{job}", "--fence", "99", "--json"], "");
    both.run(
        0,
        &["job", "fail", "{job}", "--fence", "{fence}", "--error", "bad", "--message", "worse", "--for-good"],
        "",
    );
    both.read(&["job", "show", "{job}"]);
    both.read(&["job", "events", "{job}"]);
    both.read(&["dead", "list"]);
    both.read(&["dead", "groups"]);
    both.read(&["dead", "show", "{job}"]);
    both.run(0, &["dead", "retry", "--queue", "q", "--dry-run"], "");
    both.run(0, &["dead", "retry", "{job}", "--reason", "mended"], "");
    both.run(5, &["dead", "show", "{job}"], "");
    both.run(5, &["dead", "discard", "{job}", "--json"], "");
    both.run(0, &["dead", "move", "--to", "slow", "--all", "--yes"], "");
    both.remember("fence", "/jobs/0/lease/fence", &["job", "lease", "q", "--worker", "w", "--kind", "x"], "");
    both.run(0, &["job", "snooze", "{job}", "--fence", "{fence}", "--delay-ms", "60000"], "");
    both.remember("next", "/jobs/0/id", &["job", "lease", "q", "--kind", "x", "--worker", "w"], "");
    both.run(0, &["job", "return", "{next}", "--fence", "1"], "");
    both.remember("fence", "/jobs/0/lease/fence", &["job", "lease", "q", "--kind", "x", "--worker", "w"], "");
    both.run(0, &["job", "complete", "{next}", "--fence", "{fence}", "--result", "[1]", "--json"], "");
    both.read(&["job", "list", "--queue", "q", "--most", "3"]);
    both.read(&["job", "list", "--state", "succeeded"]);
    both.run(0, &["job", "edit", "--tag", "t", "--priority", "5", "--yes", "--json"], "");
    both.run(2, &["job", "cancel", "--queue", "q"], "");
    both.run(0, &["job", "cancel", "--kind", "a", "--yes"], "");
    both.run(5, &["job", "cancel", "{next}", "--json"], "");
    both.run(5, &["job", "cancel", "{next}", "{job}"], "");
    both.run(0, &["job", "retry", "{job}"], "");
    both.run(2, &["job", "retry"], "");
    both.run(0, &["job", "move", "{job}", "--to", "slow", "--reason", "later"], "");
    both.run(0, &["job", "move", "{job}", "--to", "q", "--json"], "");
    both.run(5, &["job", "discard", "{job}"], "");
    both.run(2, &["job", "move", "--to", "q", "--json"], "");
    both.read(&["job", "costs", "--from", "2026-01-01"]);
    both.run(2, &["job", "costs", "--from", "tomorrow", "--json"], "");
    both.read(&["job", "held"]);
    both.run(2, &["job", "held", "--after", "nothing", "--json"], "");
    both.run(4, &["job", "show", "job_00000000000000000000000000", "--json"], "");
    both.run(0, &["queue", "set", "q", "--concurrency", "3", "--rate", "5/1000", "--reason", "slow"], "");
    both.run(0, &["queue", "set", "q", "--rate", "none", "--json"], "");
    both.run(2, &["queue", "set", "q", "--lease-ms", "1", "--json"], "");
    both.run(0, &["queue", "set", "other", "--file", "-"], r#"{ "key_concurrency": 2 }"#);
    both.run(0, &["queue", "pause", "q", "--reason", "down"], "");
    both.run(0, &["queue", "resume", "q"], "");
    both.read(&["queue", "show", "q"]);
    both.read(&["queue", "list"]);
    both.run(2, &["schedule", "set", "s", "--queue", "q", "--kind", "k"], "");
    both.run(
        0,
        &["schedule", "set", "s", "--queue", "q", "--kind", "k", "--cron", "@yearly", "--payload", "[1.0]"],
        "",
    );
    both.run(0, &["schedule", "set", "s", "--priority", "3", "--json"], "");
    both.run(0, &["schedule", "pause", "s"], "");
    both.run(0, &["schedule", "run", "s"], "");
    both.run(0, &["schedule", "resume", "s", "--reason", "go on"], "");
    both.read(&["schedule", "show", "s"]);
    both.read(&["schedule", "list"]);
    both.run(0, &["schedule", "remove", "s", "--reason", "gone"], "");
    both.run(4, &["schedule", "show", "s", "--json"], "");
    both.read(&["journal", "list", "--kind", "schedule"]);
    both.read(&["verify"]);
}

#[test]
fn blob_commands_are_the_same_over_a_server() {
    let mut both = Backends::new();
    both.remember_blob("blob", "media", 1);
    both.remember_blob("other", "other", 2);
    both.read(&["blob", "list"]);
    both.read(&["blob", "list", "--namespace", "media", "--newest", "--most", "1"]);
    both.run(0, &["blob", "list", "--after", "{blob}"], "");
    both.read(&["blob", "show", "{blob}"]);
    both.run(0, &["blob", "reference", "{blob}", "post:42", "--reason", "published"], "");
    both.run(0, &["blob", "reference", "{blob}", "post:43", "--json"], "");
    both.read(&["blob", "show", "{blob}"]);
    both.run(0, &["blob", "release", "{blob}", "post:42"], "");
    both.run(0, &["blob", "delete", "{blob}", "--reason", "replaced"], "");
    both.run(4, &["blob", "reference", "{blob}", "post:44", "--json"], "");
    both.read(&["blob", "show", "{blob}"]);
    both.run(0, &["blob", "restore", "{blob}"], "");
    both.run(4, &["blob", "show", "blob_00000000000000000000000000", "--json"], "");
    both.run(4, &["blob", "delete", "blob_00000000000000000000000000"], "");
    both.run(2, &["blob", "show", "job_00000000000000000000000000"], "");
    both.remember("job", "/jobs/0/id", &["job", "enqueue", "q", "k", "--blob", "{blob}"], "");
    both.run(4, &["job", "enqueue", "q", "k", "--blob", "blob_00000000000000000000000000"], "");
    both.remember("fence", "/jobs/0/lease/fence", &["job", "lease", "q", "--worker", "w"], "");
    both.run(0, &["job", "complete", "{job}", "--fence", "{fence}", "--blob", "{other}"], "");
    both.read(&["job", "show", "{job}"]);
    both.read(&["namespace", "show", "media"]);
    let rules = ["namespace", "set", "media", "--bytes-max", "100MiB", "--grace", "1d", "--unreferenced", "30d"];
    both.run(0, &rules, "");
    both.run(0, &["namespace", "set", "media", "--unreferenced", "none", "--reason", "keep", "--json"], "");
    both.run(4, &["namespace", "set", "media", "--charge", "disk"], "");
    both.run(2, &["namespace", "set", "media", "--bytes-max", "10MB"], "");
    both.read(&["namespace", "show", "media"]);
    both.read(&["namespace", "list"]);
    both.read(&["journal", "list", "--stream", "{blob}"]);
    both.read(&["journal", "list", "--kind", "namespace"]);
    both.read(&["verify"]);
}

#[test]
fn token_commands_are_the_same_over_a_server() {
    let mut both = Backends::new();
    let worker = [
        "worker",
        "create",
        "encoder",
        "--queue",
        "media-*",
        "--kind",
        "video.*",
        "--mutation",
        "jobs.enqueue",
        "--blobs-read",
        "in-*",
        "--blobs-write",
        "out",
    ];
    both.remember("worker", "/id", &worker, "");
    both.read(&["worker", "show", "{worker}"]);
    both.read(&["worker", "list"]);
    both.remember("rotated", "/id", &["worker", "rotate", "{worker}", "--overlap-ms", "1000"], "");
    both.run(0, &["worker", "revoke", "{rotated}"], "");
    both.run(4, &["worker", "show", "wkr_40000000000000000000000000"], "");
    both.remember(
        "key",
        "/id",
        &["token", "create", "shop", "--role", "user", "--expires-in-ms", "60000", "--key", "k"],
        "",
    );
    // A replay does not show the secret.
    both.run(0, &["token", "create", "shop", "--role", "user", "--expires-in-ms", "60000", "--key", "k"], "");
    both.run(2, &["token", "create", "shop", "--role", "operator"], "");
    both.read(&["token", "show", "{key}"]);
    both.read(&["token", "list"]);
    both.run(0, &["token", "rotate", "{key}"], "");
    both.run(0, &["token", "revoke", "{key}"], "");
    // Another tenant.
    both.read(&["--tenant", "acme", "token", "list"]);
    both.run(0, &["--tenant", "acme", "post", "x=1", "--limit", "1:day"], "");
    both.run(4, &["budget", "show", "x"], "");
}

#[test]
fn flags_override_the_environment_and_conflicting_targets_are_errors() {
    let served = TestServer::new();
    let url = served.url.as_str();
    let dir = Workdir::ready();
    let run = |env: &[(&str, &str)], args: &[&str]| dir.run_in(env, args, "");
    // Flags take precedence over the environment, and `_FILE` variables name files with values.
    let token = dir.file("token", &format!("{TOKEN}\n"));
    let server = dir.file("server", url);
    let files = [("BURSAR_TOKEN_FILE", token.to_str().unwrap()), ("BURSAR_SERVER_FILE", server.to_str().unwrap())];
    run(&files, &["budget", "define", "far", "--limit", "1:day"]).exits(0);
    run(&[("BURSAR_SERVER", "http://127.0.0.1:1")], &["--server", url, "--token", TOKEN, "budget", "show", "far"])
        .exits(0);
    run(&[], &["budget", "show", "far"]).exits(4);
    run(
        &[("BURSAR_SERVER", url), ("BURSAR_TOKEN", TOKEN)],
        &["--database", "sqlite://bursar-data/bursar.db", "budget", "show", "far"],
    )
    .exits(4);
    let both = run(&[("BURSAR_SERVER", url), ("BURSAR_DATABASE", "sqlite://x.db")], &["budget", "list"]).exits(2);
    assert!(both.err.contains("both BURSAR_SERVER and BURSAR_DATABASE"), "{}", both.err);
    run(&[], &["--server", url, "--database", "sqlite://x.db", "budget", "list"]).exits(2);
    let twice = run(&[("BURSAR_TOKEN", TOKEN), files[0]], &["--server", url, "budget", "list"]).exits(2);
    assert!(twice.err.contains("not both"), "{}", twice.err);
    let nothing = dir.file("nothing", "\n");
    let nothing = [("BURSAR_TOKEN_FILE", nothing.to_str().unwrap())];
    let empty = run(&nothing, &["--server", url, "budget", "list"]).exits(2);
    assert!(empty.err.contains("BURSAR_TOKEN_FILE") && empty.err.contains("is empty"), "{}", empty.err);
    // A bad token, a missing token, a bad URL.
    let unknown = run(&[], &["--server", url, "--token", "nobody", "budget", "list", "--json"]).exits(7);
    assert_eq!(unknown.problem()["type"], "/problems/unauthorized");
    let missing = run(&[], &["--server", url, "budget", "list"]).exits(7);
    assert!(missing.err.contains("hint: set BURSAR_TOKEN"), "{}", missing.err);
    for url in ["nowhere", "ftp://x", "http://a@b"] {
        run(&[], &["--server", url, "budget", "list"]).exits(2);
    }
    // An empty variable counts as unset, and commands that start a server ignore BURSAR_SERVER.
    run(&[("BURSAR_SERVER", ""), ("BURSAR_TOKEN", "")], &["budget", "show", "far"]).exits(4);
    run(&[("BURSAR_SERVER", url)], &["dev", "--tour"]).exits(0);
    run(&[], &["--server", url, "serve"]).exits(2);
    // Commands that work on a database only.
    for args in [&["migrate"][..], &["rebuild", "--yes"], &["sweep"], &["grant", "purge"]] {
        let ran = run(&[("BURSAR_TOKEN", TOKEN), ("BURSAR_SERVER", url)], args).exits(2);
        assert!(ran.err.contains("works on a database, not on a server"), "{args:?}: {}", ran.err);
    }
}

#[test]
fn an_unreachable_server_is_unavailable() {
    let dir = Workdir::empty();
    // A port that was free a moment ago, so that no process listens on it.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let unreachable =
        dir.run(&["--server", &url, "--token", TOKEN, "--timeout-ms", "500", "budget", "list", "--json"]).exits(6);
    assert_eq!(unreachable.problem()["type"], "/problems/unavailable");
}

#[test]
fn completion_scripts_are_printed_for_every_shell() {
    let dir = Workdir::empty();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = dir.run(&["completions", shell]).exits(0).out;
        assert!(script.contains("bursar") && script.contains("schedule"), "{shell}");
    }
    dir.run(&["completions", "tcsh"]).exits(2);
}
