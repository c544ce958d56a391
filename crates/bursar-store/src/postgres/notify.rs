//! Notifications between nodes by `LISTEN` and `NOTIFY`, and the change counter for polling.
//!
//! - A transaction with a `NOTIFY` takes a lock of the whole database cluster when it commits. So it is sent after the commit of a batch,
//!   in a transaction of its own, and only if another node listens. A listener holds an advisory lock, which senders look up once a
//!   second. A new listener therefore polls for its first second ([`LISTENERS_CACHED`]).
//! - After a successful `LISTEN`, notifications may still not arrive, because a pooler can give the connection to another client. So a
//!   listener counts as working only after it has received a probe that was sent on another connection. It is probed again every 30
//!   seconds. Before the first probe arrives, and if one is lost, the node polls.
//! - Behind a pooler a listener needs a direct connection. Without one the node polls. It sends in either case.
//! - A notification names its queues as numbers, so that it wakes only the workers that wait for one of them.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgListener, PgNotification, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};
use tokio::time::{Instant, timeout, timeout_at};

use super::conn::{Conn, Servers};
use super::error::store_error;
use super::{PostgresStore, no_answer};
use crate::error::StoreError;
use crate::store::Notify;
use crate::wakeup::{LISTENERS_CACHED, Listener, Notification, Notifier};

/// The advisory lock that every listener holds shared.
const LISTENERS: (i32, i32) = (0x6275_7273, 3);
const CHANNEL: &str = "bursar";
/// The prefix of a probe.
const PROBE: &str = "trial ";
/// How often a listener is probed.
const PROBE_EVERY: Duration = Duration::from_secs(30);
/// How long a probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The connection for polling and sending, opened when it is first needed. It belongs to no pool, because a pool would check it with two
/// round trips at each use.
pub(super) struct ChangeWatch {
    servers: Servers,
    connect_within: Duration,
    answer_within: Duration,
    conn: tokio::sync::Mutex<Option<PgConnection>>,
    listeners: Mutex<Option<KnownListeners>>,
    /// The server process of this node's own listener; 0 while there is none.
    own_process: AtomicI32,
}

/// The result of the last look-up of listeners.
#[derive(Clone, Copy)]
struct KnownListeners {
    /// Whether another node listens.
    any: bool,
    /// When to look again.
    until: Instant,
}

impl ChangeWatch {
    pub(super) fn new(servers: Servers, connect_within: Duration, answer_within: Duration) -> ChangeWatch {
        ChangeWatch {
            servers,
            connect_within,
            answer_within,
            conn: tokio::sync::Mutex::default(),
            listeners: Mutex::default(),
            own_process: AtomicI32::new(0),
        }
    }

    /// Returns a hash of the end of the committed journal: of the last position, and of the rows that have none yet.
    async fn change_counter(&self) -> Result<u64, StoreError> {
        let sql = "SELECT coalesce((SELECT max(position) FROM bursar.journal_order), 0),
                count(*), coalesce(max(seq), 0) FROM bursar.journal_new";
        let (position, count, seq): (i64, i64, i64) =
            self.run(async |conn| sqlx::query_as(sql).fetch_one(conn).await).await?;
        let mixed = position.wrapping_mul(0x9e37_79b9).wrapping_add(count).wrapping_mul(0x85eb_ca6b).wrapping_add(seq);
        Ok(mixed as u64)
    }

    /// Closes the connection.
    pub(super) async fn close(&self) {
        if let Some(conn) = self.conn.lock().await.take() {
            // If closing fails, the server notices the lost connection.
            let _ = timeout(self.answer_within, conn.close()).await;
        }
    }

