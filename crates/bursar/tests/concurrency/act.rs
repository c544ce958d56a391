//! The actions of a crew's member. The same code runs in a task and in a process.

use std::sync::Mutex;
use std::sync::mpsc;
use std::time::Duration;

use bursar::{Actual, Bursar, Error, HoldId, JobKind, JobSpec, Payload, Queue, Refusal};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;

/// An action of a member.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Act {
    /// Places `count` holds at the same time.
    Hold {
        scope: String,
        amount: i64,
        ttl_ms: u64,
        count: usize,
    },
    /// Makes `count` postings at the same time.
    Post {
        scope: String,
        amount: i64,
        count: usize,
    },
    /// Holds on two scopes together and releases the hold, `count` times in sequence.
    Pair {
        first: String,
        second: String,
        count: usize,
    },
    Commit {
        hold: HoldId,
        actual: i64,
    },
    Release {
        hold: HoldId,
    },
    Sweep,
    /// Redeems every token.
    Redeem {
        tokens: Vec<String>,
    },
    /// Charges, redeems a token and enqueues a job in the member's own transaction, which then ends as given.
    Own {
        scope: String,
        token: String,
        job: String,
        end: End,
    },
    /// Posts in a transaction that stays open.
    Open {
        scope: String,
        amount: i64,
    },
    /// Commits that transaction.
    Close,
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    Commit,
    Rollback,
    Die,
}

/// The result of an action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) done: usize,
    pub(crate) refused: usize,
    pub(crate) late: usize,
    pub(crate) holds: Vec<HoldId>,
    pub(crate) errors: Vec<String>,
}

impl Report {
    fn count<T>(&mut self, answer: Result<T, Error>) -> Option<T> {
        match answer {
            Ok(answer) => {
                self.done += 1;
                return Some(answer);
            }
            Err(Error::Refused(Refusal::Refused(_))) => self.refused += 1,
            Err(error) => self.errors.push(error.to_string()),
        }
        None
    }
}

/// A member of a crew, with an instance of Bursar and possibly an open transaction.
pub(crate) struct Member {
    pub(crate) bursar: Bursar,
    pub(crate) url: String,
    open: Mutex<Option<Open>>,
}

enum Open {
    Postgres(Box<PgConnection>),
    Sqlite(mpsc::Sender<()>, tokio::task::JoinHandle<Result<(), Error>>),
}

impl Member {
    pub(crate) fn new(bursar: Bursar, url: String) -> Member {
        Member { bursar, url, open: Mutex::default() }
    }

    pub(crate) async fn act(&self, act: Act) -> Report {
        let mut report = Report::default();
        let ledger = self.bursar.ledger();
        match act {
            Act::Hold { scope, amount, ttl_ms, count } => {
                let ttl = Duration::from_millis(ttl_ms);
                let all = at_once(count, &self.bursar, move |bursar| {
                    let scope = scope.clone();
                    async move { bursar.command().charge(&scope, amount).hold_for(ttl).submit().await }
                });
                for answer in all.await {
                    let placed = report.count(answer).and_then(|receipt| receipt.done.hold);
                    report.holds.extend(placed.map(|hold| hold.id));
                }
            }
            Act::Post { scope, amount, count } => {
                let all = at_once(count, &self.bursar, move |bursar| {
                    let scope = scope.clone();
                    async move { bursar.ledger().post(&scope, amount).await.map(drop) }
                });
                for answer in all.await {
                    report.count(answer);
                }
            }
            Act::Pair { first, second, count } => {
                for _ in 0..count {
                    let placed = self.bursar.command().charge(&first, 1).charge(&second, 1).hold().submit_held().await;
                    let settled = match placed {
                        Ok((held, _)) => held.release("the next one").await.map_err(Error::from),
                        Err(error) => Err(error),
                    };
                    report.count(settled);
                }
            }
            Act::Commit { hold, actual } => {
                let settled = report.count(ledger.commit(hold, Actual::Amount(actual)).await);
                report.late += usize::from(settled.is_some_and(|settled| settled.late));
            }
            Act::Release { hold } => drop(report.count(ledger.release(hold, "requested").await)),
            Act::Sweep => {
                let swept = self.bursar.sweep(500).await;
                report.done = swept.as_ref().map_or(0, |swept| swept.expired_count);
                report.errors.extend(swept.err().map(|error| error.to_string()));
            }
            Act::Redeem { tokens } => {
                for token in tokens {
                    report.count(self.bursar.grants().redeem("upload", "session", &token).await);
                }
            }
            Act::Own { scope, token, job, end } => {
                let answer = if self.url.starts_with("sqlite") {
                    self.own_sqlite(scope, token, job, end).await
                } else {
                    self.own_postgres(&scope, &token, &job, end).await
                };
                report.count(answer);
            }
            Act::Open { scope, amount } => drop(report.count(self.open(scope, amount).await)),
            Act::Close => drop(report.count(self.close().await)),
        }
        report
    }

