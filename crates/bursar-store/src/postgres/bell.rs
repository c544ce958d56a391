//! How nodes hear of each other's work: `NOTIFY` after the commit, as a hint, to whoever listens.
//!
//! `NOTIFY` takes a lock of the whole cluster when it commits, so that it is no part of any transaction that works, and is left where
//! nobody listens: who listens holds an advisory lock, which whoever would notify looks for once a while. That a server takes a
//! `LISTEN` says little, as a pooler between may give the connection to somebody else: what listens is trusted once it has heard
//! a word that was said on another connection, and is tried again from time to time.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgListener, PgNotification, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};
use tokio::time::{Instant, timeout, timeout_at};

use super::error::store_error;
use super::no_answer;
use crate::error::StoreError;
use crate::hint::{Ear, Hint, Hints, UNHEARD};

/// Who listens holds this advisory lock, together with others who do.
const LISTENERS: (i32, i32) = (0x6275_7273, 3);
const CHANNEL: &str = "bursar";
/// With this a word begins that only tries whether it is heard.
const TRIAL: &str = "trial ";
/// How often that is tried …
const TRIAL_EVERY: Duration = Duration::from_secs(30);
/// … and how long the word may take.
const TRIAL_WITHIN: Duration = Duration::from_secs(5);

/// A connection for looking and ringing, made when it is first needed. A pool would ask the server twice each time whether the
/// connection is still good; here one that is not is found out by using it.
pub(super) struct Bell {
    connect: PgConnectOptions,
    connect_within: Duration,
    answer_within: Duration,
    conn: tokio::sync::Mutex<Option<PgConnection>>,
    others: Mutex<Option<Others>>,
    /// The server's process behind the connection of this node that listens; zero while there is none.
    own: AtomicI32,
}

/// What is known of other nodes that listen.
#[derive(Clone, Copy)]
struct Others {
    listen: bool,
    until: Instant,
}

impl Bell {
    pub(super) fn new(connect: PgConnectOptions, connect_within: Duration, answer_within: Duration) -> Bell {
        Bell {
            connect,
            connect_within,
            answer_within,
            conn: tokio::sync::Mutex::default(),
            others: Mutex::default(),
            own: AtomicI32::new(0),
        }
    }

    /// What is committed of the journal: the end of what has a place, and what waits for one.
    pub(super) async fn look(&self) -> Result<u64, StoreError> {
        let sql = "SELECT coalesce((SELECT max(position) FROM bursar.journal_order), 0),
                count(*), coalesce(max(seq), 0) FROM bursar.journal_new";
        let (position, count, seq): (i64, i64, i64) =
            self.ask(async |conn| sqlx::query_as(sql).fetch_one(conn).await).await?;
        let mixed = position.wrapping_mul(0x9e37_79b9).wrapping_add(count).wrapping_mul(0x85eb_ca6b).wrapping_add(seq);
        Ok(mixed as u64)
    }

    /// Gives the connection back to the server.
    pub(super) async fn close(&self) {
        if let Some(conn) = self.conn.lock().await.take() {
            // The server notices that it is gone, if it cannot be told.
            let _ = timeout(self.answer_within, conn.close()).await;
        }
    }

    /// Asks on the connection. It is kept only if that went well: one whose answer nobody waited for is not used again.
    async fn ask<T>(
        &self,
        ask: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, StoreError> {
        let mut kept = self.conn.lock().await;
        let mut conn = match kept.take() {
            Some(conn) => conn,
            None => timeout(self.connect_within, PgConnection::connect_with(&self.connect))
                .await
                .map_err(|_| no_answer(self.connect_within))?
                .map_err(store_error)?,
        };
        let answer = timeout(self.answer_within, ask(&mut conn)).await.map_err(|_| no_answer(self.answer_within))?;
        let answer = answer.map_err(store_error)?;
        *kept = Some(conn);
        Ok(answer)
    }

    /// Says something on the channel, if there is somebody where that is asked; tells whether it was said.
    async fn say(&self, word: &str, if_others: bool) -> Result<bool, StoreError> {
        let others = format!(
            " WHERE EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = {} AND objid = {}
                  AND objsubid = 2 AND granted AND pid <> {}
                  AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))",
            LISTENERS.0,
            LISTENERS.1,
            self.own.load(Ordering::Relaxed)
        );
        // A hint need not survive anything: nobody waits for the disk while it has the lock of the cluster.
        let sql = format!(
            "SELECT set_config('synchronous_commit', 'off', true), pg_notify('{CHANNEL}', '{word}'){}",
            if if_others { others.as_str() } else { "" }
        );
        let said = self.ask(async |conn| sqlx::raw_sql(AssertSqlSafe(sql)).fetch_optional(conn).await).await?;
        Ok(said.is_some())
    }

    fn others(&self) -> MutexGuard<'_, Option<Others>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bell as others use it, who may keep it for as long as they listen.
pub(super) struct PgHints(pub(super) Arc<Bell>);

