//! Requests, a scripted sequence of them, and views of the server's state for the tests of PostgreSQL.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar_core::answer::{Answer, Outcome};
use bursar_core::budget::{Budget, Limit};
use bursar_core::decide::Rules;
use bursar_core::grant::Token;
use bursar_core::id::{CommandId, GrantId, HoldId, IdSource};
use bursar_core::job::JobSpec;
use bursar_core::name::{IdempotencyKey, JobKind, Purpose, Queue, Scope, Subject, Tenant};
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Actual, Charge, Command, Mint, Op, Redemption, Request, Settle};
use bursar_core::state::ScopeKey;
use bursar_core::time::{Span, Time};
use bursar_core::window::Window;
use bursar_store::conformance::CommitRequests;
use bursar_store::{LockPolicy, ManualClock, PostgresOptions, PostgresStore, RequestOutcome, Setup, Store, StoreError};
use bursar_testkit::{SeqIds, fresh_database};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Time::from_micros(1_700_000_000_000_000)))
}

/// A setup that uses the clock of the database.
pub(crate) fn setup(seed: u64) -> Setup {
    Setup { rules: Rules::default(), clock: None, ids: Arc::new(Mutex::new(SeqIds::new(seed))), migrate: true }
}

pub(crate) fn timed(seed: u64, clock: &Arc<ManualClock>) -> Setup {
    Setup { clock: Some(clock.clone()), ..setup(seed) }
}

pub(crate) async fn open(seed: u64) -> (PostgresStore, String) {
    open_with(seed, PostgresOptions::default()).await
}

pub(crate) async fn open_with(seed: u64, options: PostgresOptions) -> (PostgresStore, String) {
    let url = fresh_database();
    (PostgresStore::open(&url, setup(seed), options).await.unwrap(), url)
}

pub(crate) async fn open_timed(seed: u64, clock: &Arc<ManualClock>) -> (PostgresStore, String) {
    let url = fresh_database();
    (PostgresStore::open(&url, timed(seed, clock), PostgresOptions::default()).await.unwrap(), url)
}

pub(crate) fn scope(name: &str) -> Scope {
    Scope::new(name).unwrap()
}

pub(crate) fn scope_key(name: &str) -> ScopeKey {
    (Tenant::built_in(), scope(name))
}

pub(crate) fn key(name: &str) -> IdempotencyKey {
    IdempotencyKey::new(name).unwrap()
}

pub(crate) fn post(name: &str, amount: i64) -> Request {
    Op::Submit(Command { charges: vec![Charge::new(scope(name), amount)], ..Command::default() }).into()
}

pub(crate) fn post_within(name: &str, amount: i64, limit: i64) -> Request {
    let charge = Charge::new(scope(name), amount).within([Limit::new(limit, Window::Lifetime)]);
    Op::Submit(Command { charges: vec![charge], ..Command::default() }).into()
}

pub(crate) fn hold(name: &str, amount: i64) -> Request {
    let charges = vec![Charge::new(scope(name), amount)];
    Op::Submit(Command { charges, settle: Settle::Hold { ttl: None }, ..Command::default() }).into()
}

fn spec(unique: &str, payload: &str) -> JobSpec {
    let spec =
        JobSpec::new(Queue::new("renders").unwrap(), JobKind::new("video").unwrap(), Payload::of(&payload).unwrap());
    JobSpec { idempotency_key: Some(key(unique)), ..spec }
}

pub(crate) fn job(unique: &str) -> Request {
    job_with(unique, "small")
}

pub(crate) fn job_with(unique: &str, payload: &str) -> Request {
    Op::Submit(Command { jobs: vec![spec(unique, payload)], ..Command::default() }).into()
}

/// A hold, a redemption, a job and a key at once.
pub(crate) fn full_command(name: &str, amount: i64, redemption: Redemption, unique: &str) -> Request {
    let command = Command {
        charges: vec![Charge::new(scope(name), amount)],
        settle: Settle::Hold { ttl: None },
        redeem: vec![redemption],
        jobs: vec![spec(unique, "small")],
        ..Command::default()
    };
    Request::from(Op::Submit(command)).with_key(key(unique))
}