    /// Runs a statement. The connection is kept only after a success: after a timeout a late answer may still arrive on it.
    async fn run<T>(&self, statement: impl AsyncFnOnce(Conn<'_>) -> Result<T, sqlx::Error>) -> Result<T, StoreError> {
        let mut slot = self.conn.lock().await;
        let mut conn = match slot.take() {
            Some(conn) => conn,
            None => timeout(self.connect_within, PgConnection::connect_with(&self.servers.main.connect))
                .await
                .map_err(|_| no_answer(self.connect_within))?
                .map_err(store_error)?,
        };
        let idle = Conn::idle(&mut conn, self.servers.main.pooled);
        let answer = timeout(self.answer_within, statement(idle)).await.map_err(|_| no_answer(self.answer_within))?;
        let answer = answer.map_err(store_error)?;
        *slot = Some(conn);
        Ok(answer)
    }

    /// Sends a payload to the channel; with `if_listeners`, only if another node listens. Returns whether it was sent.
    async fn notify(&self, payload: &str, if_listeners: bool) -> Result<bool, StoreError> {
        let condition = format!(
            " WHERE EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = {} AND objid = {}
                  AND objsubid = 2 AND granted AND pid <> {}
                  AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))",
            LISTENERS.0,
            LISTENERS.1,
            self.own_process.load(Ordering::Relaxed)
        );
        // A notification need not survive a crash, so its commit does not hold the cluster-wide lock during a disk sync.
        let sql = format!(
            "SELECT set_config('synchronous_commit', 'off', true), pg_notify('{CHANNEL}', '{payload}'){}",
            if if_listeners { condition.as_str() } else { "" }
        );
        let sent = self.run(async |conn| sqlx::raw_sql(AssertSqlSafe(sql)).fetch_optional(conn).await).await?;
        Ok(sent.is_some())
    }

    fn listeners(&self) -> MutexGuard<'_, Option<KnownListeners>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Notify for PostgresStore {
    async fn change_counter(&self) -> Result<u64, StoreError> {
        self.change_watch.change_counter().await
    }

    fn notifier(&self) -> Option<Arc<dyn Notifier>> {
        Some(Arc::new(PgNotifier(self.change_watch.clone())))
    }
}

/// A notifier that uses `NOTIFY` and `LISTEN`.
struct PgNotifier(Arc<ChangeWatch>);

#[async_trait]
impl Notifier for PgNotifier {
    async fn send(&self, notification: &Notification) -> Result<(), StoreError> {
        let now = Instant::now();
        let known = self.0.listeners().filter(|listeners| now < listeners.until);
        match known {
            Some(KnownListeners { any: false, .. }) => Ok(()),
            Some(_) => self.0.notify(&notification.to_text(), false).await.map(drop),
            None => {
                let any = self.0.notify(&notification.to_text(), true).await?;
                *self.0.listeners() = Some(KnownListeners { any, until: now + LISTENERS_CACHED });
                Ok(())
            }
        }
    }

    async fn listen(&self) -> Result<Box<dyn Listener>, StoreError> {
        let watch = self.0.clone();
        let server = watch.servers.direct.as_ref().ok_or_else(no_session)?;
        let (connect_within, answer_within) = (watch.connect_within, watch.answer_within);
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .max_lifetime(None)
            .idle_timeout(None)
            .acquire_timeout(connect_within)
            .connect_lazy_with(server.connect.clone());
        let listener = PgListener::connect_with(&pool).await.map_err(store_error)?;
        let mut listener = NotifyListener {
            watch,
            pool,
            listener: Some(listener),
            process: 0,
            probes: 0,
            probe: None,
            deadline: Instant::now(),
        };
        match timeout(answer_within, listener.start()).await {
            Ok(Ok(())) => Ok(Box::new(listener)),
            Ok(Err(error)) => {
                Box::new(listener).close().await;
                Err(error)
            }
            Err(_) => Err(no_answer(answer_within)),
        }
    }
}

/// A listener on a connection of its own.
struct NotifyListener {
    watch: Arc<ChangeWatch>,
    pool: PgPool,
    /// `Some` until it is closed.
    listener: Option<PgListener>,
    /// The server process of its connection.
    process: i32,
    /// How many probes were sent.
    probes: u64,
    /// The probe that was sent and has not arrived.
    probe: Option<String>,
    /// When the pending probe must have arrived; without one, when the next is sent.
    deadline: Instant,
}

