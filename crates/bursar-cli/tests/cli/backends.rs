//! Every command against a database and against a server over one: the same output, the same exit code.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::place::{Place, Ran};

pub(crate) const TOKEN: &str = "operator-token-for-tests-0123456789abcdef";

/// A server over a database of its own, on a free port.
pub(crate) struct Served {
    pub(crate) place: Place,
    child: Child,
    pub(crate) url: String,
}

impl Served {
    fn new() -> Served {
        Served::in_place(Place::ready(), &[("BURSAR_OPERATOR_TOKEN", TOKEN)]).0
    }

    /// In a folder that is ready, and what it says at its start.
    pub(crate) fn in_place(place: Place, env: &[(&str, &str)]) -> (Served, String) {
        let notes = place.0.path().join("notes");
        let mut child = Command::new(env!("CARGO_BIN_EXE_bursar"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .current_dir(place.0.path())
            .env_remove("BURSAR_DATABASE")
            .env_remove("BURSAR_OPERATOR_TOKEN")
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&notes).expect("a file"))
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("its first line");
        let url = line.trim().strip_prefix("listening on ").expect("where it listens").to_owned();
        let notes = std::fs::read_to_string(notes).expect("what it said");
        (Served { place, child, url }, notes)
    }

    fn run(&self, args: &[&str], input: &str) -> Ran {
        let env = [("BURSAR_SERVER", self.url.as_str()), ("BURSAR_TOKEN", TOKEN)];
        self.place.run_in(&env, args, input)
    }
}

impl Served {
    /// Ends it; what it worked on stays.
    pub(crate) fn end(mut self) -> Place {
        std::mem::replace(&mut self.place, Place::empty())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What differs from run to run: ids, tokens, times, and who asked for what. Lines of tables get one blank for many.
fn plain(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line.replace("\"operator\"", "WHO").replace("\"tester\"", "WHO");
        if line.contains("\"correlation_id\"") || line.contains("\"request_id\"") && line.trim_start().starts_with('"')
        {
            continue;
        }
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        lines.push(masked(&words.join(" ")));
    }
    lines.join("\n")
}

/// With every id, token and time replaced by a word, wherever it stands.
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

/// Both, with the ids that each has seen.
pub(crate) struct Both {
    local: Place,
    pub(crate) served: Served,
    seen: [std::collections::BTreeMap<String, String>; 2],
}

impl Both {
    pub(crate) fn new() -> Both {
        Both { local: Place::ready(), served: Served::new(), seen: Default::default() }
    }

    /// Runs it on both; `{name}` stands for what was remembered.
    pub(crate) fn run(&mut self, code: i32, args: &[&str], input: &str) -> [Ran; 2] {
        let filled = |place: usize, text: &str| {
            self.seen[place].iter().fold(text.to_owned(), |text, (name, id)| text.replace(&format!("{{{name}}}"), id))
        };
        let args_of = |place: usize| args.iter().map(|arg| filled(place, arg)).collect::<Vec<_>>();
        let (own, far) = (args_of(0), args_of(1));
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let far: Vec<&str> = far.iter().map(String::as_str).collect();
        let local = self.local.run_in(&[("USER", "tester")], &own, &filled(0, input)).ends(code);
        let served = self.served.run(&far, &filled(1, input)).ends(code);
        assert_eq!(plain(&local.out), plain(&served.out), "{args:?}\n{}\n{}", local.out, served.out);
        let told = |ran: &Ran| match serde_json::from_str::<serde_json::Value>(&ran.err) {
            // Only a server has a log to look a request up in.
            Ok(mut problem) => {
                problem.as_object_mut().expect("an object").remove("request_id");
                problem["violations"].as_array_mut().into_iter().flatten().for_each(|v| v["retry_after_ms"] = 0.into());
                plain(&problem.to_string())
            }
            Err(_) => plain(&ran.err),
        };
        assert_eq!(told(&local), told(&served), "{args:?}");
        [local, served]
    }

    /// The same twice: for people, and as JSON. Only for what can be asked twice.
    pub(crate) fn look(&mut self, args: &[&str]) {
        self.run(0, args, "");
        self.run(0, &[args, &["--json"]].concat(), "");
    }

