//! What the application says about a resource: its names, and how much there is.

use std::fmt::Display;
use std::future::Future;
use std::str::FromStr;

use bursar_core::budget::Cover;
use bursar_core::name::Scope;
use sqlx::PgConnection;

use super::Source;
use crate::error::Error;

/// A key or window of a resource: a type that a scope stores as text, and that is read back from it. The text must determine the value.
pub trait NamePart: Display + FromStr + Clone + Send + Sync + 'static {}

impl<T: Display + FromStr + Clone + Send + Sync + 'static> NamePart for T {}

/// A resource of limited capacity, such as the seats of a show or the rooms of a hotel.
///
/// The capacity is read after the scope is locked, in the same transaction as the hold. Implement the functions of the
/// database in use.
pub trait Resource: Send + Sync + 'static {
    /// Identifies the resource: a show, a hotel.
    type Key: NamePart;
    /// The date or session that the capacity is for; `String` with a constant text if there is none.
    type Window: NamePart;
    /// The kind of the resource, with which its scopes begin: `seat`.
    const KIND: &'static str;
    /// What happens to a late commit or an overrun. Refused by default, because another caller may have reserved the
    /// capacity since.
    const COVER: Cover = Cover::Refuse;

    /// Returns the capacity, on SQLite.
    fn capacity_sqlite(
        &self,
        _: &rusqlite::Connection,
        _: &Self::Key,
        _: &Self::Window,
    ) -> Result<i64, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("the resource {:?} has no capacity on SQLite: implement `capacity_sqlite`", Self::KIND).into())
    }

    /// Returns the capacity, on PostgreSQL.
    fn capacity_postgres(
        &self,
        _: &mut PgConnection,
        _: &Self::Key,
        _: &Self::Window,
    ) -> impl Future<Output = Result<i64, Box<dyn std::error::Error + Send + Sync>>> + Send {
        async {
            let kind = Self::KIND;
            Err(format!("the resource {kind:?} has no capacity on PostgreSQL: implement `capacity_postgres`").into())
        }
    }

    /// Returns the units that are taken, on SQLite. `None`, the default, counts the reservations that Bursar holds or has committed. An
    /// application that counts rows of its own instead must change them in the same transactions as its reservations.
    fn taken_sqlite(
        &self,
        _: &rusqlite::Connection,
        _: &Self::Key,
        _: &Self::Window,
    ) -> Result<Option<i64>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(None)
    }

    /// Returns the units that are taken, on PostgreSQL; see [`Resource::taken_sqlite`].
    fn taken_postgres(
        &self,
        _: &mut PgConnection,
        _: &Self::Key,
        _: &Self::Window,
    ) -> impl Future<Output = Result<Option<i64>, Box<dyn std::error::Error + Send + Sync>>> + Send {
        async { Ok(None) }
    }
}

/// How much of a resource there is, and how much of it is taken, as the application says.
pub(super) struct Room {
    pub(super) capacity: i64,
    /// `None` if Bursar counts.
    pub(super) taken: Option<i64>,
}

impl Room {
    pub(super) fn of_sqlite<R: Resource>(
        resource: &R,
        conn: &rusqlite::Connection,
        key: &R::Key,
        window: &R::Window,
    ) -> Result<Room, Source> {
        let capacity = resource.capacity_sqlite(conn, key, window)?;
        Ok(Room { capacity, taken: resource.taken_sqlite(conn, key, window)? })
    }

    pub(super) async fn of_postgres<R: Resource>(
        resource: &R,
        conn: &mut PgConnection,
        key: &R::Key,
        window: &R::Window,
    ) -> Result<Room, Source> {
        let capacity = resource.capacity_postgres(conn, key, window).await?;
        Ok(Room { capacity, taken: resource.taken_postgres(conn, key, window).await? })
    }
}

/// Returns the scope of a resource: `seat:hamlet/2026-11-15`. Separators within the kind and the key are percent-encoded.
pub(super) fn scope_of<R: Resource>(key: &R::Key, window: &R::Window) -> Result<Scope, Error> {
    let key = key.to_string().replace('%', "%25").replace('/', "%2F");
    Ok(Scope::new(format!("{}{key}/{window}", prefix::<R>()))?)
}

/// Reads the key and the window back from a scope; `None` if it belongs to another kind of resource.
pub(super) fn names_of<R: Resource>(scope: &Scope) -> Option<(R::Key, R::Window)> {
    let (key, window) = scope.as_str().strip_prefix(&prefix::<R>())?.split_once('/')?;
    let key = key.replace("%2F", "/").replace("%25", "%");
    Some((key.parse().ok()?, window.parse().ok()?))
}

fn prefix<R: Resource>() -> String {
    format!("{}:", R::KIND.replace('%', "%25").replace(':', "%3A"))
}
