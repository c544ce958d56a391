//! The journal, by the program and by SQL.

use serde_json::{Value, json};

use crate::place::{Place, text};

#[test]
fn the_journal_can_be_paged_filtered_and_queried_with_sql() {
    let place = Place::ready();
    place.run(&["dev", "--no-serve"]).ends(0);
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
    let postgres = place.run(&["--database", "postgres://localhost/x", "journal", "query"]).ends(0);
    assert!(postgres.out.contains("bursar.journal_order"));
}
