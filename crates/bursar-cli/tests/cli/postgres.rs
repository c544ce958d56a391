//! Each group of commands on PostgreSQL.

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use crate::workdir::{Workdir, text};

#[test]
fn every_group_of_commands_works_on_postgres() {
    let dir = Workdir::empty();
    let url = bursar_testkit::fresh_database();
    let json = |args: &[&str]| dir.json(&[&["--database", url.as_str()], args].concat());
    let run = |args: &[&str], input: &str| dir.run_with(&[&["--database", url.as_str()], args].concat(), input);
    run(&["budget", "list"], "").exits(1);
    run(&["migrate"], "").exits(0);
    json(&["budget", "define", "a", "--limit", "1000:lifetime", "--ttl-min", "1ms"]);
    let placed = json(&["hold", "place", "a=40"]);
    assert_eq!(json(&["hold", "commit", text(&placed["hold"]["id"]), "--actual", "30"])["state"], "committed");
    json(&["hold", "place", "a=5", "--ttl-ms", "1"]);
    assert_eq!(json(&["sweep"])["expired_count"], 1);
    assert_eq!(json(&["post", "a=7"])["posted"][0]["amount"], 7);
    run(&["post", "a=5000"], "").exits(3);
    let minted = json(&["grant", "mint", "upload", "s7", "--ttl-ms", "60000", "--payload", "[1]"]);
    let body = json!({
        "charges": [{ "scope": "a", "amount": 100 }], "settle": "job",
        "redeem": [{ "purpose": "upload", "subject": "s7", "token": minted["token"] }],
        "jobs": [{ "queue": "media", "kind": "video", "payload_from_grant": true }],
    });
    let done = run(&["command", "submit", "-", "--json", "--key", "k"], &body.to_string()).exits(0);
    let done: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(json(&["job", "show", text(&done["jobs"][0]["id"])])["payload"], json!([1]));
    assert_eq!(json(&["grant", "list"])["items"][0]["state"], "redeemed");

    let listed = json(&["journal", "list"]);
    let listed: Vec<Value> =
        listed["items"].as_array().unwrap().iter().map(|event| json!([event["position"], event["kind"]])).collect();
    let printed = json(&["journal", "query"]);
    assert_eq!(printed["engine"], "postgres");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let rows: Vec<(i64, String)> = runtime.block_on(async {
        let mut conn = PgConnection::connect(&url).await.unwrap();
        let sql = text(&printed["sql"]).trim_end().trim_end_matches(';');
        let sql = sqlx::AssertSqlSafe(format!("SELECT position::bigint, kind FROM ({sql}) AS events"));
        sqlx::query_as(sql).fetch_all(&mut conn).await.unwrap()
    });
    assert_eq!(rows.into_iter().map(|(position, kind)| json!([position, kind])).collect::<Vec<_>>(), listed);

    let before = json(&["budget", "show", "a"]);
    assert_eq!(json(&["verify"])["ok"], true);
    assert_eq!(json(&["rebuild", "--yes"])["events"], listed.len());
    assert_eq!(json(&["budget", "show", "a"]), before);
    // The tests' PostgreSQL server runs with fsync=off, which the doctor reports.
    assert!(run(&["doctor"], "").exits(1).out.contains("fsync is off"));
    for component in ["clock", "journal", "balances"] {
        run(&["doctor", "--component", component], "").exits(0);
    }
}
