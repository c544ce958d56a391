//! What the shape of a journal row costs: `cargo bench -p bursar-store --bench journal_shape`.
//!
//! The journal of 500 metered commands a transaction is encoded and written, and nothing else, in four shapes, durably.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bursar_core::budget::Limit;
use bursar_core::decide::Rules;
use bursar_core::event::{Batch, Entry};
use bursar_core::grant::Token;
use bursar_core::id::{BatchId, GrantId, IdSource};
use bursar_core::job::JobSpec;
use bursar_core::name::{IdempotencyKey, JobKind, Purpose, Queue, Scope, Subject};
use bursar_core::payload::Payload;
use bursar_core::request::{Charge, Command, Mint, Op, Redemption, Request, Settle};
use bursar_core::time::{Span, Time};
use bursar_core::window::Window;
use bursar_store::conformance::CommitRequests;
use bursar_store::prelude::*;
use bursar_store::{LockPolicy, ManualClock, MemoryStore, RequestOutcome, Setup};
use bursar_testkit::{Cluster, RandomIds};
use sqlx::{Connection, PgConnection};

const COMMANDS: usize = 500;
const TRANSACTIONS: usize = 200;
const ROUNDS: usize = 5;
const NOW: Time = Time::from_micros(1_794_823_200_000_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Event,
    Command,
    Transaction,
    Binary,
}

const SHAPES: [(Shape, &str); 4] = [
    (Shape::Event, "one JSON row an event"),
    (Shape::Command, "one JSON row a command"),
    (Shape::Transaction, "one JSON row a transaction"),
    (Shape::Binary, "one binary row a transaction"),
];

/// A round: commands a second, and bytes a command that are stored in the end.
type Round = (f64, f64);

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let batches = runtime.block_on(batches());
    let cluster = Cluster::start(true);
    let mut rounds: BTreeMap<(&str, usize), Vec<Round>> = BTreeMap::new();
    // Shapes take turns, so that a noisy minute is not one shape's alone.
    for _ in 0..ROUNDS {
        for (place, (shape, _)) in SHAPES.iter().enumerate() {
            rounds.entry(("SQLite", place)).or_default().push(sqlite(&batches, *shape));
            let round = runtime.block_on(postgres(&cluster, &batches, *shape));
            rounds.entry(("PostgreSQL", place)).or_default().push(round);
        }
    }
    println!(
        "| engine | shape | commands/s, median (least to most) | bytes a command | speed to one JSON row a transaction |"
    );
    println!("| --- | --- | --- | --- | --- |");
    for engine in ["SQLite", "PostgreSQL"] {
        let base = median(&rounds[&(engine, 2)]);
        for (place, (_, name)) in SHAPES.iter().enumerate() {
            let all = &rounds[&(engine, place)];
            let (speed, bytes) = median(all);
            let least = all.iter().map(|round| round.0).fold(f64::MAX, f64::min);
            let most = all.iter().map(|round| round.0).fold(0.0, f64::max);
            println!(
                "| {engine} | {name} | {speed:.0} ({least:.0} to {most:.0}) | {bytes:.0} | {:.2} |",
                speed / base.0
            );
        }
    }
}

fn median(rounds: &[Round]) -> Round {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    sorted[sorted.len() / 2]
}

/// Real transactions of metered commands: a hold that a job owns, a redeemed grant, an idempotency key.
async fn batches() -> Vec<Batch> {
    let ids = Arc::new(Mutex::new(RandomIds::new(1)));
    let clock = Some(Arc::new(ManualClock::at(NOW)) as Arc<_>);
    let store = MemoryStore::new(Setup { rules: Rules::default(), clock, ids, migrate: true });
    let mut own = RandomIds::new(2);
    let mut batches = Vec::new();
    for round in 0..4 {
        let (mut mints, mut commands) = (Vec::new(), Vec::new());
        for place in 0..COMMANDS {
            let (mint, command) = metered(GrantId(own.next_id(NOW)), &format!("{round}-{place}"));
            mints.push(Arc::new(mint));
            commands.push(Arc::new(command));
        }
        for requests in [mints, commands] {
            let verdicts = store.commit_requests(&requests, LockPolicy::Skip).await.unwrap();
            assert!(verdicts.iter().all(|verdict| matches!(verdict, RequestOutcome::Answered(Ok(_)))));
        }
        batches.push(store.list_journal(0, 100).await.unwrap().pop().unwrap().batch);
    }
    batches
}

fn metered(grant: GrantId, unique: &str) -> (Request, Request) {
    let token = Token::new(grant, [7; 32]);
    let (purpose, subject) = (Purpose::new("upload").unwrap(), Subject::new("user-1").unwrap());
    let redemption = Redemption::new(purpose.clone(), subject.clone(), &token.reveal()).unwrap();
    let (id, digest, payload) = (token.id(), token.digest(), Payload::of(&"asset").unwrap());
    let mint = Mint { id, digest, purpose, subject, payload, ttl: Span::from_secs(3_600) };
    let scope = Scope::new(format!("agent:{}", unique.len())).unwrap();
    let charge = Charge::new(scope, 1).within([Limit::new(1_000_000, Window::Lifetime)]);
    let job = JobSpec::new(Queue::new("renders").unwrap(), JobKind::new("video").unwrap(), Payload::default());
    let command = Command {
        charges: vec![charge],
        settle: Settle::Job,
        redeem: vec![redemption],
        jobs: vec![job],
        ..Command::default()
    };
    let key = IdempotencyKey::new(unique).unwrap();
    (Op::Mint(mint).into(), Request::from(Op::Submit(command)).with_key(key))
}

