//! "Did you mean": names that resemble one that does not exist. They are compared with a page of those that do.

use bursar::{JobKind, Queue, ScheduleName, Scope};
use bursar_client::{Error, JobQuery};
use bursar_wire::problem::{Kind, Problem};
use bursar_wire::similar::{self, question};

use crate::context::Context;

/// The most names that a name is compared with.
const NAMES_MAX: usize = 1_000;

/// Returns the answer, or the problem with a suggestion if one of these scopes does not exist.
pub(crate) async fn scope<'a, T>(
    answer: Result<T, Error>,
    scopes: impl IntoIterator<Item = &'a Scope>,
    context: &Context,
) -> Result<T, Problem> {
    let error = match answer {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    let missing = matches!(error.kind(), Some(Kind::UnknownScope | Kind::NotFound));
    let mut problem = Problem::from(error);
    // A server suggests a name by itself.
    let missing = missing && !problem.detail.contains("did you mean ");
    if missing && let Ok(page) = context.client.budgets().list("", None, NAMES_MAX).await {
        let known = || page.items.iter().map(|budget| budget.scope.as_str());
        let similar = scopes.into_iter().find_map(|scope| similar::to(scope.as_str(), known()));
        problem.detail.push_str(&question(similar));
    }
    Err(problem)
}

/// Fails if a queue has neither settings nor jobs, with what to do instead and a suggestion.
pub(crate) async fn require_queue(queue: &Queue, instead: &str, context: &Context) -> Result<(), Problem> {
    let Some(similar) = missing_queue(queue, context).await else { return Ok(()) };
    let why = if similar.is_some() { "" } else { "; a queue exists once it has a job or settings" };
    let detail = format!("there is no queue {queue}{why}{instead}{}", question(similar.as_deref()));
    Err(Problem::new(Kind::NotFound, detail))
}

/// Returns the answer, or the problem with a suggestion if the schedule does not exist.
pub(crate) async fn schedule<T>(
    answer: Result<T, Error>,
    name: &ScheduleName,
    context: &Context,
) -> Result<T, Problem> {
    let error = match answer {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    let missing = error.kind() == Some(Kind::NotFound);
    let mut problem = Problem::from(error);
    if missing {
        problem.detail.push_str(&question(similar_schedule(name, context).await.as_deref()));
    }
    Err(problem)
}

/// Returns the name of a schedule that resembles this one.
pub(crate) async fn similar_schedule(name: &ScheduleName, context: &Context) -> Option<String> {
    let page = context.client.schedules().list(None, NAMES_MAX).await.ok()?;
    similar::to(name.as_str(), page.items.iter().map(|schedule| schedule.name.as_str())).map(str::to_owned)
}

/// Warns if a queue is new and resembles one that exists.
pub(crate) async fn warn_of_new_queue(queue: &Queue, context: &Context) {
    if let Some(Some(similar)) = missing_queue(queue, context).await {
        context.out.note(&format!("warning: the queue {queue} is new; did you mean {similar}?"));
    }
}

/// Notes why a filter may have matched no job: its queue or its kind does not exist.
pub(crate) async fn note_empty_filter(queue: Option<&Queue>, kind: Option<&JobKind>, context: &Context) {
    if let Some(queue) = queue
        && let Some(similar) = missing_queue(queue, context).await
    {
        return context.out.note(&format!("note: there is no queue {queue}{}", question(similar.as_deref())));
    }
    let query = JobQuery { limit: Some(NAMES_MAX), ..JobQuery::default() };
    if let Some(kind) = kind
        && let Ok(page) = context.client.jobs().list(&query).await
    {
        let known = || page.items.iter().map(|job| job.kind.as_str());
        let is_known = known().any(|known| known == kind.as_str());
        if !is_known && let Some(similar) = similar::to(kind.as_str(), known()) {
            context.out.note(&format!("note: no job has the kind {kind}{}", question(Some(similar))));
        }
    }
}

/// Notes that a tenant has no data, with a suggestion on a database. A server does not list its tenants.
pub(crate) async fn note_empty_tenant(context: &Context) {
    let client = &context.client;
    let one_job = JobQuery { limit: Some(1), ..JobQuery::default() };
    let is_empty = client.budgets().list("", None, 1).await.is_ok_and(|page| page.items.is_empty())
        && client.queues().list(None, 1).await.is_ok_and(|page| page.items.is_empty())
        && client.jobs().list(&one_job).await.is_ok_and(|page| page.items.is_empty())
        && client.grants().list(None, 1).await.is_ok_and(|page| page.items.is_empty());
    if !is_empty {
        return;
    }
    let tenants = match context.bursar() {
        Ok(bursar) => bursar.tenants(None, NAMES_MAX).await.unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let tenant = &context.tenant;
    let similar = similar::to(tenant.as_str(), tenants.iter().map(bursar::Tenant::as_str));
    context.out.note(&format!("note: the tenant {tenant} has no budgets, queues, jobs or grants{}", question(similar)));
}

/// Returns `None` if a queue exists, or if that cannot be told; otherwise the name that it resembles, if there is one.
async fn missing_queue(queue: &Queue, context: &Context) -> Option<Option<String>> {
    let page = context.client.queues().list(None, NAMES_MAX).await.ok()?;
    let known = || page.items.iter().map(|queue| queue.name.as_str());
    let unknown = page.next.is_none() && !known().any(|known| known == queue.as_str());
    unknown.then(|| similar::to(queue.as_str(), known()).map(str::to_owned))
}
