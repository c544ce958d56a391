//! Every bench with every baseline, for a short time, on both engines.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use bursar_bench::{BenchError, Engine, Line, Options, Told};
use serde_json::Value;
use sqlx::{Connection, PgConnection};

const FIELDS: [&str; 15] = [
    "bench",
    "engine",
    "callers",
    "scopes",
    "jobs",
    "history_rows",
    "backlog",
    "per_second",
    "p50_ms",
    "p99_ms",
    "baseline",
    "baseline_per_second",
    "ratio",
    "fsync_ms",
    "rss_mb",
];

fn short(bench: &str, database: &str) -> Options {
    Options {
        bench: Some(bench.parse().unwrap()),
        database: Some(database.to_owned()),
        callers: Some(3),
        scopes: Some(2),
        seconds: Some(0.2),
        rounds: Some(1),
        ..Options::default()
    }
}

fn lines(options: &Options) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut descriptions = 0;
    let done = bursar_bench::run(options, &mut |output| match output {
        Told::Line(line) => lines.push(*line),
        Told::Place(text) => {
            descriptions += 1;
            assert!(text.starts_with("machine: ") || text.contains("one fsync takes"), "{text}");
        }
        Told::Note(text) => println!("{text}"),
    });
    done.unwrap();
    assert_eq!(descriptions, 2, "the machine and the engine are described");
    lines
}

/// Checks what holds for a result on any machine.
fn check(line: &Line, baseline: Option<&str>) {
    let json: Value = serde_json::to_value(line).unwrap();
    for field in FIELDS {
        assert!(json.get(field).is_some(), "{field} is missing in {json}");
    }
    assert!(line.per_second > 0.0 && line.p50_ms > 0.0 && line.p99_ms >= line.p50_ms, "{json}");
    // The test server has `fsync` off, so that its commits may take no longer than its queries.
    let synced = line.fsync_ms > 0.0 || (line.engine == Engine::Postgres && line.fsync_ms == 0.0);
    assert!(synced && line.rss_mb > 1.0, "{json}");
    assert!(line.spread[0] <= line.per_second && line.per_second <= line.spread[1], "{json}");
    assert_eq!(line.baseline, baseline);
    let Some(other) = line.baseline_per_second else {
        assert!(baseline.is_none() && line.ratio.is_none() && line.baseline_spread.is_none(), "{json}");
        return;
    };
    let ratio = line.ratio.unwrap();
    // Figures are rounded to a tenth, which matters for small ones.
    let rounding = ratio * (0.05 / other + 0.05 / line.per_second);
    assert!(other > 0.0 && (ratio - line.per_second / other).abs() <= rounding + 0.0001, "{json}");
}

fn every_bench(database: &str) {
    for bench in ["command", "hold", "settle"] {
        let usual = short(bench, database);
        let [line] = &lines(&usual)[..] else { panic!("one line") };
        check(line, Some("bulk-insert"));
        assert_eq!((line.bench.as_str(), line.callers, line.scopes, line.history_rows), (bench, 3, 2, 0));

        let baseline = Some("textbook".parse().unwrap());
        let [line] = &lines(&Options { baseline, history: Some(100), ..usual.clone() })[..] else { panic!("one line") };
        check(line, Some("textbook"));
        assert_eq!(line.history_rows, 100);
        assert!(
            line.baseline_history_rows > Some(100),
            "its operations count as history: {:?}",
            line.baseline_history_rows
        );

        let keys = Some("random".parse().unwrap());
        let long = Options { history: Some(333), keys, snapshot: true, ..usual.clone() };
        let [line] = &lines(&long)[..] else { panic!("one line") };
        check(line, Some("history-10k"));
        assert_eq!((line.history_rows, line.keys.as_str(), line.snapshot_held), (333, "random", true));

        let baseline = Some("bulk-insert".parse().unwrap());
        let [line] = &lines(&Options { baseline, history: Some(333), keys, ..usual })[..] else { panic!("one line") };
        check(line, Some("bulk-insert"));
    }
    for (bench, jobs, baseline) in [
        ("enqueue", None, Some("bulk-insert")),
        ("enqueue-bulk", Some(2_345), Some("bulk-insert")),
        ("drain", Some(2_345), None),
        ("drain-worker", Some(2_345), None),
        ("latency", Some(5), None),
    ] {
        let callers = if bench == "latency" { 1 } else { 3 };
        let usual = Options { scopes: None, callers: Some(callers), jobs, ..short(bench, database) };
        let [line] = &lines(&usual)[..] else { panic!("one line") };
        check(line, baseline);
        assert_eq!((line.bench.as_str(), line.callers, line.scopes, line.jobs), (bench, callers, 0, jobs));

        let backlog = (bench != "latency").then_some(1_234);
        let loaded = Options { history: Some(321), backlog, snapshot: true, ..usual };
        let [line] = &lines(&loaded)[..] else { panic!("one line") };
        check(line, Some("empty"));
        assert_eq!((line.history_rows, line.backlog, line.snapshot_held), (321, backlog.unwrap_or(0), true));
    }
    for bench in ["meter-slices", "meter"] {
        let [line] = &lines(&short(bench, database))[..] else { panic!("one line") };
        check(line, Some("unmetered"));
        assert_eq!((line.bench.as_str(), line.callers, line.scopes), (bench, 3, 2));
    }
    let alone = Options { baseline: Some("none".parse().unwrap()), ..short("meter", database) };
    let [line] = &lines(&alone)[..] else { panic!("one line") };
    check(line, None);
    let alone = Options { baseline: Some("none".parse().unwrap()), ..short("hold", database) };
    let [line] = &lines(&alone)[..] else { panic!("one line") };
    check(line, None);
}

#[test]
fn every_bench_runs_on_sqlite_and_cleans_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.db");
    std::fs::write(&path, "not to be touched").unwrap();
    every_bench(&format!("sqlite://{}", path.display()));
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["mine.db"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "not to be touched");
}

#[test]
fn every_bench_runs_on_postgres_and_cleans_up() {
    let url = bursar_testkit::fresh_database();
    every_bench(&url);
    // A measurement that fails cleans up as well.
    let refused = Options { callers: Some(0), ..short("hold", &url) };
    assert!(matches!(bursar_bench::run(&refused, &mut |_| {}), Err(BenchError::Usage(_))));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let left: (i64, i64) = runtime.block_on(async {
        let mut conn = PgConnection::connect(&url).await.unwrap();
        let left = "SELECT (SELECT count(*) FROM pg_database WHERE datname LIKE 'bursar_bench%'),
            (SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema'))";
        sqlx::query_as(left).fetch_one(&mut conn).await.unwrap()
    });
    assert_eq!(left, (0, 0));
}
