//! Copies of the stored databases, opened by the current code.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;

use bursar::{Bursar, ManualClock, Time};
use tempfile::TempDir;

use crate::known::{IDS, MADE_AT};

/// One of the stored databases, whose contents are known.
#[derive(Clone, Copy)]
pub(crate) enum Known {
    Sqlite,
    Postgres,
}

impl Known {
    pub(crate) fn id<T: FromStr<Err: Debug>>(self, name: &str) -> T {
        let found = IDS.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("there is no {name}")).1[self as usize].parse().unwrap()
    }
}

/// Runs each test on copies of the databases of a schema version, and on copies that were moved to the other engine.
macro_rules! on_both_engines {
    ($version:literal: $($name:ident,)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::opened::sqlite($version).await).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::opened::postgres($version).await).await;
            })*
        }
        mod moved_to_postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::moved::to_postgres($version).await).await;
            })*
        }
        mod moved_to_sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::moved::to_sqlite($version).await).await;
            })*
        }
    };
}
pub(crate) use on_both_engines;

/// A copy of a stored database, opened at the instant at which it was made, without maintenance.
pub(crate) struct Opened {
    pub(crate) bursar: Bursar,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) known: Known,
    pub(crate) url: String,
    /// The folder of the copy, if it is a file.
    pub(crate) _folder: Option<TempDir>,
}

pub(crate) async fn sqlite(version: u32) -> Opened {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bursar.db");
    std::fs::copy(stored(version, "sqlite"), &file).unwrap();
    open(version, &format!("sqlite://{}", file.display()), Known::Sqlite, Some(folder)).await
}

pub(crate) async fn postgres(version: u32) -> Opened {
    let url = bursar_testkit::fresh_database();
    let mut load = Command::new(psql());
    load.args(["-q", "-X", "-v", "ON_ERROR_STOP=1", "-f"]).arg(stored(version, "postgres.sql")).arg(&url);
    let loaded = load.stdin(Stdio::null()).output().unwrap();
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    open(version, &url, Known::Postgres, None).await
}

pub(crate) async fn open(version: u32, url: &str, known: Known, folder: Option<TempDir>) -> Opened {
    let (_, made_at) = MADE_AT.iter().find(|(made, _)| *made == version).expect("a stored version");
    let clock = Arc::new(ManualClock::at(Time::from_micros(made_at[known as usize])));
    let bursar = Bursar::options(url).clock(clock.clone()).upkeep(None).open().await.unwrap();
    Opened { bursar, clock, known, url: url.to_owned(), _folder: folder }
}

fn stored(version: u32, ending: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stored").join(format!("v{version}.{ending}"))
}

/// Returns `psql` of the newest installed PostgreSQL, which the tests use.
fn psql() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").unwrap();
    let programs = versions.map(|version| version.unwrap().path().join("bin/psql")).filter(|psql| psql.exists());
    let number = |psql: &PathBuf| psql.parent()?.parent()?.file_name()?.to_str()?.parse::<u32>().ok();
    programs.max_by_key(number).expect("PostgreSQL is installed")
}