/// What one transaction writes: links to earlier transactions and what was done, in each row its share.
fn encode(batch: &Batch, shape: Shape) -> Vec<(Vec<u8>, Vec<u8>)> {
    let rows: Vec<Vec<Arc<Entry>>> = match shape {
        Shape::Transaction | Shape::Binary => vec![batch.entries.clone()],
        Shape::Command => batch.entries.iter().map(|entry| vec![entry.clone()]).collect(),
        Shape::Event => {
            let single = |entry: &Arc<Entry>| {
                let events =
                    entry.events.iter().map(|event| Entry { events: vec![event.clone()], ..(**entry).clone() });
                events.map(|entry| vec![Arc::new(entry)]).collect::<Vec<_>>()
            };
            batch.entries.iter().flat_map(single).collect()
        }
    };
    let share = batch.prev.iter().len().div_ceil(rows.len()).max(1);
    let prev: Vec<(&str, BatchId)> = batch.prev.iter().collect();
    let mut shares = prev.chunks(share);
    let encoded = rows.into_iter().map(|entries| {
        let prev: BTreeMap<_, _> = shares.next().unwrap_or_default().iter().copied().collect();
        if shape == Shape::Binary {
            return (postcard::to_stdvec(&prev).unwrap(), postcard::to_stdvec(&entries).unwrap());
        }
        (serde_json::to_vec(&prev).unwrap(), serde_json::to_vec(&entries).unwrap())
    });
    encoded.collect()
}

fn sqlite(batches: &[Batch], shape: Shape) -> Round {
    let folder = tempfile::tempdir().unwrap();
    let mut conn = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    let kind = if shape == Shape::Binary { "BLOB" } else { "TEXT" };
    let setup = format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE journal (position INTEGER PRIMARY KEY,
         at INTEGER NOT NULL, count INTEGER NOT NULL, prev {kind} NOT NULL, entries {kind} NOT NULL) STRICT"
    );
    conn.execute_batch(&setup).unwrap();
    let begun = Instant::now();
    let mut position = 0_i64;
    for batch in batches.iter().cycle().take(TRANSACTIONS) {
        let tx = conn.transaction().unwrap();
        let mut insert = tx.prepare_cached("INSERT INTO journal VALUES (?1, ?2, ?3, ?4, ?5)").unwrap();
        for (prev, entries) in encode(batch, shape) {
            position += 1;
            if shape == Shape::Binary {
                insert.execute((position, NOW.micros(), 1, prev, entries)).unwrap();
            } else {
                let (prev, entries) = (String::from_utf8(prev).unwrap(), String::from_utf8(entries).unwrap());
                insert.execute((position, NOW.micros(), 1, prev, entries)).unwrap();
            }
        }
        drop(insert);
        tx.commit().unwrap();
    }
    let took = begun.elapsed();
    let pages = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
    let bytes: i64 = conn.query_row(pages, [], |row| row.get(0)).unwrap();
    rated(took.as_secs_f64(), bytes)
}

async fn postgres(cluster: &Cluster, batches: &[Batch], shape: Shape) -> Round {
    let mut conn = PgConnection::connect(&cluster.fresh_database()).await.unwrap();
    let kind = if shape == Shape::Binary { "bytea" } else { "text" };
    let table = format!(
        "CREATE TABLE journal (id uuid PRIMARY KEY, at bigint NOT NULL, count integer NOT NULL, prev {kind} NOT NULL,
         entries {kind} NOT NULL)"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(table)).execute(&mut conn).await.unwrap();
    let insert = format!(
        "INSERT INTO journal SELECT w.id, $4, 1, w.prev, w.entries
         FROM unnest($1::uuid[], $2::{kind}[], $3::{kind}[]) AS w(id, prev, entries)"
    );
    let mut ids = RandomIds::new(3);
    let begun = Instant::now();
    for batch in batches.iter().cycle().take(TRANSACTIONS) {
        let (prev, entries): (Vec<Vec<u8>>, Vec<Vec<u8>>) = encode(batch, shape).into_iter().unzip();
        let ids: Vec<_> = prev.iter().map(|_| uuid::Uuid::from_u128(ids.next_id(NOW))).collect();
        let query = sqlx::query(sqlx::AssertSqlSafe(insert.clone())).bind(ids);
        let text = |all: Vec<Vec<u8>>| all.into_iter().map(|own| String::from_utf8(own).unwrap()).collect::<Vec<_>>();
        let query = match shape {
            Shape::Binary => query.bind(prev).bind(entries),
            _ => query.bind(text(prev)).bind(text(entries)),
        };
        query.bind(NOW.micros()).execute(&mut conn).await.unwrap();
    }
    let took = begun.elapsed();
    let bytes: i64 = sqlx::query_scalar("SELECT pg_total_relation_size('journal')").fetch_one(&mut conn).await.unwrap();
    rated(took.as_secs_f64(), bytes)
}

fn rated(seconds: f64, bytes: i64) -> Round {
    let commands = (COMMANDS * TRANSACTIONS) as f64;
    (commands / seconds, bytes as f64 / commands)
}
