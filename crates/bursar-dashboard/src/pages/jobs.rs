//! Jobs: filters in the URL, and acts on a selection or on all that match.

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::Query;
use axum::response::Response;
use axum::routing::{get, post};
use bursar_client::{Client, JobId, JobQuery, JobState};
use bursar_core::job::JobAct;
use bursar_wire::bulk::{ActedAnswer, FilterBody, SelectionBody};
use bursar_wire::job::JobAnswer;
use bursar_wire::queue::QueueAnswer;
use maud::{Markup, html};
use serde::Deserialize;

use crate::Shared;
use crate::failure::Failure;
use crate::pages::job_rows::{JobFacts, rows};
use crate::pages::queues;
use crate::shell::{self, Live, head_of};
use crate::view::{amount, badge, form, list};
use crate::visit::{Act, Flash, Visit};

/// Jobs on a page.
const PAGE: usize = 100;
/// The most jobs that a confirmation names one by one.
const PINNED_MAX: usize = 500;
/// Jobs that an act on a filter changes at most.
const ACT_MAX: usize = 10_000;

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/jobs", get(show)).route("/jobs/-/preview", post(preview)).route("/jobs/-/act", post(act_on))
}

/// The filter of the page, as its URL has it. An empty field matches every job.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct JobFilter {
    #[serde(default)]
    state: String,
    #[serde(default)]
    queue: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    key: String,
    #[serde(default)]
    tag: String,
    #[serde(default)]
    fingerprint: String,
    #[serde(default)]
    cursor: Option<String>,
}

/// The number of jobs in each state, if it is known.
type Counts = BTreeMap<JobState, i64>;

fn given(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}

impl JobFilter {
    fn body(&self) -> Result<FilterBody, Failure> {
        Ok(FilterBody {
            queue: given(&self.queue).map(TryInto::try_into).transpose()?,
            kind: given(&self.kind).map(TryInto::try_into).transpose()?,
            key: given(&self.key).map(TryInto::try_into).transpose()?,
            tag: given(&self.tag).map(TryInto::try_into).transpose()?,
            fingerprint: given(&self.fingerprint).map(str::to_owned),
            state: given(&self.state).and_then(|state| JobState::ALL.into_iter().find(|known| known.as_str() == state)),
        })
    }

    fn query(&self) -> Result<JobQuery, Failure> {
        let FilterBody { queue, kind, key, tag, fingerprint, state } = self.body()?;
        Ok(JobQuery {
            newest_first: true,
            queue,
            state,
            kind,
            key,
            tag,
            fingerprint,
            cursor: self.cursor.clone(),
            limit: Some(PAGE),
        })
    }

    /// Returns the number of jobs in each state that the queues keep; none if the filter selects by something that is not counted, or
    /// if there are more queues than were read.
    fn counts(&self, queues: &[QueueAnswer]) -> Counts {
        let uncounted = [&self.kind, &self.key, &self.tag, &self.fingerprint];
        if uncounted.iter().any(|field| given(field).is_some()) || queues.len() >= queues::PAGE {
            return Counts::new();
        }
        let selected = |queue: &&QueueAnswer| given(&self.queue).is_none_or(|name| queue.name.as_str() == name);
        let mut counts = Counts::new();
        for figures in queues.iter().filter(selected).map(|queue| &queue.figures) {
            for state in JobState::ALL {
                *counts.entry(state).or_default() += queues::state_count(figures, state);
            }
        }
        counts
    }

    fn of(act: &Act) -> JobFilter {
        let field = |name: &str| act.field(name).unwrap_or_default().to_owned();
        JobFilter {
            state: field("state"),
            queue: field("queue"),
            kind: field("kind"),
            key: field("key"),
            tag: field("tag"),
            fingerprint: field("fingerprint"),
            cursor: None,
        }
    }

    fn hidden(&self) -> Markup {
        html! { @for (name, value) in self.fields() { @if !value.is_empty() { input type="hidden" name=(name) value=(value); } } }
    }

