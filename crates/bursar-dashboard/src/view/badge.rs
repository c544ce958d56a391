//! States: always a shape and a word.

use bursar_core::job::JobState;
use bursar_wire::blob::BlobStateWord;
use bursar_wire::event::EventAnswer;
use bursar_wire::window::WindowFields;
use maud::{Markup, html};

/// Shows a word with the shape of its class.
pub(crate) fn badge(class: &str, word: &str) -> Markup {
    html! { span class={ "badge is-" (class) } { (word) } }
}

/// Returns the class of a job's state.
pub(crate) fn job_class(state: JobState) -> &'static str {
    match state {
        JobState::Scheduled => "scheduled",
        JobState::Queued => "queued",
        JobState::AwaitingBudget => "awaiting",
        JobState::Leased => "running",
        JobState::Succeeded => "succeeded",
        JobState::Cancelled => "cancelled",
        JobState::Dead => "dead",
    }
}

/// Returns the word for a job's state.
pub(crate) fn job_word(state: JobState) -> &'static str {
    match state {
        JobState::Leased => "running",
        JobState::AwaitingBudget => "awaiting budget",
        other => other.as_str(),
    }
}

/// Shows the state of a job.
pub(crate) fn job(state: JobState) -> Markup {
    badge(job_class(state), job_word(state))
}

/// Shows the state of a blob.
pub(crate) fn blob(state: BlobStateWord) -> Markup {
    match state {
        BlobStateWord::Live => badge("ok", "live"),
        BlobStateWord::Pending => badge("running", "being uploaded"),
        BlobStateWord::Deleted => badge("off", "deleted"),
        BlobStateWord::Doomed => badge("off", "being removed"),
    }
}

/// Shows a word in the style of a state word that an answer has, such as that of a hold or a token.
pub(crate) fn of_word(word: &str) -> Markup {
    let class = match word {
        "good" | "open" => "ok",
        "held" | "active" | "placed" => "held",
        "committed" | "redeemed" | "succeeded" => "committed",
        "released" => "released",
        "expired" => "expired",
        "failed" | "rescued" => "failed",
        "revoked" => "cancelled",
        _ => "off",
    };
    badge(class, word)
}

/// Shows what the kind of an event leaves open: which threshold of which limit was crossed.
pub(crate) fn event_detail(event: &EventAnswer) -> Markup {
    let Some(percent) = event.data["percent"].as_u64().filter(|_| event.kind.starts_with("budget.c")) else {
        return html! {};
    };
    let window = serde_json::from_value::<WindowFields>(event.data.clone()).ok();
    html! { span.muted { (percent) " %" @if let Some(window) = window { " of " (window.shown(event.data["limit"].as_i64())) } } }
}

/// Shows the kind of a journal event.
pub(crate) fn event_kind(kind: &str) -> Markup {
    let class = match kind {
        "job.succeeded" | "hold.committed" | "budget.unfrozen" | "budget.cleared" => "is-good",
        "job.failed" | "job.rescued" | "job.dead_lettered" | "budget.tripped" | "budget.frozen" => "is-bad",
        "budget.crossed" | "budget.would_refuse" | "hold.expired" | "job.parked" => "is-warn",
        "budget.defined" | "queue.defined" | "schedule.defined" | "grant.minted" | "grant.revoked" => "is-act",
        _ => "",
    };
    html! { span class={ "kind " (class) } { (kind) } }
}
