//! Deleting what was kept for long enough.

use bursar::{Bursar, Overdue, Span};

use super::{Component, Finding};
use crate::output::counted;

/// How long rows may be overdue. Maintenance deletes them within hours.
const OVERDUE_BY: Span = Span::from_days(2);

/// Checks that maintenance deletes rows.
pub(super) async fn examine(bursar: &Bursar) -> Finding {
    match bursar.overdue(OVERDUE_BY).await {
        Ok(overdue) => judge(overdue),
        Err(error) => Finding::bad(Component::Retention, error.to_string(), "look at the database first"),
    }
}

fn judge(Overdue { keys, holds, grants, jobs }: Overdue) -> Finding {
    let kinds = [(keys, "idempotency key"), (holds, "hold"), (grants, "grant"), (jobs, "ended job")];
    let late: Vec<String> =
        kinds.into_iter().filter(|(count, _)| *count > 0).map(|(count, name)| counted(count, name)).collect();
    if late.is_empty() {
        return Finding::good(Component::Retention, "nothing is overdue among the oldest rows");
    }
    let detail = format!("{} should have been deleted {OVERDUE_BY} ago or before", late.join(", "));
    Finding::bad(Component::Retention, detail, "let a server run, whose log says why deleting fails or falls behind")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_overdue_is_named() {
        assert!(judge(Overdue::default()).ok);
        let late = judge(Overdue { holds: 2, jobs: 1, ..Overdue::default() });
        assert!(!late.ok && late.detail.starts_with("2 holds, 1 ended job should"), "{}", late.detail);
    }
}
