//! `bursar journal`, and the SQL query that it prints.

use serde_json::{Value, json};

use crate::workdir::{Workdir, text};

#[test]
fn the_journal_is_paged_filtered_and_queried_with_sql() {
    let dir = Workdir::ready();
    dir.run(&["dev", "--tour"]).exits(0);
    let all = dir.json(&["journal", "list"]);
    let items = all["items"].as_array().unwrap();
    let joined = |pages: [&Value; 2]| pages.map(|page| page["items"].as_array().unwrap().clone()).concat();
    let first = dir.json(&["journal", "list", "--after", "0", "--most", "3"]);
    let rest = dir.json(&["journal", "list", "--after", text(&first["next"])]);
    assert_eq!(&joined([&first, &rest]), items);
    // Without a position, the newest events are listed, in the same order.
    let newest = dir.json(&["journal", "list", "--most", "5"]);
    assert_eq!(newest["next"], items[3]["position"].to_string());
    let earlier = dir.json(&["journal", "list", "--before", text(&newest["next"])]);
    assert_eq!(&joined([&earlier, &newest]), items);
    let note = dir.run(&["journal", "list", "--most", "5"]).exits(0).err;
    assert_eq!(note, "the newest 5 events; earlier ones: --before 4; from the beginning: --after 0\n");
    let note = dir.run(&["journal", "list", "--most", "2", "--before", "4"]).exits(0).err;
    assert_eq!(note, "2 events before position 4; earlier ones: --before 2; from the beginning: --after 0\n");
    assert_eq!(dir.run(&["journal", "list", "--most", "8"]).exits(0).err, "", "these are all");
    let filtered = dir.json(&["journal", "list", "--kind", "budget", "--most", "2"]);
    let positions: Vec<&Value> = filtered["items"].as_array().unwrap().iter().map(|item| &item["position"]).collect();
    assert_eq!(positions, [2, 3]);
    dir.run(&["journal", "list", "--before", "4", "--after", "2"]).exits(2);
    assert_eq!(dir.json(&["journal", "list", "--kind", "budget"])["items"].as_array().unwrap().len(), 3);
    let agent = dir.json(&["journal", "list", "--stream", "scope:agent:acme-1/scout", "--kind", "hold.committed"]);
    assert_eq!(agent["items"][0]["data"]["charges"][0]["actual"], 320_000);
    assert!(agent["items"][0]["data"]["charges"][0]["balances"][0]["length_ms"].is_i64());

    let printed = dir.json(&["journal", "query"]);
    assert_eq!(printed["engine"], "sqlite");
    let database = dir.database();
    let mut query = database.prepare(text(&printed["sql"])).unwrap();
    let names = ["position", "at", "tenant", "kind", "version", "command"];
    let rows = query.query_map([], |row| {
        let number = |name: &str| row.get::<_, i64>(name).map(Value::from);
        let word = |name: &str| row.get::<_, String>(name).map(Value::from);
        let data: String = row.get("data")?;
        assert!(serde_json::from_str::<Value>(&data).unwrap().is_object());
        Ok(json!([
            number("position")?,
            word("at")?,
            word("tenant")?,
            word("kind")?,
            number("version")?,
            word("command")?
        ]))
    });
    let rows: Vec<Value> = rows.unwrap().map(Result::unwrap).collect();
    let expected: Vec<Value> = items.iter().map(|item| names.iter().map(|name| item[name].clone()).collect()).collect();
    assert_eq!(rows, expected);
    let postgres = dir.run(&["--database", "postgres://localhost/x", "journal", "query"]).exits(0);
    assert!(postgres.out.contains("bursar.journal_order"));
}
