//! Names that resemble one that does not exist, for the problems about it. They are compared with a page of those that do exist.

use bursar::Queue;

use crate::call::Call;
use crate::limits::PAGE_MAX;
use crate::principal::authorize;
use crate::principal::permissions::Action;
use crate::wire::problem::{Kind, Problem};
use crate::wire::similar::{self, question};

/// Adds a suggestion to a problem about an unknown scope, if the caller may read budgets.
pub(crate) async fn scope(mut problem: Problem, call: &Call) -> Problem {
    let scope = problem.http.as_ref().and_then(|http| http.scope.clone());
    let Some(scope) = scope.filter(|_| problem.kind == Kind::UnknownScope) else { return problem };
    if authorize(&call.principal, Action::BudgetsRead).is_ok()
        && let Ok(found) = call.bursar().ledger().budgets("", None, PAGE_MAX).await
    {
        let known = found.iter().map(|budget| budget.scope.as_str());
        problem.detail.push_str(&question(similar::to(&scope, known)));
    }
    problem
}

/// Returns the problem about a queue that does not exist, with a suggestion.
pub(crate) async fn unknown_queue(queue: &Queue, call: &Call) -> Problem {
    let listed = call.bursar().queues().list(None, PAGE_MAX).await.unwrap_or_default();
    let suggestion = question(similar::to(queue.as_str(), listed.iter().map(|(name, _)| name.as_str())));
    Problem::not_found(format_args!("queue {queue}{suggestion}"))
        .with_hint("a queue exists once it has a job or settings: GET /v1/queues lists those that do")
}