    /// As JSON, remembering a part of the answer.
    pub(crate) fn make(&mut self, name: &str, pointer: &str, args: &[&str], input: &str) {
        let ran = self.run(0, &[args, &["--json"]].concat(), input);
        for (place, ran) in ran.iter().enumerate() {
            let json: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
            let part = match json.pointer(pointer).unwrap_or_else(|| panic!("{pointer} of {json}")) {
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            self.seen[place].insert(name.to_owned(), part);
        }
    }
}

#[test]
fn money_is_the_same_over_a_server() {
    let mut both = Both::new();
    let define =
        ["budget", "define", "a", "--limit", "1000:lifetime", "--limit", "500:bucket:1:30000000000", "--unit", "usd"];
    both.run(0, &[&define[..], &["--trip", "900:lifetime", "--threshold", "50", "--reason", "plan"]].concat(), "");
    both.run(0, &["budget", "define", "child", "--limit", "90:lifetime", "--parent", "a", "--json"], "");
    both.make("hold", "/hold/id", &["hold", "place", "a=100", "--ttl-ms", "60000", "--key", "k"], "");
    both.run(0, &["hold", "place", "a=100", "--ttl-ms", "60000", "--key", "k"], "");
    both.run(3, &["hold", "place", "child=91", "--json"], "");
    both.run(3, &["hold", "place", "child=91"], "");
    both.look(&["hold", "show", "{hold}"]);
    both.look(&["hold", "list", "a"]);
    both.run(0, &["hold", "extend", "{hold}", "--by-ms", "5", "--json"], "");
    both.run(0, &["hold", "commit", "{hold}", "--actual", "130"], "");
    both.run(5, &["hold", "commit", "{hold}", "--json"], "");
    both.look(&["hold", "history", "{hold}"]);
    both.make("other", "/hold/id", &["hold", "place", "child=9"], "");
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
    both.look(&["budget", "list"]);
    both.look(&["budget", "show", "child"]);
    both.look(&["budget", "history", "child", "--most", "3"]);
    both.make("grant", "/id", &["grant", "mint", "upload", "s", "--ttl-ms", "60000", "--payload", "[1]"], "");
    both.make("token", "/token", &["grant", "mint", "upload", "t", "--ttl-ms", "60000"], "");
    both.run(0, &["grant", "redeem", "upload", "t", "-"], "{token}");
    both.run(3, &["grant", "redeem", "upload", "t", "{token}"], "");
    both.run(0, &["grant", "revoke", "{grant}", "--reason", "typo"], "");
    both.look(&["grant", "list"]);
    both.look(&["grant", "show", "{grant}"]);
    both.run(4, &["grant", "show", "grant_00000000000000000000000000", "--json"], "");
    let command = r#"{ "charges": [{ "scope": "child", "amount": 3 }], "jobs": [{ "queue": "q", "kind": "k" }] }"#;
    both.run(0, &["command", "submit", "-", "--dry-run"], command);
    both.run(0, &["command", "submit", "-", "--key", "once", "--json"], command);
    both.run(0, &["command", "submit", "-", "--key", "once"], command);
    both.run(2, &["command", "submit", "-", "--json"], r#"{ "chargs": [] }"#);
    both.look(&["journal", "list"]);
    both.look(&["journal", "list", "--stream", "scope:child", "--kind", "budget", "--most", "2"]);
    both.look(&["journal", "list", "--stream", "{hold}"]);
    both.look(&["verify"]);
}

#[test]
fn jobs_are_the_same_over_a_server() {
    let mut both = Both::new();
    let jobs = r#"{ "jobs": [{ "queue": "q", "kind": "a" }, { "queue": "q", "kind": "b", "tags": ["t"] }, { "queue": "q", "kind": "c" },
        { "queue": "q", "kind": "d" }] }"#;
    both.run(0, &["job", "enqueue", "--file", "-"], jobs);
    both.make("job", "/jobs/0/id", &["job", "enqueue", "q", "x", "--payload", r#"{"n":1.50}"#, "--priority", "9"], "");
    both.run(0, &["job", "enqueue", "q", "x", "--key", "once"], "");
    both.run(0, &["job", "enqueue", "q", "x", "--key", "once"], "");
    both.make("fence", "/jobs/0/lease/fence", &["job", "lease", "q", "--worker", "w"], "");
    both.run(0, &["job", "heartbeat", "{job}", "--fence", "{fence}"], "");
    both.look(&["job", "show", "{job}"]);
    both.run(5, &["job", "complete", "{job}", "--fence", "99", "--json"], "");
    both.run(
        0,
        &["job", "fail", "{job}", "--fence", "{fence}", "--error", "bad", "--message", "worse", "--for-good"],
        "",
    );
    both.look(&["job", "show", "{job}"]);
    both.look(&["job", "events", "{job}"]);
    both.look(&["dead", "list"]);
    both.look(&["dead", "groups"]);
    both.look(&["dead", "show", "{job}"]);
    both.run(0, &["dead", "retry", "--queue", "q", "--dry-run"], "");
    both.run(0, &["dead", "retry", "{job}", "--reason", "mended"], "");
    both.run(5, &["dead", "show", "{job}"], "");
    both.run(5, &["dead", "discard", "{job}", "--json"], "");
    both.run(0, &["dead", "move", "--to", "slow", "--all", "--yes"], "");
    both.make("fence", "/jobs/0/lease/fence", &["job", "lease", "q", "--worker", "w", "--kind", "x"], "");
    both.run(0, &["job", "snooze", "{job}", "--fence", "{fence}", "--delay-ms", "60000"], "");
    both.make("next", "/jobs/0/id", &["job", "lease", "q", "--kind", "x", "--worker", "w"], "");
    both.run(0, &["job", "return", "{next}", "--fence", "1"], "");
    both.make("fence", "/jobs/0/lease/fence", &["job", "lease", "q", "--kind", "x", "--worker", "w"], "");
    both.run(0, &["job", "complete", "{next}", "--fence", "{fence}", "--result", "[1]", "--json"], "");
    both.look(&["job", "list", "--queue", "q", "--most", "3"]);
    both.look(&["job", "list", "--state", "succeeded"]);
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
    both.look(&["job", "costs", "--from", "2026-01-01"]);
    both.run(2, &["job", "costs", "--from", "tomorrow", "--json"], "");
    both.look(&["job", "held"]);
    both.run(2, &["job", "held", "--after", "nothing", "--json"], "");
    both.run(4, &["job", "show", "job_00000000000000000000000000", "--json"], "");
    both.run(0, &["queue", "set", "q", "--concurrency", "3", "--rate", "5/1000", "--reason", "slow"], "");
    both.run(0, &["queue", "set", "q", "--rate", "none", "--json"], "");
    both.run(2, &["queue", "set", "q", "--lease-ms", "1", "--json"], "");
    both.run(0, &["queue", "set", "other", "--file", "-"], r#"{ "key_concurrency": 2 }"#);
    both.run(0, &["queue", "pause", "q", "--reason", "down"], "");
    both.run(0, &["queue", "resume", "q"], "");
    both.look(&["queue", "show", "q"]);
    both.look(&["queue", "list"]);
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
    both.look(&["schedule", "show", "s"]);
    both.look(&["schedule", "list"]);
    both.run(0, &["schedule", "remove", "s", "--reason", "gone"], "");
    both.run(4, &["schedule", "show", "s", "--json"], "");
    both.look(&["journal", "list", "--kind", "schedule"]);
    both.look(&["verify"]);
}

#[test]
fn tokens_are_the_same_over_a_server() {
    let mut both = Both::new();
    let worker =
        ["worker", "create", "encoder", "--queue", "media-*", "--kind", "video.*", "--mutation", "jobs.enqueue"];
    both.make("worker", "/id", &worker, "");
    both.look(&["worker", "show", "{worker}"]);
    both.look(&["worker", "list"]);
    both.make("rotated", "/id", &["worker", "rotate", "{worker}", "--overlap-ms", "1000"], "");
    both.run(0, &["worker", "revoke", "{rotated}"], "");
    both.run(4, &["worker", "show", "wkr_40000000000000000000000000"], "");
    both.make(
        "key",
        "/id",
        &["token", "create", "shop", "--role", "user", "--expires-in-ms", "60000", "--key", "k"],
        "",
    );
    // The secret is shown once.
    both.run(0, &["token", "create", "shop", "--role", "user", "--expires-in-ms", "60000", "--key", "k"], "");
    both.run(2, &["token", "create", "shop", "--role", "operator"], "");
    both.look(&["token", "show", "{key}"]);
    both.look(&["token", "list"]);
    both.run(0, &["token", "rotate", "{key}"], "");
    both.run(0, &["token", "revoke", "{key}"], "");
    // For another tenant.
    both.look(&["--tenant", "acme", "token", "list"]);
    both.run(0, &["--tenant", "acme", "post", "x=1", "--limit", "1:day"], "");
    both.run(4, &["budget", "show", "x"], "");
}

#[test]
fn where_to_ask_is_said_in_one_way_and_a_bad_token_or_server_is_told() {
    let served = Served::new();
    let url = served.url.as_str();
    let place = Place::ready();
    let run = |env: &[(&str, &str)], args: &[&str]| place.run_in(env, args, "");
    // Options go before the environment, and files stand for values.
    let token = place.file("token", &format!("{TOKEN}\n"));
    let server = place.file("server", url);
    let files = [("BURSAR_TOKEN_FILE", token.to_str().unwrap()), ("BURSAR_SERVER_FILE", server.to_str().unwrap())];
    run(&files, &["budget", "define", "far", "--limit", "1:day"]).ends(0);
    run(&[("BURSAR_SERVER", "http://127.0.0.1:1")], &["--server", url, "--token", TOKEN, "budget", "show", "far"])
        .ends(0);
    run(&[], &["budget", "show", "far"]).ends(4);
    run(
        &[("BURSAR_SERVER", url), ("BURSAR_TOKEN", TOKEN)],
        &["--database", "sqlite://bursar-data/bursar.db", "budget", "show", "far"],
    )
    .ends(4);
    let both = run(&[("BURSAR_SERVER", url), ("BURSAR_DATABASE", "sqlite://x.db")], &["budget", "list"]).ends(2);
    assert!(both.err.contains("both BURSAR_SERVER and BURSAR_DATABASE"), "{}", both.err);
    run(&[], &["--server", url, "--database", "sqlite://x.db", "budget", "list"]).ends(2);
    let twice = run(&[("BURSAR_TOKEN", TOKEN), files[0]], &["--server", url, "budget", "list"]).ends(2);
    assert!(twice.err.contains("not both"), "{}", twice.err);
    let nothing = place.file("nothing", "\n");
    let nothing = [("BURSAR_TOKEN_FILE", nothing.to_str().unwrap())];
    let empty = run(&nothing, &["--server", url, "budget", "list"]).ends(2);
    assert!(empty.err.contains("BURSAR_TOKEN_FILE") && empty.err.contains("is empty"), "{}", empty.err);
    // What goes wrong with a server.
    let unknown = run(&[], &["--server", url, "--token", "nobody", "budget", "list", "--json"]).ends(1);
    assert_eq!(unknown.problem()["type"], "/problems/unauthorized");
    let missing = run(&[], &["--server", url, "budget", "list"]).ends(1);
    assert!(missing.err.contains("send a good token"), "{}", missing.err);
    for url in ["nowhere", "ftp://x", "http://a@b"] {
        run(&[], &["--server", url, "budget", "list"]).ends(2);
    }
    // An empty variable says nothing, and who starts a server of its own is not told by the environment to be a client.
    run(&[("BURSAR_SERVER", ""), ("BURSAR_TOKEN", "")], &["budget", "show", "far"]).ends(4);
    run(&[("BURSAR_SERVER", url)], &["dev", "--no-serve"]).ends(0);
    run(&[], &["--server", url, "serve"]).ends(2);
    // What only a database can do.
    for args in [&["migrate"][..], &["rebuild", "--yes"], &["sweep"], &["doctor"], &["grant", "purge"]] {
        let ran = run(&[("BURSAR_TOKEN", TOKEN), ("BURSAR_SERVER", url)], args).ends(2);
        assert!(ran.err.contains("works on the database itself"), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_server_that_is_away_is_unavailable() {
    let place = Place::empty();
    // A port that nobody listens on: it was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let away =
        place.run(&["--server", &url, "--token", TOKEN, "--timeout-ms", "500", "budget", "list", "--json"]).ends(6);
    assert_eq!(away.problem()["type"], "/problems/unavailable");
}

#[test]
fn shells_can_complete() {
    let place = Place::empty();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.run(&["completions", shell]).ends(0).out;
        assert!(script.contains("bursar") && script.contains("schedule"), "{shell}");
    }
    place.run(&["completions", "tcsh"]).ends(2);
}