    fn fields(&self) -> [(&'static str, &str); 6] {
        [
            ("state", &self.state),
            ("queue", &self.queue),
            ("kind", &self.kind),
            ("key", &self.key),
            ("tag", &self.tag),
            ("fingerprint", &self.fingerprint),
        ]
    }
}

async fn show(visit: Visit, Query(filter): Query<JobFilter>) -> Result<Response, Failure> {
    let page = visit.client.jobs().list(&filter.query()?).await?.into_inner();
    let queues = queues(&visit).await;
    let facts = JobFacts::of(&visit, &page.items, &queues).await;
    let counts = filter.counts(&queues);
    let body = html! {
        (head_of(&visit, &[], &html! { "Jobs" }, &html! { "Newest first" }, &html! {}))
        section.card {
            (filters(&visit, &filter, &counts))
            button.news type="button" data-news="jobs" data-one="job" hidden {}
            form method="post" action=(visit.url("/jobs/-/preview")) data-select {
                (form::token(&visit))
                (filter.hidden())
                input type="hidden" name="back" value=(visit.uri.path_and_query().map(|path| path.as_str()).unwrap_or("/jobs"));
                @if visit.may("jobs.operate") {
                    div.actions {
                        span.selected role="status" { "None selected" }
                        @for act in ["retry", "cancel", "discard"] { (act_button(act)) }
                        button.btn.is-small.is-quiet.end name="act" value="retry-all" { "Act on all that match…" }
                    }
                }
                div data-live #jobs { (rows(&visit, &page.items, &facts, visit.may("jobs.operate"))) }
            }
            (list::pager(&visit, page.items.len(), "jobs", page.next.as_deref()))
        }
    };
    Ok(shell::page(&visit, "Jobs", &Live::Announce("journal".to_owned()), &body))
}

fn act_button(act: &str) -> Markup {
    let (label, class) = match act {
        "retry" => ("Retry", ""),
        "cancel" => ("Cancel", ""),
        _ => ("Discard…", "is-danger"),
    };
    html! { button class={ "btn is-small " (class) } name="act" value=(act) data-needs-selection { (label) } }
}

/// Returns the queues with their figures; none if the visitor may not read them.
async fn queues(visit: &Visit) -> Vec<QueueAnswer> {
    match visit.may("queues.read") {
        true => queues::with_figures(&visit.client).await.unwrap_or_default(),
        false => Vec::new(),
    }
}

fn filters(visit: &Visit, filter: &JobFilter, counts: &Counts) -> Markup {
    html! {
        form.filters method="get" action="/jobs" {
            @if let Some(tenant) = &visit.tenant { input type="hidden" name="tenant" value=(tenant); }
            @if !filter.fingerprint.is_empty() {
                input type="hidden" name="fingerprint" value=(filter.fingerprint);
                p.field.is-full { "Only jobs with the error " code { (filter.fingerprint) } ". " a href=(visit.url("/jobs")) { "Show all" } }
            }
            fieldset.field.is-full {
                legend.sr-only { "State" }
                div.chips {
                    label.chip { input type="radio" name="state" value="" checked[filter.state.is_empty()]; span { "any state" } }
                    @for state in JobState::ALL {
                        label.chip { input type="radio" name="state" value=(state.as_str()) checked[filter.state == state.as_str()]; span { (badge::job_word(state)) @if let Some(count) = counts.get(&state) { " " span.num data-figure id={ "count-" (state.as_str()) } { (amount::count(*count)) } } } }
                    }
                }
            }
            (form::field("queue", "Queue", &filter.queue, "media"))
            (form::field("kind", "Kind", &filter.kind, "video.*"))
            (form::field("tag", "Tag", &filter.tag, "trial"))
            (form::field("key", "Flow key", &filter.key, "provider-a"))
            div.acts { button.btn.is-primary { "Filter" } a.btn.is-quiet href=(visit.url("/jobs")) { "Clear" } }
        }
    }
}

/// What an act does to jobs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Retry,
    Cancel,
    Discard,
}

impl Verb {
    fn of(text: &str) -> Option<Verb> {
        match text.trim_end_matches("-all") {
            "retry" => Some(Verb::Retry),
            "cancel" => Some(Verb::Cancel),
            "discard" => Some(Verb::Discard),
            _ => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Verb::Retry => "retry",
            Verb::Cancel => "cancel",
            Verb::Discard => "discard",
        }
    }

