//! The archive of the journal.

use bursar::{ArchiveStatus, Bursar, Span};

use super::{Component, Finding};

/// How long rows may be due for the archive. A segment is written at the latest a day after its first row is due.
const OVERDUE_MAX: Span = Span::from_days(2);

/// Checks the archive. A database without one has no finding, unless it was asked for.
pub(super) async fn examine(bursar: &Bursar, asked: bool) -> Option<Finding> {
    let component = Component::Archive;
    let status = match bursar.journal().archive_status().await {
        Ok(status) => status,
        Err(error) => return Some(Finding::bad(component, error.to_string(), "look at the database first")),
    };
    if status.place.is_none() && status.last.is_none() {
        let detail = "none; the journal is in the database, and `journal.archive` is not set";
        return asked.then(|| Finding::good(component, detail));
    }
    let todo = "check the setting journal.archive, and that the archive can be reached; `bursar journal verify` reads all of it";
    Some(match bursar.journal().reach_archive().await {
        Ok(()) => judge(&status),
        Err(error) => Finding::bad(component, error.to_string(), todo),
    })
}

/// Judges whether the archive keeps up.
fn judge(status: &ArchiveStatus) -> Finding {
    let archived = status.last.as_ref().map_or(0, |last| last.last);
    let place = status.place.as_deref().unwrap_or_default();
    let detail = format!("{archived} of {} positions are archived in {place}", status.position);
    match status.overdue {
        Some(overdue) if overdue > OVERDUE_MAX => {
            let todo = "let a server run, whose log says why archiving fails, or run `bursar journal archive`";
            Finding::bad(Component::Archive, format!("{detail}; the next ones have been due for {overdue}"), todo)
        }
        _ => Finding::good(Component::Archive, detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_that_does_not_keep_up_is_reported() {
        for (days, ok) in [(None, true), (Some(1), true), (Some(3), false)] {
            let place = Some("directory x".to_owned());
            let status = ArchiveStatus { place, last: None, position: 7, overdue: days.map(Span::from_days) };
            let finding = judge(&status);
            assert_eq!(finding.ok, ok, "{}", finding.detail);
            assert!(finding.detail.contains("0 of 7") && finding.detail.contains("directory x"));
        }
    }
}