    async fn own_sqlite(&self, scope: String, token: String, job: String, end: End) -> Result<(), Error> {
        let bursar = self.bursar.clone();
        let done = self.bursar.transaction(move |tx| {
            let command = bursar.command().charge(&scope, 10).redeem("upload", "session", &token).job(spec(&job));
            tx.submit(command)?;
            match end {
                End::Commit => Ok(()),
                End::Rollback => Err(Error::Internal("rolled back as requested".into())),
                End::Die => die(),
            }
        });
        match done.await {
            Err(Error::Internal(text)) if text == "rolled back as requested" => Ok(()),
            other => other,
        }
    }

    async fn own_postgres(&self, scope: &str, token: &str, job: &str, end: End) -> Result<(), Error> {
        let mut conn = connect(&self.url).await;
        let mut tx = conn.begin().await.expect("a transaction begins");
        let command = self.bursar.command().charge(scope, 10).redeem("upload", "session", token).job(spec(job));
        let receipt = command.submit_in(&mut tx).await?;
        match end {
            End::Commit => {
                tx.commit().await.expect("the transaction commits");
                self.bursar.announce([&receipt]);
            }
            End::Rollback => tx.rollback().await.expect("the transaction rolls back"),
            End::Die => die(),
        }
        Ok(())
    }

    async fn open(&self, scope: String, amount: i64) -> Result<(), Error> {
        let bursar = self.bursar.clone();
        let opened = if self.url.starts_with("sqlite") {
            let (ready, is_ready) = tokio::sync::oneshot::channel();
            let (end, ended) = mpsc::channel();
            let task = tokio::spawn(async move {
                let owner = bursar.clone();
                let work = move |tx: &mut bursar::Transaction<'_, '_>| {
                    tx.submit(owner.command().charge(&scope, amount))?;
                    let _ = ready.send(());
                    let _ = ended.recv();
                    Ok(())
                };
                bursar.transaction_within(Duration::from_secs(60), work).await
            });
            let _ = is_ready.await;
            Open::Sqlite(end, task)
        } else {
            let mut conn = connect(&self.url).await;
            sqlx::raw_sql("BEGIN").execute(&mut conn).await.expect("a transaction begins");
            bursar.command().charge(&scope, amount).submit_in(&mut conn).await?;
            Open::Postgres(Box::new(conn))
        };
        *self.open.lock().expect("no thread panicked with the lock") = Some(opened);
        Ok(())
    }

    async fn close(&self) -> Result<(), Error> {
        let open = self.open.lock().expect("no thread panicked with the lock").take();
        match open.expect("a transaction is open") {
            Open::Postgres(mut conn) => {
                sqlx::raw_sql("COMMIT").execute(&mut *conn).await.expect("the transaction commits");
                Ok(())
            }
            Open::Sqlite(end, task) => {
                drop(end);
                task.await.expect("the task does not panic")
            }
        }
    }
}

/// Connects without a parameter that PgBouncer rejects.
async fn connect(url: &str) -> PgConnection {
    let options: PgConnectOptions = url.parse().expect("a URL");
    PgConnection::connect_with(&options.extra_float_digits(None)).await.expect("the cluster runs")
}

/// Ends the process as a power loss would: no destructor runs.
fn die() -> ! {
    std::process::abort()
}

fn spec(key: &str) -> JobSpec {
    let mut job = JobSpec::new(Queue::new("media").unwrap(), JobKind::new("video").unwrap(), Payload::default());
    job.idempotency_key = Some(key.try_into().unwrap());
    job
}

async fn at_once<T, F>(count: usize, bursar: &Bursar, work: impl Fn(Bursar) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        tasks.spawn(work(bursar.clone()));
    }
    tasks.join_all().await
}
