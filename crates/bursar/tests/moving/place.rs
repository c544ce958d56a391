//! Databases to move, and what every test checks after a move.

use std::sync::Arc;

use bursar::{Budget, Bursar, Limit, ManualClock, MoveProgress, MoveReport, Span, Time, Window};
use tempfile::TempDir;

/// The instant at which tests run, by a clock that they set.
pub(crate) const NOW: Time = Time::from_micros(1_800_000_000_000_000);

/// The URL of a database.
pub(crate) struct Place {
    pub(crate) url: String,
    folder: Option<TempDir>,
}

impl Place {
    /// A file that does not exist yet.
    pub(crate) fn sqlite() -> Place {
        let folder = tempfile::tempdir().unwrap();
        Place { url: format!("sqlite://{}", folder.path().join("bursar.db").display()), folder: Some(folder) }
    }

    /// A database without tables.
    pub(crate) fn postgres() -> Place {
        Place { url: bursar_testkit::fresh_database(), folder: None }
    }

    /// A database of the other engine.
    pub(crate) fn other(&self) -> Place {
        if self.folder.is_some() { Place::postgres() } else { Place::sqlite() }
    }

    /// Opens the database without maintenance.
    pub(crate) async fn open(&self) -> Bursar {
        self.open_at(NOW).await.0
    }

    pub(crate) async fn open_at(&self, now: Time) -> (Bursar, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(now));
        (Bursar::options(&self.url).clock(clock.clone()).upkeep(None).open().await.unwrap(), clock)
    }

    /// Returns why the database cannot be opened.
    pub(crate) async fn refusal(&self) -> String {
        let opened = Bursar::options(&self.url).upkeep(None).open().await;
        opened.map(drop).expect_err("it is a part of a move").to_string()
    }
}

/// Defines a budget that admits everything.
pub(crate) async fn define(bursar: &Bursar, scope: &str) {
    let mut budget = Budget::new([Limit::new(1_000_000_000, Window::Lifetime)]);
    budget.hold.ttl_min = Span::from_millis(1);
    bursar.ledger().define(scope, budget).await.unwrap();
}

pub(crate) fn quiet() -> MoveProgress {
    Arc::new(|_| ())
}

/// Moves a database that nothing uses.
pub(crate) async fn relocate(from: &Place, to: &Place) -> MoveReport {
    complete(Bursar::relocate(&from.url, &to.url, false, quiet()).await.unwrap())
}

/// Checks that a move has ended well.
pub(crate) fn complete(report: MoveReport) -> MoveReport {
    assert_eq!(report.differences, Vec::<String>::new());
    for side in [&report.reports.0, &report.reports.1] {
        assert_eq!(side.violations, Vec::<String>::new());
    }
    assert!(report.complete);
    assert_eq!(report.summaries.0, report.summaries.1);
    report
}

/// Runs each test from both engines.
macro_rules! from_both_engines {
    ($($name:ident,)*) => {
        mod from_sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::place::Place::sqlite()).await;
            })*
        }
        mod from_postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::place::Place::postgres()).await;
            })*
        }
    };
}
pub(crate) use from_both_engines;