#[async_trait]
impl Hints for PgHints {
    async fn ring(&self, hint: &Hint) -> Result<(), StoreError> {
        let asked_at = Instant::now();
        let known = self.0.others().filter(|others| asked_at < others.until);
        match known {
            Some(Others { listen: false, .. }) => Ok(()),
            Some(_) => self.0.say(&hint.to_text(), false).await.map(drop),
            None => {
                let listen = self.0.say(&hint.to_text(), true).await?;
                *self.0.others() = Some(Others { listen, until: asked_at + UNHEARD });
                Ok(())
            }
        }
    }

    async fn listen(&self) -> Result<Box<dyn Ear>, StoreError> {
        let bell = self.0.clone();
        let (connect_within, answer_within) = (bell.connect_within, bell.answer_within);
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .max_lifetime(None)
            .idle_timeout(None)
            .acquire_timeout(connect_within)
            .connect_lazy_with(bell.connect.clone());
        let listener = PgListener::connect_with(&pool).await.map_err(store_error)?;
        let mut ear =
            PgEar { bell, pool, listener: Some(listener), process: 0, trials: 0, trial: None, until: Instant::now() };
        match timeout(answer_within, ear.begin()).await {
            Ok(Ok(())) => Ok(Box::new(ear)),
            Ok(Err(error)) => {
                Box::new(ear).close().await;
                Err(error)
            }
            Err(_) => Err(no_answer(answer_within)),
        }
    }
}

struct PgEar {
    bell: Arc<Bell>,
    pool: PgPool,
    /// There until the end.
    listener: Option<PgListener>,
    /// The server's process behind it.
    process: i32,
    trials: u64,
    /// The word that is to be heard, once it was said …
    trial: Option<String>,
    /// … by then; or when the next is to be said.
    until: Instant,
}

impl PgEar {
    /// Others are told that somebody listens once it has heard something: the lock would stay with a connection that is not its own.
    async fn begin(&mut self) -> Result<(), StoreError> {
        let listener = self.listener()?;
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await.map_err(store_error)?;
        let row = listener.fetch_one(sqlx::raw_sql("SELECT pg_backend_pid()")).await.map_err(store_error)?;
        self.process = row.try_get(0).map_err(store_error)?;
        self.say_trial().await?;
        while self.trial.is_some() {
            // What others say meanwhile is found by looking.
            self.hear().await?;
        }
        let lock = format!("SELECT pg_advisory_lock_shared({}, {})", LISTENERS.0, LISTENERS.1);
        self.listener()?.execute(sqlx::raw_sql(AssertSqlSafe(lock))).await.map_err(store_error)?;
        self.bell.own.store(self.process, Ordering::Relaxed);
        Ok(())
    }

    fn listener(&mut self) -> Result<&mut PgListener, StoreError> {
        self.listener.as_mut().ok_or(StoreError::Closed)
    }

    async fn say_trial(&mut self) -> Result<(), StoreError> {
        self.trials += 1;
        // Other nodes hear it too, and must not take it for theirs.
        let word = format!("{TRIAL}{} {}", self.process, self.trials);
        self.bell.say(&word, false).await?;
        (self.trial, self.until) = (Some(word), Instant::now() + TRIAL_WITHIN);
        Ok(())
    }

    /// One more thing that is heard, or that time passes. `None` for what is not for others.
    async fn hear(&mut self) -> Result<Option<Hint>, StoreError> {
        let until = self.until;
        let Ok(heard) = timeout_at(until, self.listener()?.try_recv()).await else {
            return match self.trial.take() {
                None => self.say_trial().await.map(|()| None),
                Some(_) => Err(not_heard()),
            };
        };
        let said: PgNotification = heard.map_err(store_error)?.ok_or_else(lost)?;
        if self.trial.as_deref() == Some(said.payload()) {
            (self.trial, self.until) = (None, Instant::now() + TRIAL_EVERY);
        }
        let own = said.payload().starts_with(TRIAL);
        Ok((!own).then(|| Hint::from_text(said.payload())))
    }
}

#[async_trait]
impl Ear for PgEar {
    async fn next(&mut self) -> Result<Hint, StoreError> {
        loop {
            if let Some(hint) = self.hear().await? {
                return Ok(hint);
            }
        }
    }

    async fn close(mut self: Box<Self>) {
        drop(self.listener.take());
        self.pool.close().await;
    }
}

impl Drop for PgEar {
    fn drop(&mut self) {
        self.bell.own.store(0, Ordering::Relaxed);
    }
}

fn lost() -> StoreError {
    StoreError::Unavailable {
        what: "the connection that listened was lost".into(),
        hint: "it is made anew; jobs of other processes are looked for meanwhile",
        source: None,
    }
}

fn not_heard() -> StoreError {
    StoreError::Unavailable {
        what: "what was notified did not arrive where it was listened for, as with a pooler that pools transactions"
            .into(),
        hint: "jobs of other processes are looked for instead; give Bursar the address of the server itself to be told of them",
        source: None,
    }
}
