//! The report of a verification.

use bursar_wire::report::{CheckedAnswer, VerifyAnswer};

use crate::output::counted;

/// Describes a report.
pub(crate) fn describe(report: &VerifyAnswer) -> String {
    let CheckedAnswer { scopes, holds, jobs } = &report.checked;
    let (scopes, holds, jobs) = (counted(scopes, "scope"), counted(holds, "hold"), counted(jobs, "job"));
    let checked = format!("checked {scopes}, {holds} and {jobs}");
    if report.ok {
        return format!("{checked}: all balances match their holds and postings");
    }
    let violations = counted(report.violations.len(), "violation");
    format!("{checked}: found {violations}\n{}", report.violations.join("\n"))
}