    fn past(self) -> &'static str {
        match self {
            Verb::Retry => "retried",
            Verb::Cancel => "cancelled",
            Verb::Discard => "discarded",
        }
    }

    fn effect(self) -> &'static str {
        match self {
            Verb::Retry => "They run again, with a new hold if they had one.",
            Verb::Cancel => "Those that wait do not run; those that run are told to stop.",
            Verb::Discard => "Dead jobs end for good. Their payloads stay until their retention ends.",
        }
    }

    /// Returns whether a job can be changed so now.
    pub(crate) fn allows(self, job: &JobAnswer) -> bool {
        job.acts.contains(&match self {
            Verb::Retry => JobAct::Retry,
            Verb::Cancel => JobAct::Cancel,
            Verb::Discard => JobAct::Discard,
        })
    }

    async fn run(self, client: &Client, selection: &SelectionBody) -> Result<ActedAnswer, Failure> {
        Ok(match self {
            Verb::Retry => client.jobs().retry_all(selection).await?,
            Verb::Cancel => client.jobs().cancel_all(selection).await?,
            Verb::Discard => client.dead().discard(selection).await?,
        }
        .into_inner())
    }
}

fn selection(act: &Act, verb: Verb) -> Result<SelectionBody, Failure> {
    let ids = act.all("id").map(str::parse::<JobId>).collect::<Result<Vec<_>, _>>()?;
    let all = act.field("act").is_some_and(|act| act.ends_with("-all"));
    let mut filter = JobFilter::of(act).body()?;
    // Only dead jobs can be discarded, so that act takes no state.
    if verb == Verb::Discard {
        filter.state = None;
    }
    let reason = act.field("reason").map(str::to_owned);
    let base = SelectionBody { reason, ..SelectionBody::default() };
    Ok(if all {
        SelectionBody { filter: Some(filter), limit: Some(ACT_MAX), ..base }
    } else {
        SelectionBody { ids, ..base }
    })
}

/// Shows what an act would change, and asks. What is confirmed are the jobs of the preview, not those that match by then, unless there are
/// more than [`PINNED_MAX`].
async fn preview(act: Act) -> Result<Response, Failure> {
    let verb = act.field("act").and_then(Verb::of).ok_or(Failure::NoPage)?;
    let all = act.field("act").is_some_and(|act| act.ends_with("-all"));
    let filter = JobFilter::of(&act);
    let mut selected = selection(&act, verb)?;
    if !all && selected.ids.is_empty() {
        return Ok(act
            .visit
            .go(&back(&act), &Flash::Failed("No job was selected, so nothing was changed.".to_owned())));
    }
    let jobs = if all { matching(&act.visit, &filter, verb).await? } else { chosen(&act.visit, &selected.ids).await? };
    let pinned = !all || jobs.len() <= PINNED_MAX;
    if pinned {
        let able = jobs.iter().filter(|job| verb.allows(job)).map(|job| job.id);
        selected = SelectionBody { ids: able.collect(), ..SelectionBody::default() };
    }
    let count = match pinned {
        true => selected.ids.len(),
        false => verb
            .run(&act.visit.client, &SelectionBody { dry_run: true, ..selected.clone() })
            .await?
            .matched
            .min(ACT_MAX),
    };
    let count = amount::count(count as i64);
    let noun = if count == "1" { "job" } else { "jobs" };
    let title = format!("{} {count} {noun}?", capital(verb.word()));
    let shown: Vec<JobAnswer> = jobs.into_iter().filter(|job| verb.allows(job)).take(20).collect();
    let facts = JobFacts::of(&act.visit, &shown, &queues(&act.visit).await).await;
    let visit = &act.visit;
    let value = if pinned { verb.word().to_owned() } else { format!("{}-all", verb.word()) };
    let danger = if verb == Verb::Retry { "" } else { "is-danger" };
    let body = html! {
        (head_of(visit, &[("/jobs", "Jobs")], &html! { (title) }, &html! {}, &html! {}))
        section.card.confirm[verb != Verb::Retry] {
            div.card-body {
                p { (verb.effect()) }
                @if !pinned { p.warn { "These are the first that match, at most " (amount::count(ACT_MAX as i64)) ". Jobs that match by the time you confirm may be among them." } }
                @if all { (other_acts(visit, &act, &filter)) }
            }
            @if !shown.is_empty() { div.preview { (rows(visit, &shown, &facts, false)) } }
            div.card-body {
                @if pinned && selected.ids.is_empty() {
                    p { "No job is in a state that allows it, so there is nothing to " (verb.word()) "." }
                    a.btn href=(visit.url(&back(&act))) { "Back" }
                } @else {
                    form.form method="post" action=(visit.url("/jobs/-/act")) {
                        (form::token(visit))
                        input type="hidden" name="back" value=(back(&act));
                        @if pinned { @for id in &selected.ids { input type="hidden" name="id" value=(id); } } @else { (filter.hidden()) }
                        (form::field("reason", "Reason", "", "why, for the journal"))
                        div.form-acts {
                            button class={ "btn is-primary " (danger) } name="act" value=(value) { (capital(verb.word())) " " (count) " " (noun) }
                            a.btn.is-quiet href=(visit.url(&back(&act))) { "Back" }
                        }
                    }
                }
            }
        }
    };
    Ok(shell::page(visit, &title, &Live::Still, &body))
}

