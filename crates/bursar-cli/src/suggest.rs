//! "Did you mean": names that resemble one that does not exist. They are compared with a page of those that do.

use bursar::{JobKind, Queue, Scope};
use bursar_client::{Error, JobQuery};
use bursar_wire::problem::{Kind, Problem};

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
    if missing && let Ok(page) = context.client.budgets().list("", None, NAMES_MAX).await {
        let known = || page.items.iter().map(|budget| budget.scope.as_str());
        let similar = scopes.into_iter().find_map(|scope| similar(scope.as_str(), known()));
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
        if !is_known && let Some(similar) = similar(kind.as_str(), known()) {
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
        Ok(bursar) => bursar.tenants(10 * NAMES_MAX).await.unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let tenant = &context.tenant;
    let similar = similar(tenant.as_str(), tenants.iter().map(bursar::Tenant::as_str));
    context.out.note(&format!("note: the tenant {tenant} has no budgets, queues, jobs or grants{}", question(similar)));
}

/// Returns `None` if a queue exists, or if that cannot be told; otherwise the name that it resembles, if there is one.
async fn missing_queue(queue: &Queue, context: &Context) -> Option<Option<String>> {
    let page = context.client.queues().list(None, NAMES_MAX).await.ok()?;
    let known = || page.items.iter().map(|queue| queue.name.as_str());
    let unknown = page.next.is_none() && !known().any(|known| known == queue.as_str());
    unknown.then(|| similar(queue.as_str(), known()).map(str::to_owned))
}

/// Formats the suggestion to add to a sentence.
pub(crate) fn question(similar: Option<&str>) -> String {
    similar.map(|similar| format!("; did you mean {similar}?")).unwrap_or_default()
}

/// Returns the most similar name, if one is similar enough: a few letters differ, or only the part before the last `:` or `/` is missing.
pub(crate) fn similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let differing_max = match name.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        6..=9 => 2,
        _ => 3,
    };
    let lower = name.to_lowercase();
    let distance = |known: &str| match known.rsplit_once([':', '/']) {
        Some((_, last)) if last.eq_ignore_ascii_case(name) => 0,
        _ => strsim::osa_distance(&lower, &known.to_lowercase()),
    };
    let near = known.filter(|known| *known != name).map(|known| (distance(known), known));
    near.filter(|(distance, _)| *distance <= differing_max).min().map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::similar;

    #[test]
    fn only_similar_names_are_suggested() {
        let known = ["agent:scout", "media", "org:acme", "red", "Reports", "Europe/Berlin"];
        for (name, expected) in [
            ("medai", Some("media")),
            ("medi", Some("media")),
            ("MEDIA", Some("media")),
            ("reports", Some("Reports")),
            ("org:acm", Some("org:acme")),
            ("agent:scuot", Some("agent:scout")),
            ("scout", Some("agent:scout")),
            ("berlin", Some("Europe/Berlin")),
            ("Europe/Berln", Some("Europe/Berlin")),
            ("rd", None),
            ("nope", None),
            ("media", None),
        ] {
            assert_eq!(similar(name, known.into_iter()), expected, "{name}");
        }
    }
}