fn minting(id: u128, payload: &str) -> (Request, Redemption) {
    let token = Token::new(GrantId(id), [7; 32]);
    let (purpose, subject) = (Purpose::new("upload").unwrap(), Subject::new("bob").unwrap());
    let mint = Mint {
        id: token.id(),
        digest: token.digest(),
        purpose: purpose.clone(),
        subject: subject.clone(),
        payload: Payload::of(&payload).unwrap(),
        ttl: Span::from_secs(3_600),
    };
    (Op::Mint(mint).into(), Redemption::new(purpose, subject, &token.reveal()).unwrap())
}

/// Mints a grant. Returns its id and its redemption.
pub(crate) async fn mint(store: &impl Store) -> (GrantId, Redemption) {
    static IDS: Mutex<Option<SeqIds>> = Mutex::new(None);
    let id =
        IDS.lock().unwrap().get_or_insert_with(|| SeqIds::new(99)).next_id(Time::from_micros(1_700_000_000_000_000));
    let (request, redemption) = minting(id, "granted");
    done(one(store, &request).await);
    (GrantId(id), redemption)
}

pub(crate) fn redeem(redemption: Redemption) -> Request {
    Op::Submit(Command { redeem: vec![redemption], ..Command::default() }).into()
}

/// Defines budgets in one batch.
pub(crate) async fn define(store: &impl Store, names: &[&str], limit: i64) {
    let requests = names.iter().map(|name| {
        let budget = Budget::new([Limit::new(limit, Window::Lifetime)]);
        Arc::new(Op::Define { scope: scope(name), budget }.into())
    });
    done_all(store.commit_requests(&requests.collect::<Vec<_>>(), LockPolicy::Skip).await);
}

/// Commits one request, and submits it again until it is answered.
pub(crate) async fn one(store: &impl Store, request: &Request) -> Result<Outcome, Refusal> {
    let request = Arc::new(request.clone());
    loop {
        let wait = LockPolicy::Skip;
        match store.commit_requests(std::slice::from_ref(&request), wait).await.unwrap().remove(0) {
            RequestOutcome::Answered(answer) => return answer,
            RequestOutcome::Again | RequestOutcome::Blocked(_) | RequestOutcome::Failed(_) => {}
        }
    }
}

pub(crate) fn done(answer: Result<Outcome, Refusal>) -> Answer {
    answer.expect("the request succeeds").answer
}

pub(crate) fn done_all(outcomes: Result<Vec<RequestOutcome>, StoreError>) {
    for outcome in outcomes.unwrap() {
        assert!(matches!(outcome, RequestOutcome::Answered(Ok(_))), "{outcome:?}");
    }
}

pub(crate) fn hold_of(outcome: &RequestOutcome) -> HoldId {
    match outcome {
        RequestOutcome::Answered(Ok(Outcome { answer: Answer::Submitted(submitted), .. })) => {
            submitted.hold.as_ref().expect("a hold").id
        }
        other => panic!("{other:?}"),
    }
}

/// A step of a story. A hold is given by its place among all holds so far.
pub(crate) enum Step {
    Ask(Box<Request>),
    OfHold(usize, fn(HoldId) -> Op),
}