/// Returns the page that an act was started from.
fn back(act: &Act) -> String {
    let own = |path: &&str| path.starts_with("/jobs") || path.starts_with("/dead");
    act.field("back").filter(own).unwrap_or("/jobs").to_owned()
}

/// Returns the jobs that match a filter, up to one more than can be pinned.
async fn matching(visit: &Visit, filter: &JobFilter, verb: Verb) -> Result<Vec<JobAnswer>, Failure> {
    let mut query = filter.query()?;
    if verb == Verb::Discard {
        query.state = Some(JobState::Dead);
    }
    (query.cursor, query.limit) = (None, Some(PINNED_MAX + 1));
    let mut jobs = Vec::new();
    loop {
        let page = visit.client.jobs().list(&query).await?.into_inner();
        jobs.extend(page.items);
        query.cursor = page.next;
        if query.cursor.is_none() || jobs.len() > PINNED_MAX {
            return Ok(jobs);
        }
    }
}

/// Returns the jobs that were selected.
async fn chosen(visit: &Visit, ids: &[JobId]) -> Result<Vec<JobAnswer>, Failure> {
    let mut jobs = Vec::new();
    for id in ids.iter().take(PAGE) {
        jobs.extend(visit.client.jobs().show(*id).await.ok().map(|job| job.into_inner()));
    }
    Ok(jobs)
}

/// Shows the other acts on the same filter.
fn other_acts(visit: &Visit, act: &Act, filter: &JobFilter) -> Markup {
    let chosen = act.field("act").unwrap_or_default();
    html! {
        form method="post" action=(visit.url("/jobs/-/preview")) {
            (form::token(visit))
            (filter.hidden())
            input type="hidden" name="back" value=(back(act));
            div.acts {
                span.muted { "Act on all that match:" }
                @for (value, label) in [("retry-all", "Retry"), ("cancel-all", "Cancel"), ("discard-all", "Discard")] {
                    button.btn.is-small name="act" value=(value) aria-pressed=[(value == chosen).then_some("true")] { (label) }
                }
            }
        }
    }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

async fn act_on(act: Act) -> Result<Response, Failure> {
    let verb = act.field("act").and_then(Verb::of).ok_or(Failure::NoPage)?;
    let done = verb.run(&act.visit.client, &selection(&act, verb)?).await?;
    let refused = match done.refused {
        0 => String::new(),
        1 => "; the state of one did not allow it".to_owned(),
        refused => format!("; the states of {refused} did not allow it"),
    };
    let rest = if done.next.is_some() { "; more jobs match: act again for the next ones" } else { "" };
    let noun = if done.done == 1 { "job" } else { "jobs" };
    let text = format!("{} {noun} {}{refused}{rest}.", done.done, verb.past());
    Ok(act.visit.go(&back(&act), &if done.done == 0 { Flash::Failed(text) } else { Flash::Done(text) }))
}
