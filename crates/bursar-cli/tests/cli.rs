//! The real binary on a folder of its own: what it prints, and how it ends.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A working folder, with a database in it once `migrate` or `dev` has run.
struct Place(TempDir);

/// How a call ended.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Place {
    fn empty() -> Place {
        Place(tempfile::tempdir().expect("a folder"))
    }

    /// With a database at the default place.
    fn ready() -> Place {
        let place = Place::empty();
        place.run(&["migrate"]).ends(0);
        place
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, "")
    }

    fn run_with(&self, args: &[&str], input: &str) -> Ran {
        let mut child = Command::new(env!("CARGO_BIN_EXE_bursar"))
            .args(args)
            .current_dir(self.0.path())
            .env_remove("BURSAR_DATABASE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        // A call that reads nothing may be over before it is written to.
        let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
        let output = child.wait_with_output().expect("the binary ends");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs with `--json` and returns the data; it must be done.
    fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(&[args, &["--json"]].concat()).ends(0);
        serde_json::from_str(&ran.out).expect("JSON on standard output")
    }

    /// Runs with `--json` and returns the problem; it must end with this code and without data.
    fn problem(&self, code: i32, args: &[&str]) -> Value {
        let ran = self.run(&[args, &["--json"]].concat()).ends(code);
        assert_eq!(ran.out, "", "{args:?}");
        ran.problem()
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    fn database(&self) -> Connection {
        Connection::open(self.0.path().join("bursar-data/bursar.db")).expect("the database")
    }
}

impl Ran {
    fn ends(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "\n--- out\n{}\n--- err\n{}", self.out, self.err);
        self
    }

    fn problem(&self) -> Value {
        let last = self.err.lines().last().expect("a problem on standard error");
        serde_json::from_str(last).unwrap_or_else(|_| panic!("not a problem: {last}"))
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not text: {value}"))
}

/// `2026-11-15T10:00:00.000000Z`.
fn is_time(value: &Value) -> bool {
    let text = text(value);
    text.len() == 27 && text.as_bytes()[10] == b'T' && text.as_bytes()[19] == b'.' && text.ends_with('Z')
}

#[test]
fn dev_shows_the_whole_and_can_run_again_on_the_same_folder() {
    let place = Place::empty();
    let first = place.run(&["dev"]).ends(0);
    for part in
        ["A metered command", "80000 came back", "refused: team:", "replayed: true", "hold.committed", "Try next"]
    {
        assert!(first.out.contains(part), "{part} is missing in\n{}", first.out);
    }
    assert!(!first.out.contains('\u{1b}'), "no colours");
    assert_eq!(first.err, "");
    let second = place.json(&["dev"]);
    assert_eq!(second["replayed"]["replayed"], true);
    assert_eq!(second["replayed"]["id"], second["command"]["id"]);
    assert_eq!(second["refused"]["violations"].as_array().unwrap().len(), 2);
    assert_eq!(second["redeemed_again"]["violations"], json!([{ "kind": "grant", "purpose": "upload" }]));
    assert_eq!(second["verify"]["ok"], true);
    // Another folder, and the default database of the other commands is the one of the first.
    place.run(&["dev", "--data", "elsewhere/deeper"]).ends(0);
    assert_eq!(place.json(&["budget", "list", "--prefix", "org:"])["items"].as_array().unwrap().len(), 2);
    place.run(&["verify"]).ends(0);
    place.run(&["doctor"]).ends(0);
}

#[test]
fn a_hold_is_placed_shown_extended_committed_and_told_in_json() {
    let place = Place::ready();
    let define = ["budget", "define", "room:sales", "--limit", "1000000:month@Europe/Berlin", "--unit", "micro_usd"];
    place.json(&[&define[..], &["--limit", "100000:rolling:3600000", "--reason", "autumn plan"]].concat());

    let placed = place.json(&["hold", "place", "room:sales=50000", "--ttl-ms", "60000"]);
    let hold = &placed["hold"];
    assert_eq!((&hold["state"], &placed["replayed"]), (&json!("held"), &json!(false)));
    assert!(text(&placed["id"]).starts_with("cmd_") && is_time(&hold["expires_at"]));
    let month = json!({ "window": "month", "zone": "Europe/Berlin", "limit": 1_000_000, "remaining": 950_000 });
    assert_eq!(hold["charges"][0]["balances"][0], month);

    let id = text(&hold["id"]);
    assert_eq!(place.json(&["hold", "show", id])["state"], "held");
    assert_eq!(place.json(&["hold", "list", "room:sales"])["items"][0]["id"], id);
    assert!(is_time(&place.json(&["hold", "extend", id, "--by-ms", "1000"])["expires_at"]));

    let settled = place.json(&["hold", "commit", id, "--actual", "42000", "--key", "settle-1"]);
    let expected = (&json!("committed"), &json!(false), &json!(0), &json!([]));
    assert_eq!((&settled["state"], &settled["late"], &settled["overrun"], &settled["warnings"]), expected);
    assert_eq!(settled["charges"][0]["balances"][0]["remaining"], 958_000);
    assert_eq!(place.json(&["hold", "commit", id, "--actual", "42000", "--key", "settle-1"]), settled);

    let budget = place.json(&["budget", "show", "room:sales"]);
    assert_eq!(budget["limits"][1], json!({ "amount": 100_000, "window": "rolling", "length_ms": 3_600_000 }));
    assert_eq!(budget["hold"]["ttl_ms"], 60_000);
    let month = budget["balances"].as_array().unwrap().iter().find(|balance| balance["window"] == "month").unwrap();
    assert_eq!((&month["posted"], &month["held"], &month["remaining"]), (&json!(42_000), &json!(0), &json!(958_000)));
    assert!(is_time(&month["start"]) && is_time(&month["end"]));

    let history = place.json(&["hold", "history", id]);
    let kinds: Vec<&str> = history["items"].as_array().unwrap().iter().map(|event| text(&event["kind"])).collect();
    assert_eq!(kinds, ["hold.committed", "hold.extended", "hold.placed"]);
    let spent = place.json(&["budget", "spent", "room:sales", "--from", "2020-01-01T00:00:00Z"]);
    assert_eq!(spent["spent"], 42_000);
    assert_eq!(place.json(&["budget", "credit", "room:sales", "2000", "--hold", id])["amount"], 2_000);
    assert_eq!(place.json(&["budget", "history", "room:sales"])["items"][0]["kind"], "spend.credited");
}

#[test]
fn a_hold_that_expired_is_charged_or_refused_as_its_policy_says_and_swept_once() {
    let place = Place::ready();
    for (scope, late) in [("charging", "charge"), ("refusing", "refuse")] {
        place.json(&["budget", "define", scope, "--limit", "100:day", "--ttl-min", "1", "--late", late]);
    }
    // One millisecond is over before another process has started.
    let placed =
        |scope: &str| place.json(&["hold", "place", &format!("{scope}=30"), "--ttl-ms", "1"])["hold"]["id"].clone();
    let (charging, refusing) = (placed("charging"), placed("refusing"));
    assert_eq!(place.json(&["hold", "show", text(&charging)])["state"], "expired");
    let settled = place.json(&["hold", "commit", text(&charging)]);
    assert_eq!((&settled["late"], &settled["warnings"]), (&json!(true), &json!(["committed_after_expiry"])));
    let problem = place.problem(3, &["hold", "commit", text(&refusing)]);
    assert_eq!(problem["type"], "/problems/refused");
    assert_eq!(place.json(&["sweep"])["expired_count"], 1);
    assert_eq!(place.json(&["sweep", "--most", "10"])["expired_count"], 0);
    assert_eq!(place.problem(5, &["hold", "extend", text(&refusing), "--by-ms", "5"])["type"], "/problems/conflict");
}

#[test]
fn every_exit_code_is_used_as_documented() {
    let place = Place::ready();
    place.run(&["budget", "define", "a", "--limit", "10:day"]).ends(0);
    place.run(&["--help"]).ends(0);
    let id = place.json(&["hold", "place", "a=4"])["hold"]["id"].clone();
    let id = text(&id);
    let nobody = "hold_00000000000000000000000000";

    // 1: something is wrong.
    place.database().execute("UPDATE bursar_live_charges SET amount = 5", []).unwrap();
    let found = place.run(&["verify", "--json"]).ends(1);
    assert!(found.out.contains("\"ok\": false") && found.out.contains("held is 4"), "{}", found.out);
    place.run(&["rebuild", "--yes"]).ends(0);
    place.run(&["verify"]).ends(0);

    // 2: asked in a wrong way.
    place.run(&["budget"]).ends(2);
    assert_eq!(place.problem(2, &["hold", "show", nobody, "--frobnicate"])["type"], "/problems/invalid");
    // 3: refused.
    let problem = place.problem(3, &["hold", "place", "a=7"]);
    let violation = &problem["violations"][0];
    assert_eq!((&problem["type"], &problem["status"]), (&json!("/problems/refused"), &json!(409)));
    let seen = (&violation["kind"], &violation["window"], &violation["available"], &violation["possible"]);
    assert_eq!(seen, (&json!("limit"), &json!("day"), &json!(6), &json!(true)));
    assert!(violation["retry_after_ms"].as_i64().unwrap() > 0);
    // 4: not found.
    assert_eq!(place.problem(4, &["hold", "show", nobody])["type"], "/problems/not-found");
    assert_eq!(place.problem(4, &["hold", "release", nobody])["type"], "/problems/not-found");
    assert_eq!(place.problem(4, &["hold", "place", "nowhere=1"])["type"], "/problems/unknown-scope");
    for args in [["budget", "show", "nowhere"], ["job", "show", "job_00000000000000000000000000"]] {
        place.run(&args).ends(4);
    }
    // 5: conflict.
    place.run(&["hold", "release", id, "--reason", "not needed"]).ends(0);
    let problem = place.problem(5, &["hold", "commit", id]);
    assert_eq!((&problem["type"], &problem["state"]), (&json!("/problems/already-settled"), &json!("released")));
    place.run(&["post", "a=1", "--key", "k"]).ends(0);
    place.run(&["post", "a=1", "--key", "k"]).ends(0);
    assert_eq!(place.problem(5, &["post", "a=2", "--key", "k"])["type"], "/problems/conflict");
    // 6: unavailable.
    let garbage = place.file("garbage.db", &"this is not a database ".repeat(100));
    let empty = place.file("empty.db", "");
    for path in ["missing/folder/x.db", garbage.to_str().unwrap(), empty.to_str().unwrap()] {
        let url = format!("sqlite://{path}");
        assert_eq!(
            place.problem(6, &["--database", &url, "budget", "list"])["type"],
            "/problems/unavailable",
            "{path}"
        );
    }
    place.run(&["--database", "sqlite://missing/folder/x.db", "migrate"]).ends(6);
    assert!(!place.0.path().join("missing").exists(), "a mistyped path makes no folder");
}

#[test]
fn bad_input_is_refused_by_name_and_changes_nothing() {
    let place = Place::ready();
    place.run(&["budget", "define", "a", "--limit", "10:day"]).ends(0);
    let events = || place.json(&["journal", "list"])["items"].as_array().unwrap().len();
    let before = events();
    for (args, word) in [
        (&["hold", "place", "a=-1"][..], "negative"),
        (&["hold", "place", "a=1", "--ttl-ms", "0"], "ttl_ms"),
        (&["hold", "place", "a=1", "--ttl-ms", "-5"], "-5"),
        (&["hold", "place", "a=1.5"], "whole number"),
        (&["hold", "place", "a"], "SCOPE=AMOUNT"),
        (&["hold", "show", "hold_nonsense"], "hold_…"),
        (&["hold", "show", "job_00000000000000000000000000"], "hold_…"),
        (&["budget", "define", "b", "--limit", "5:day@Mars/Olympus"], "Mars/Olympus"),
        (&["budget", "define", "b", "--limit", "5:fortnight"], "fortnight"),
        (&["budget", "define", "b", "--limit", "-5:day"], "negative"),
        (&["budget", "define", "b", "--limit", "5:day", "--ttl", "999999999"], "ttl_max"),
        (&["budget", "define", "b"], "--limit"),
        (&["budget", "define", "b", "--file", "no-such-file"], "no-such-file"),
        (&["budget", "credit", "a", "-5"], "negative"),
        (&["budget", "spent", "a", "--from", "yesterday"], "RFC 3339"),
        (&["grant", "mint", "upload", "s", "--ttl-ms", "0"], "ttl_ms"),
        (&["grant", "mint", "upload", "s", "--ttl-ms", "1000", "--payload", "{"], "JSON"),
        (&["journal", "list", "--stream", "room"], "scope:NAME"),
        (&["--tenant", "", "budget", "list"], "tenant"),
        (&["--database", "mysql://user:secret@host/x", "budget", "list"], "sqlite://PATH"),
    ] {
        let problem = place.problem(2, args);
        let detail = text(&problem["detail"]);
        assert!(detail.contains(word), "{args:?}: {detail}");
        assert!(!detail.contains("secret"), "{detail}");
    }
    for (body, field) in [
        (r#"{ "charges": [ { "scope": "a", "amount": 1 } ], "setle": "now" }"#, "setle"),
        (r#"{ "charges": [ { "scope": "a", "amount": 1, "limt": 3 } ] }"#, "limt"),
        (r#"{ "charges": [ { "scope": "a", "amount": -1 } ] }"#, "charges.amount"),
        (r#"{ "charges": [ { "scope": "a", "amount": 1 } ], "settle": "hold", "ttl_ms": 0 }"#, "ttl_ms"),
        (r#"{ "charges": [ { "scope": "a", "amount": 1 } ], "ttl_ms": 5 }"#, "ttl_ms"),
        (
            r#"{ "charges": [ { "scope": "a", "amount": 1, "limits": [ { "amount": 1, "window": "day", "zone": "X" } ] } ] }"#,
            "zone",
        ),
        ("{}", "command"),
        ("not json", "body"),
    ] {
        let problem = place.run_with(&["command", "submit", "-", "--json"], body).ends(2).problem();
        assert_eq!(problem["field"], field, "{body}: {problem}");
    }
    let file = place.file("budget.json", r#"{ "limits": [ { "amount": 1, "window": "day" } ], "shadow": true }"#);
    assert_eq!(place.problem(2, &["budget", "define", "b", "--file", file.to_str().unwrap()])["field"], "shadow");
    // A malformed token is the same answer as a used one.
    let problem = place.problem(3, &["grant", "redeem", "upload", "s", "bgr_nonsense"]);
    assert_eq!(problem["violations"], json!([{ "kind": "grant", "purpose": "upload" }]));
    assert_eq!(events(), before);
}

#[test]
fn a_command_holds_redeems_and_enqueues_once() {
    let place = Place::ready();
    let budget = r#"{ "unit": "micro_usd", "limits": [ { "amount": 1000, "window": "week", "week_start": "sunday" } ],
        "hold": { "ttl_ms": 30000 }, "thresholds": [50] }"#;
    let file = place.file("budget.json", budget);
    let defined = place.json(&["budget", "define", "agent", "--file", file.to_str().unwrap()]);
    assert_eq!(defined["limits"][0]["week_start"], "sunday");
    let minted = place.json(&["grant", "mint", "upload", "s7", "--ttl-ms", "60000", "--payload", r#"{"asset":7}"#]);
    let body = json!({
        "charges": [{ "scope": "agent", "amount": 400 }], "settle": "job",
        "redeem": [{ "purpose": "upload", "subject": "s7", "token": minted["token"] }],
        "jobs": [{ "queue": "media", "kind": "video", "payload_from_grant": true, "delay_ms": 1500, "tags": ["trial"] }],
        "context": { "correlation_id": "c-1", "reason": "demo" },
    })
    .to_string();
    let submit =
        |extra: &[&str], body: &str| place.run_with(&[&["command", "submit", "-", "--json"], extra].concat(), body);
    let read = |ran: Ran| -> Value { serde_json::from_str(&ran.ends(0).out).unwrap() };

    let tried = read(submit(&["--dry-run"], &body));
    assert_eq!((&tried["dry_run"], &tried["jobs"][0]["created"]), (&json!(true), &json!(true)));
    assert_eq!(place.json(&["grant", "list"])["items"][0]["state"], "open");

    let done = read(submit(&["--key", "k"], &body));
    assert_eq!(done["grants"], json!([{ "purpose": "upload", "payload": { "asset": 7 } }]));
    assert_eq!((&done["hold"]["expires_at"], &done["replayed"]), (&Value::Null, &json!(false)));
    let again = read(submit(&["--key", "k"], &body));
    assert_eq!((&again["id"], &again["replayed"], &again["jobs"]), (&done["id"], &json!(true), &done["jobs"]));
    assert_eq!(submit(&["--key", "k"], &body.replace("400", "401")).ends(5).problem()["type"], "/problems/conflict");
    assert_eq!(submit(&[], &body).ends(3).problem()["violations"][0]["kind"], "grant");

    let job = place.json(&["job", "show", text(&done["jobs"][0]["id"])]);
    assert_eq!((&job["payload"], &job["hold"]), (&json!({ "asset": 7 }), &done["hold"]["id"]));
    let hold = text(&done["hold"]["id"]).to_owned();
    assert_eq!(place.problem(5, &["hold", "release", &hold])["type"], "/problems/conflict");
    let events = place.json(&["journal", "list", "--stream", text(&done["id"])]);
    let events = events["items"].as_array().unwrap();
    assert_eq!(events.len(), 3);
    assert!(events.iter().all(|event| event["correlation_id"] == "c-1" && event["reason"] == "demo"));
    assert_eq!(place.json(&["grant", "list"])["items"][0]["state"], "redeemed");
}

#[test]
fn a_token_is_redeemed_from_standard_input_once_and_a_revoked_one_never() {
    let place = Place::ready();
    let mint = || place.json(&["grant", "mint", "upload", "s7", "--ttl-ms", "60000", "--payload", "[1]"]);
    let (first, second) = (mint(), mint());
    assert!(text(&first["id"]).starts_with("grant_") && is_time(&first["expires_at"]));
    let redeem =
        |token: &Value| place.run_with(&["grant", "redeem", "upload", "s7", "-"], &format!("{}\n", text(token)));
    assert_eq!(redeem(&first["token"]).ends(0).out, "[1]\n");
    let refused = redeem(&first["token"]).ends(3);
    assert!(refused.err.contains("does not grant upload") && refused.err.contains("hint: "), "{}", refused.err);
    place.run(&["grant", "revoke", text(&second["id"])]).ends(0);
    redeem(&second["token"]).ends(3);
    place.run(&["grant", "revoke", text(&first["id"])]).ends(5);
    // One millisecond is over before another process has started.
    place.json(&["grant", "mint", "upload", "s8", "--ttl-ms", "1"]);
    assert_eq!(place.json(&["grant", "purge"])["purged_count"], 1);
    let listed = place.run(&["grant", "list", "--json"]).ends(0);
    assert!(!listed.out.contains("bgr_") && !listed.out.contains("digest"), "{}", listed.out);
    let page = place.json(&["grant", "list", "--most", "1"]);
    assert_eq!(place.json(&["grant", "list", "--after", text(&page["next"])])["items"].as_array().unwrap().len(), 1);
}

#[test]
fn a_frozen_scope_refuses_until_it_is_unfrozen() {
    let place = Place::ready();
    place.run(&["budget", "define", "a", "--limit", "10:bucket:1:1000"]).ends(0);
    let frozen = place.json(&["budget", "freeze", "a", "--reason", "audit"]);
    assert_eq!((&frozen["frozen"], &frozen["freeze"]["reason"]), (&json!(true), &json!("audit")));
    assert_eq!(place.problem(3, &["post", "a=1"])["violations"], json!([{ "kind": "frozen", "scope": "a" }]));
    assert_eq!(place.json(&["budget", "unfreeze", "a"])["frozen"], false);
    assert_eq!(place.json(&["post", "a=1"])["posted"][0]["amount"], 1);
    assert_eq!(place.problem(4, &["budget", "freeze", "b"])["type"], "/problems/unknown-scope");
}

#[test]
fn tenants_are_apart() {
    let place = Place::ready();
    place.run(&["--tenant", "red", "budget", "define", "a", "--limit", "10:day"]).ends(0);
    let placed = place.json(&["--tenant", "red", "hold", "place", "a=1"]);
    let id = text(&placed["hold"]["id"]);
    place.run(&["--tenant", "red", "hold", "show", id]).ends(0);
    for args in [["hold", "show", id], ["hold", "commit", id], ["budget", "show", "a"]] {
        place.run(&args).ends(4);
        place.run(&[&["--tenant", "blue"], &args[..]].concat()).ends(4);
    }
    assert_eq!(place.json(&["journal", "list"])["items"], json!([]));
    assert_eq!(place.json(&["--tenant", "red", "journal", "list"])["items"].as_array().unwrap().len(), 2);
}

#[test]
fn the_journal_can_be_paged_filtered_and_queried_with_sql() {
    let place = Place::ready();
    place.run(&["dev"]).ends(0);
    let all = place.json(&["journal", "list"]);
    let items = all["items"].as_array().unwrap();
    let first = place.json(&["journal", "list", "--most", "3"]);
    let rest = place.json(&["journal", "list", "--after", text(&first["next"])]);
    let joined = [first["items"].as_array().unwrap().clone(), rest["items"].as_array().unwrap().clone()].concat();
    assert_eq!(&joined, items);
    assert_eq!(place.json(&["journal", "list", "--kind", "budget"])["items"].as_array().unwrap().len(), 3);
    let agent = place.json(&["journal", "list", "--stream", "scope:agent:acme-1/scout", "--kind", "hold.committed"]);
    assert_eq!(agent["items"][0]["data"]["charges"][0]["actual"], 320_000);
    assert!(agent["items"][0]["data"]["charges"][0]["balances"][0]["length_ms"].is_i64());

    let printed = place.json(&["journal", "query"]);
    assert_eq!(printed["engine"], "sqlite");
    let database = place.database();
    let mut query = database.prepare(text(&printed["sql"])).unwrap();
    let rows = query.query_map([], |row| {
        let columns =
            (row.get("position")?, row.get("at")?, row.get("kind")?, row.get("command")?, row.get("version")?);
        Ok((columns, row.get::<_, String>("data")?, row.get::<_, String>("tenant")?))
    });
    let rows: Vec<((i64, String, String, String, i64), String, String)> = rows.unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), items.len());
    for (row, item) in rows.iter().zip(items) {
        let ((position, at, kind, command, version), data, tenant) = row;
        assert_eq!(
            json!([position, at, kind, command, version, tenant]),
            json!([item["position"], item["at"], item["kind"], item["command"], item["version"], item["tenant"]])
        );
        assert!(serde_json::from_str::<Value>(data).unwrap().is_object());
    }
    let postgres = place.run(&["--database", "postgres://localhost/x", "journal", "query"]).ends(0);
    assert!(postgres.out.contains("bursar.journal_order"));
}

#[test]
fn printed_migrations_make_a_database_that_works() {
    let place = Place::empty();
    let sql = place.run(&["migrate", "--print"]).ends(0).out;
    assert!(!place.0.path().join("bursar-data").exists(), "printing makes nothing");
    let path = place.0.path().join("own.db");
    Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
    let url = format!("sqlite://{}", path.display());
    place.run(&["--database", &url, "budget", "define", "a", "--limit", "1:lifetime"]).ends(0);
    place.run(&["--database", &url, "migrate"]).ends(0);
    Connection::open(&path).unwrap().execute("UPDATE bursar_meta SET value = '99'", []).unwrap();
    let newer = place.run(&["--database", &url, "budget", "list"]).ends(6);
    assert!(newer.err.contains("newer bursar"), "{}", newer.err);
}

#[test]
fn rebuild_asks_first_and_gives_the_same_tables() {
    let place = Place::ready();
    place.run(&["dev"]).ends(0);
    let before = place.json(&["budget", "show", "org:acme-1"]);
    let refused = place.run(&["rebuild"]).ends(2);
    assert!(refused.err.contains("will be emptied") && refused.err.contains("--yes"), "{}", refused.err);
    place.database().execute("DELETE FROM bursar_scopes", []).unwrap();
    place.run(&["budget", "show", "org:acme-1"]).ends(4);
    assert_eq!(place.json(&["rebuild", "--yes"])["events"], 8);
    assert_eq!(place.json(&["budget", "show", "org:acme-1"]), before);
}

#[test]
fn doctor_names_what_is_wrong_and_fixes_what_follows_from_the_journal() {
    let place = Place::ready();
    place.run(&["dev"]).ends(0);
    let healthy = place.json(&["doctor"]);
    let components: Vec<&str> =
        healthy["findings"].as_array().unwrap().iter().map(|finding| text(&finding["component"])).collect();
    assert_eq!(components, ["database", "clock", "journal", "balances"]);

    // Rows that disagree, and rows that cannot be read.
    for damage in ["UPDATE bursar_postings SET amount = 1", "UPDATE bursar_scopes SET state = x'00'"] {
        place.database().execute(damage, []).unwrap();
        let sick = place.run(&["doctor"]).ends(1);
        assert!(sick.out.contains("balances  WRONG") && sick.out.contains("doctor --fix"), "{}", sick.out);
        place.run(&["doctor", "--component", "clock"]).ends(0);
        assert_eq!(place.json(&["doctor", "--fix"])["rebuilt"], 8);
        place.run(&["verify"]).ends(0);
    }

    // A clock that jumped far forward once.
    place.database().execute("UPDATE bursar_journal SET at = at + 86400000000 WHERE position = 8", []).unwrap();
    let clock = place.run(&["doctor", "--component", "clock"]).ends(1);
    assert!(clock.out.contains("after the clock"), "{}", clock.out);
    place.database().execute("UPDATE bursar_journal SET at = at - 86400000000 WHERE position = 8", []).unwrap();
    place.run(&["doctor"]).ends(0);

    // A journal that cannot be read is not rebuilt from.
    place.database().execute("UPDATE bursar_journal SET entries = '?' WHERE position = 4", []).unwrap();
    place.database().execute("UPDATE bursar_postings SET amount = 1", []).unwrap();
    let lost = place.run(&["doctor", "--fix"]).ends(1);
    assert!(lost.out.contains("journal   WRONG") && !lost.out.contains("rebuilt"), "{}", lost.out);
}

#[test]
fn doctor_names_a_file_that_is_damaged_or_missing_and_the_way_back() {
    let place = Place::empty();
    let missing = place.run(&["doctor"]).ends(6);
    assert!(missing.out.contains("bursar-data/bursar.db") && missing.out.contains("bursar migrate"), "{}", missing.out);
    let garbage = place.file("garbage.db", &"this is not a database ".repeat(100));
    let url = format!("sqlite://{}", garbage.display());
    let damaged = place.run(&["--database", &url, "doctor", "--fix"]).ends(6);
    assert!(damaged.out.contains("garbage.db") && damaged.out.contains("backup"), "{}", damaged.out);
    assert_eq!(
        std::fs::read_to_string(&garbage).unwrap(),
        "this is not a database ".repeat(100),
        "nothing overwritten"
    );

    // Damage in the middle of a file that was good.
    place.run(&["dev"]).ends(0);
    place.database().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let path = place.0.path().join("bursar-data/bursar.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[4096..end].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let damaged = place.run(&["doctor"]).ends(6);
    assert!(damaged.out.contains("WRONG") && damaged.out.contains("backup"), "{}", damaged.out);
    place.run(&["hold", "place", "a=1", "--limit", "1:day"]).ends(6);
}