/// A sequence of requests of all kinds. Each element is a batch.
pub(crate) fn story() -> Vec<Vec<Step>> {
    let rolling = Limit::new(500, Window::rolling(std::time::Duration::from_secs(20)).unwrap());
    let limits = || [Limit::new(1_000, Window::Lifetime), rolling.clone()];
    let org = Op::Define { scope: scope("org"), budget: Budget::new(limits()) };
    let under = Budget { thresholds: vec![50], ..Budget::new(limits()) }.under(scope("org"));
    let agent = Op::Define { scope: scope("agent"), budget: under };
    let large = "x".repeat(5_000);
    let (mint_large, redeem_large) = minting(1 << 80, &large);
    let (mint_small, redeem_small) = minting(2 << 80, "small");
    let mut from_grant = full_command("agent", 20, redeem_large, "large");
    if let Op::Submit(command) = &mut from_grant.op {
        command.jobs[0].payload_from_grant = true;
        command.settle = Settle::Job;
    }
    let ask = |request| Step::Ask(Box::new(request));
    vec![
        vec![ask(org.into())],
        vec![ask(agent.into()), ask(mint_large), ask(mint_small)],
        vec![ask(from_grant.clone()), ask(hold("agent", 100)), ask(from_grant.clone()), ask(hold("agent", 9_999))],
        vec![ask(from_grant), ask(full_command("agent", 30, redeem_small.clone(), "small"))],
        vec![ask(full_command("agent", 30, redeem_small, "again")), ask(post_within("other", 7, 10))],
        vec![Step::OfHold(1, |hold| Op::Extend { hold, by: Span::from_secs(30) }), ask(post("agent", 300))],
        vec![Step::OfHold(1, |hold| Op::Commit { hold, actual: Actual::Amount(150) })],
        vec![Step::OfHold(1, |hold| Op::Release { hold }), ask(post("missing", 1))],
        vec![ask(post("agent", 60)), ask(Op::Freeze { scope: scope("other") }.into())],
        vec![ask(post_within("other", 1, 10)), ask(Op::Credit { scope: scope("agent"), amount: 5, hold: None }.into())],
        vec![Step::OfHold(0, |hold| Op::Release { hold }), ask(job("large")), ask(job("tail"))],
    ]
}

/// Commits a batch of steps and returns the answers as text, with ids numbered in order of appearance.
pub(crate) async fn run_steps(store: &impl Store, steps: &[Step]) -> Vec<String> {
    let holds: Vec<HoldId> = store
        .list_journal(0, 1_000)
        .await
        .unwrap()
        .iter()
        .flat_map(|row| &row.batch.entries)
        .flat_map(|entry| &entry.events)
        .filter_map(|recorded| match recorded.e {
            bursar_core::event::Event::HoldPlaced { hold, .. } => Some(hold),
            _ => None,
        })
        .collect();
    let requests: Vec<Arc<Request>> = steps
        .iter()
        .map(|step| match step {
            Step::Ask(request) => Arc::new((**request).clone()),
            Step::OfHold(place, op) => Arc::new(op(holds[*place]).into()),
        })
        .collect();
    let outcomes = store.commit_requests(&requests, LockPolicy::Skip).await.unwrap();
    outcomes.iter().map(plain).collect()
}

/// Formats a value with ids numbered in order of appearance, because two stores draw different ids.
pub(crate) fn plain(value: &impl std::fmt::Debug) -> String {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let text = format!("{value:#?}");
    let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let numbered = words.map(|word| {
        let (body, end) = word.split_at(word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_').len());
        match body.split_once('_') {
            Some((kind, digits)) if digits.len() == 26 => {
                let next = seen.len();
                format!("{kind}#{}{end}", seen.entry(body.into()).or_insert(next))
            }
            _ => word.into(),
        }
    });
    numbered.collect()
}

/// Returns the first command of each row of the journal after a position, with the row's position.
pub(crate) async fn commands(store: &impl Store, after: u64) -> Vec<(u64, CommandId)> {
    let rows = store.list_journal(after, 100).await.unwrap();
    rows.iter().map(|row| (row.position, row.batch.entries[0].id)).collect()
}

/// Waits until `count` transactions of the database wait for a lock.
pub(crate) async fn until_waiting(url: &str, count: i64) {
    let mut conn = PgConnection::connect(url).await.unwrap();
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let all_wait = async { while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut conn).await.unwrap() < count {} };
    tokio::time::timeout(Duration::from_secs(120), all_wait).await.expect("the transactions wait for a lock");
}

