//! Answers, refusals and events as the text that stories expect.

use bursar_core::answer::{Answer, Outcome, Settled, Submitted};
use bursar_core::event::{Charged, Event};
use bursar_core::name::Tenant;
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::scope::ScopeState;
use bursar_core::time::{Span, Time};
use bursar_store::Clock;
use bursar_store::prelude::*;
use futures_util::FutureExt;

use crate::story::{World, scope};

impl World {
    /// Formats the answer to a line, with the names of holds, jobs and grants. Gives a name to what the line created.
    pub(crate) fn render(&mut self, line: &str, answer: Result<Outcome, Refusal>) -> String {
        let outcome = match answer {
            Ok(outcome) => outcome,
            Err(refusal) => return self.refusal(&refusal),
        };
        if let Some(words) = self.schedule_answer(line, &outcome) {
            return words;
        }
        let again = if outcome.replayed { "again: " } else { "" };
        let words = match &outcome.answer {
            Answer::Submitted(submitted) => self.submitted(line, submitted),
            Answer::Settled(settled) => settled_words(settled),
            Answer::Extended { expires_at, clamped, .. } => {
                let warning = clamped.map(|clamped| format!(", {}", clamped.warning())).unwrap_or_default();
                format!("extended to {}{warning}", self.how_long(*expires_at))
            }
            Answer::Credited(credited) => {
                let words = ["credited"].into_iter().chain(credited.warnings()).collect::<Vec<_>>().join(", ");
                format!("{words}: {}", left(std::slice::from_ref(&credited.charge)))
            }
            Answer::Minted { expires_at, .. } => format!("minted for {}", self.how_long(*expires_at)),
            Answer::Swept { count } => format!("swept {count}"),
            Answer::Blob(answer) => self.uploaded(line, answer),
            Answer::Done => "done".to_owned(),
            Answer::Leased(_) | Answer::Renewed(_) | Answer::Finished(_) | Answer::Acted { .. } => {
                self.work_answer(&outcome.answer)
            }
        };
        format!("{again}{words}")
    }

    fn submitted(&mut self, line: &str, submitted: &Submitted) -> String {
        let mut said = Vec::new();
        if line.starts_with("enqueue ") {
            return self.enqueued(line, submitted);
        }
        if let Some(placed) = &submitted.hold {
            let name = line.split_whitespace().nth(1).unwrap().to_owned();
            let known = self.holds.iter().find(|(_, id)| **id == placed.id).map(|(name, _)| name.clone());
            let mut for_how_long = self.how_long(placed.expires_at);
            for warning in submitted.warnings() {
                for_how_long = format!("{for_how_long}, {warning}");
            }
            said.push(format!("{} held {for_how_long}: {}", known.as_ref().unwrap_or(&name), left(&placed.charges)));
            let dry = line.split_whitespace().any(|word| word == "dry");
            if known.is_none() && !dry {
                self.holds.insert(name, placed.id);
            }
        }
        if !submitted.posted.is_empty() {
            said.push(format!("posted: {}", left(&submitted.posted)));
        }
        for grant in &submitted.grants {
            let payload = grant.payload.as_ref().map_or("nothing", |payload| payload.as_str());
            said.push(format!("{} granted {payload}", grant.purpose));
        }
        for job in &submitted.jobs {
            if !self.jobs.contains(&job.id) {
                self.jobs.push(job.id);
            }
            let number = self.jobs.iter().position(|known| *known == job.id).unwrap() + 1;
            said.push(format!("job {number} {}", if job.created { "created" } else { "found" }));
        }
        said.join("; ")
    }