impl NotifyListener {
    /// Starts to listen. Takes the advisory lock of listeners only after a probe has arrived: behind a pooler the lock could stay on a
    /// connection of another client.
    async fn start(&mut self) -> Result<(), StoreError> {
        let listener = self.listener()?;
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await.map_err(store_error)?;
        let row = listener.fetch_one(sqlx::raw_sql("SELECT pg_backend_pid()")).await.map_err(store_error)?;
        self.process = row.try_get(0).map_err(store_error)?;
        self.send_probe().await?;
        while self.probe.is_some() {
            // Notifications that arrive before the probe can be dropped, because a new listener also polls.
            self.receive().await?;
        }
        let lock = format!("SELECT pg_advisory_lock_shared({}, {})", LISTENERS.0, LISTENERS.1);
        self.listener()?.execute(sqlx::raw_sql(AssertSqlSafe(lock))).await.map_err(store_error)?;
        self.watch.own_process.store(self.process, Ordering::Relaxed);
        Ok(())
    }

    fn listener(&mut self) -> Result<&mut PgListener, StoreError> {
        self.listener.as_mut().ok_or(StoreError::Closed)
    }

    async fn send_probe(&mut self) -> Result<(), StoreError> {
        self.probes += 1;
        // The process number distinguishes the probes of different nodes.
        let probe = format!("{PROBE}{} {}", self.process, self.probes);
        self.watch.notify(&probe, false).await?;
        (self.probe, self.deadline) = (Some(probe), Instant::now() + PROBE_TIMEOUT);
        Ok(())
    }

    /// Waits for a notification or the deadline. Returns `None` after a probe was sent or received.
    async fn receive(&mut self) -> Result<Option<Notification>, StoreError> {
        let deadline = self.deadline;
        let Ok(received) = timeout_at(deadline, self.listener()?.try_recv()).await else {
            return match self.probe.take() {
                None => self.send_probe().await.map(|()| None),
                Some(_) => Err(probe_lost()),
            };
        };
        let received: PgNotification = received.map_err(store_error)?.ok_or_else(connection_lost)?;
        if self.probe.as_deref() == Some(received.payload()) {
            (self.probe, self.deadline) = (None, Instant::now() + PROBE_EVERY);
        }
        let is_probe = received.payload().starts_with(PROBE);
        Ok((!is_probe).then(|| Notification::from_text(received.payload())))
    }
}

#[async_trait]
impl Listener for NotifyListener {
    async fn next(&mut self) -> Result<Notification, StoreError> {
        loop {
            if let Some(notification) = self.receive().await? {
                return Ok(notification);
            }
        }
    }

    async fn close(mut self: Box<Self>) {
        drop(self.listener.take());
        self.pool.close().await;
    }
}

impl Drop for NotifyListener {
    fn drop(&mut self) {
        self.watch.own_process.store(0, Ordering::Relaxed);
    }
}

fn connection_lost() -> StoreError {
    StoreError::Unavailable {
        what: "the connection for notifications was lost".into(),
        hint: "Bursar polls for jobs of other processes and reconnects",
        permanent: false,
        source: None,
    }
}

fn no_session() -> StoreError {
    StoreError::Unavailable {
        what: "a pooler in transaction mode passes on no notifications".into(),
        hint: "Bursar polls for jobs of other processes; to use notifications, set postgres.direct_url",
        permanent: true,
        source: None,
    }
}

fn probe_lost() -> StoreError {
    StoreError::Unavailable {
        what: "a test notification did not arrive; a pooler in transaction mode drops notifications".into(),
        hint: "Bursar polls for jobs of other processes; to use notifications, connect it to the server directly",
        permanent: false,
        source: None,
    }
}