/// Returns every row of every table, in order, without scope rows that exist only to be locked.
pub(crate) async fn dump(url: &str) -> Vec<String> {
    let mut conn = PgConnection::connect(url).await.unwrap();
    let tables = [
        "SELECT s::text FROM bursar.scopes s WHERE version > 0 ORDER BY 1",
        "SELECT h::text FROM bursar.holds h ORDER BY 1",
        "SELECT c::text FROM bursar.live_charges c ORDER BY 1",
        "SELECT p::text FROM bursar.postings p ORDER BY 1",
        "SELECT r::text FROM bursar.rollups r ORDER BY 1",
        "SELECT g::text FROM bursar.grants g ORDER BY 1",
        "SELECT k::text FROM bursar.keys k ORDER BY 1",
        "SELECT k::text FROM bursar.job_keys k ORDER BY 1",
        "SELECT j::text FROM bursar.jobs j ORDER BY 1",
        "SELECT p::text FROM bursar.payloads p ORDER BY 1",
        "SELECT j::text FROM bursar.journal j ORDER BY 1",
    ];
    let mut rows = Vec::new();
    for table in tables {
        let of: Vec<String> = sqlx::query_scalar(table).fetch_all(&mut conn).await.unwrap();
        rows.extend(of.into_iter().map(|row| format!("{table}: {row}")));
    }
    rows
}

/// Counters of the server.
pub(crate) struct Counters {
    pub(crate) statements: i64,
    pub(crate) seq_scans: i64,
    /// Bytes of the write-ahead log without full-page images, whose number depends on the last checkpoint.
    pub(crate) wal: i64,
}

/// Reads the counters of a store with one connection, after that connection has flushed its statistics.
pub(crate) async fn counters(store: &PostgresStore, url: &str) -> Counters {
    sqlx::query("SELECT pg_stat_force_next_flush()").execute(store.pool()).await.unwrap();
    sqlx::query("SELECT 1").execute(store.pool()).await.unwrap();
    let mut conn = PgConnection::connect(url).await.unwrap();
    let seq_scans = "SELECT sum(seq_scan)::bigint FROM pg_stat_user_tables WHERE schemaname = 'bursar'
                     AND relname NOT IN ('journal_new', 'meta')";
    let statements = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements s
                      JOIN pg_database d ON d.oid = s.dbid
                      WHERE d.datname = current_database() AND query !~ 'pg_stat|SELECT \\$1$'";
    let wal = "SELECT coalesce(sum(greatest(wal_bytes - wal_fpi * 8192, 0)), 0)::bigint FROM pg_stat_statements s
               JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = current_database()";
    Counters {
        statements: sqlx::query_scalar(statements).fetch_one(&mut conn).await.unwrap(),
        seq_scans: sqlx::query_scalar(seq_scans).fetch_one(&mut conn).await.unwrap(),
        wal: sqlx::query_scalar(wal).fetch_one(&mut conn).await.unwrap(),
    }
}

/// A barrier in a table: a statement that writes to it and contains a given text waits, with its snapshot taken, until the barrier
/// is lifted.
pub(crate) struct Barrier(PgConnection);

impl Barrier {
    pub(crate) async fn before(table: &str, text: &str, url: &str) -> Barrier {
        let mut conn = PgConnection::connect(url).await.unwrap();
        let sql = format!(
            "CREATE FUNCTION wait_here() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF current_query() LIKE '%{text}%' THEN PERFORM pg_advisory_xact_lock(4711); END IF; RETURN NULL; END $$;
             CREATE TRIGGER barrier BEFORE INSERT OR UPDATE OR DELETE ON {table}
                 FOR EACH STATEMENT EXECUTE FUNCTION wait_here();
             SELECT pg_advisory_lock(4711)"
        );
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
        Barrier(conn)
    }

    pub(crate) async fn lift(mut self) {
        sqlx::raw_sql("SELECT pg_advisory_unlock(4711)").execute(&mut self.0).await.unwrap();
    }
}
