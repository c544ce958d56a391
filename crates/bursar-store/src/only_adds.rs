//! The rule for steps of the schema: a process of an earlier version goes on after them.

/// Returns whether every statement of a step only adds to the tables. An earlier version names its columns, so what is added must not need
/// a value.
pub(crate) fn only_adds(step: &str) -> Result<(), String> {
    let sql: Vec<&str> = step.lines().filter(|line| !line.starts_with("--")).collect();
    match sql.join(" ").split(';').find(|statement| !adds(statement)) {
        Some(statement) => Err(format!("a process of an earlier version cannot go on after: {statement}")),
        None => Ok(()),
    }
}

fn adds(statement: &str) -> bool {
    let words: Vec<&str> = statement.split_whitespace().collect();
    match words.as_slice() {
        [] | ["CREATE", "TABLE" | "INDEX", ..] | ["UPDATE", "bursar.meta", ..] => true,
        ["ALTER", "TABLE", _, "ADD", "COLUMN", ..] => {
            !statement.contains("NOT NULL") || statement.contains(" DEFAULT ")
        }
        _ => false,
    }
}

#[test]
fn a_step_that_takes_something_away_is_found() {
    assert_eq!(only_adds("-- A note.\nCREATE TABLE a (b int); ALTER TABLE a ADD COLUMN c int;"), Ok(()));
    for step in ["DROP TABLE a", "ALTER TABLE a ADD COLUMN c int NOT NULL", "ALTER TABLE a DROP COLUMN c"] {
        assert!(only_adds(step).unwrap_err().ends_with(step), "{step}");
    }
}