    pub(crate) fn refusal(&self, refusal: &Refusal) -> String {
        let mut text = match refusal {
            // The message hides the fault of a grant; a story shows it.
            Refusal::Refused(violations) => {
                let each = violations.iter().map(|violation| match violation {
                    Violation::Grant { fault, .. } => format!("{violation} ({fault})"),
                    // The message rounds the wait; a story shows it exactly.
                    Violation::Limit { retry_after: Some(wait), .. } => {
                        let text = violation.to_string();
                        let before = text.split(", room for it in about").next().unwrap();
                        format!("{before}, try again in {} ms at the earliest", wait.millis())
                    }
                    other => other.to_string(),
                });
                format!("refused: {}", each.collect::<Vec<_>>().join("; "))
            }
            other => other.to_string(),
        };
        for (name, id) in &self.holds {
            text = text.replace(&id.to_string(), name);
        }
        for (name, id) in &self.blobs {
            text = text.replace(&id.to_string(), name);
        }
        for (name, id) in &self.names {
            text = text.replace(&id.to_string(), name);
        }
        for (place, id) in self.jobs.iter().enumerate() {
            text = text.replace(&id.to_string(), &format!("job {}", place + 1));
        }
        for (name, token) in &self.grants {
            text = text.replace(&token.id().to_string(), name);
        }
        text
    }

    /// Formats the remaining units of each registered limit of a scope.
    pub(crate) fn left(&self, name: &str) -> String {
        let row = self.scope_row(name);
        let budget = row.budget.clone().expect("the story defined it");
        let each = budget.limits.iter().map(|limit| {
            let balance = row.balance(&limit.window).expect("a registered window exists");
            format!("{}/{} {}", balance.remaining(limit.amount), limit.amount, limit.window)
        });
        each.collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn scope_row(&self, name: &str) -> ScopeState {
        let row = self.store.scope(&(Tenant::built_in(), scope(name))).now_or_never().unwrap().unwrap();
        row.unwrap_or_default()
    }

    /// Formats the events since the last call.
    pub(crate) fn events(&mut self) -> String {
        let rows = self.store.list_journal(self.events_shown, 10_000).now_or_never().unwrap().unwrap();
        let mut said = Vec::new();
        for recorded in rows.iter().flat_map(|row| &row.batch.entries).flat_map(|entry| &entry.events) {
            self.events_shown += 1;
            said.push(event_words(&recorded.e));
        }
        said.join(", ")
    }

    pub(crate) fn how_long(&self, at: Time) -> String {
        if at == Time::NEVER { "for ever".to_owned() } else { span_words(at.since(self.clock.now())) }
    }
}

fn settled_words(settled: &Settled) -> String {
    let mut words = vec![settled.state.to_string()];
    words.extend(settled.warnings().iter().map(|warning| (*warning).to_owned()));
    // Without a budget there is no limit to show.
    format!("{}: {}", words.join(", "), left(&settled.charges)).trim_end().to_owned()
}

/// Formats the remaining units of each limit along each chain.
fn left(charges: &[Charged]) -> String {
    let mut said = Vec::new();
    for charge in charges {
        for left in &charge.balances {
            let scope = left.scope.as_ref().unwrap_or(&charge.scope);
            said.push(format!("{scope} {}/{} {}", left.remaining, left.limit, left.window));
        }
    }
    said.join(", ")
}

/// Formats a span in the largest fitting unit, rounded up to milliseconds.
fn span_words(span: Span) -> String {
    let units = [(3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
    let (unit, word) = units.into_iter().find(|(unit, _)| span.millis() % unit == 0).unwrap();
    format!("{}{word}", span.millis() / unit)
}

fn event_words(event: &Event) -> String {
    let kind = event.kind();
    match event {
        Event::BudgetCrossed { scope, window, percent, spent, .. } => {
            format!("{scope} crossed {percent}% of {window} with {spent}")
        }
        Event::BudgetCleared { scope, window, percent } => format!("{scope} cleared {percent}% of {window}"),
        Event::BudgetTripped { scope, window, spent, .. } => format!("{scope} tripped over {window} with {spent}"),
        Event::BudgetUnfrozen { scope, turned: true } => format!("{scope} thawed"),
        _ => kind.to_owned(),
    }
}
