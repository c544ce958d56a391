//! The report of a verification.

use bursar_wire::report::{CheckedAnswer, VerifyAnswer};

/// Describes a report.
pub(crate) fn describe(report: &VerifyAnswer) -> String {
    let CheckedAnswer { scopes, holds, jobs } = &report.checked;
    let checked = format!("checked {scopes} scopes, {holds} holds and {jobs} jobs");
    if report.ok {
        return format!("{checked}: all balances match their holds and postings");
    }
    format!("{checked}: found {} violations\n{}", report.violations.len(), report.violations.join("\n"))
}
