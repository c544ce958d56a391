//! The checker: compares all requests and responses with the journal and the rows.

use std::collections::{BTreeMap, HashMap, HashSet};

use bursar::{Bursar, CommandId, Error, Event, HoldId, JobId, JournalEvent};
use bursar_core::time::Span;
use tokio::task::JoinSet;

use super::client_log::LogLine;
use super::client_request::{ClientRequest, Created, Response};
use super::crash_worker::WORKER_PREFIX;
use super::leases::{LeaseId, LoggedLeases};
use super::limits::LimitCheck;
use super::opening::Opening;
use super::rows::Rows;

/// Findings kept per check; one fault causes many.
const FINDINGS_MAX: usize = 40;
/// Requests sent again at once.
const RESENT_AT_ONCE: usize = 200;
/// Events per journal page.
const PAGE: usize = 1_000;
/// The correlation id of the checker's own requests.
pub(crate) const CHECKER: &str = "checker";

/// All requests sent to one database, by key.
#[derive(Default)]
pub(crate) struct Checker {
    sent: BTreeMap<String, SentRequest>,
    leases: LoggedLeases,
    /// Keys added since the last check.
    new_keys: Vec<String>,
    /// Events in the journal at the last check.
    checked: usize,
    /// Segments in the archive at the last check.
    segments: u64,
    /// The last position of which a process was told that it is archived.
    archived: u64,
    /// How long rows are kept, if any are deleted.
    kept: Option<Span>,
    /// How long idempotency keys are kept, if any are deleted.
    keys_kept: Option<Span>,
}

/// A request with its responses.
struct SentRequest {
    request: ClientRequest,
    responses: Vec<Response>,
    /// Times sent without a response, because the process was killed.
    unanswered: usize,
}

/// The counts and findings of one check.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckReport {
    pub(crate) findings: Vec<String>,
    /// Requests with an unknown outcome that had taken effect.
    pub(crate) unknown_done: usize,
    /// Leases rescued since the last check, and those whose spend was charged late.
    pub(crate) rescued: usize,
    pub(crate) billed: usize,
    /// Segments of the journal that were archived since the last check.
    pub(crate) segments: u64,
    /// Rows that were deleted because they had been kept for long enough.
    pub(crate) removed: usize,
}

/// A command of the journal.
struct JournaledCommand {
    command: CommandId,
    events: Vec<Event>,
}

impl CheckReport {
    pub(crate) fn add(&mut self, text: String) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(text);
        }
    }
}

impl SentRequest {
    /// Returns the command and objects of the first response that reports an effect.
    fn done(&self) -> Option<(CommandId, &Created)> {
        self.responses.iter().find_map(|response| match response {
            Response::Done { command, created, .. } if !self.is_found(created) => Some((*command, created)),
            _ => None,
        })
    }

    /// Returns the first response that named an existing owner job. Such a command has no effect and takes no key.
    fn found(&self) -> Option<&Created> {
        self.all_found().next()
    }

    /// Returns every response that named an existing owner job.
    fn all_found(&self) -> impl Iterator<Item = &Created> {
        self.responses.iter().filter_map(|response| match response {
            Response::Done { created, .. } if self.is_found(created) => Some(created),
            _ => None,
        })
    }

    fn is_found(&self, created: &Created) -> bool {
        matches!(self.request, ClientRequest::Metered { owned: true, .. }) && !created.job_created
    }

    fn unknown(&self) -> bool {
        self.done().is_none()
            && self.found().is_none()
            && (self.unanswered > 0 || matches!(self.responses.last(), Some(Response::Unknown(_))))
    }
}

impl Checker {
    /// Returns a checker for a new database.
    pub(crate) fn of(database: &Opening) -> Checker {
        Checker { kept: database.kept(), keys_kept: database.keys_kept(), ..Checker::default() }
    }

    /// Adds the lines of a client log.
    pub(crate) fn add_log(&mut self, lines: Vec<LogLine>) {
        for line in lines {
            self.leases.add(&line);
            match line {
                LogLine::Leased { .. } | LogLine::Ended { .. } | LogLine::Lost { .. } => {}
                LogLine::Archived { last } => self.archived = self.archived.max(last),
                LogLine::Sent { key, request } => {
                    if !self.sent.contains_key(&key) {
                        self.new_keys.push(key.clone());
                    }
                    let new = SentRequest { request, responses: Vec::new(), unanswered: 0 };
                    self.sent.entry(key).or_insert(new).unanswered += 1;
                }
                LogLine::Received { key, response } => {
                    let sent = self.sent.get_mut(&key).expect("a response follows its request");
                    sent.unanswered -= 1;
                    sent.responses.push(response);
                }
            }
        }
    }

    /// Returns the leases that killed workers left open.
    pub(crate) fn open_leases(&self) -> Vec<LeaseId> {
        self.leases.open()
    }

    /// Marks the requests so far as checked before: later checks resend only those with an unknown outcome.
    pub(crate) fn mark_checked(&mut self) {
        self.new_keys.retain(|key| self.sent[key].unknown());
    }

    /// Compares the responses with the database, sends requests with an unknown outcome again, and compares once more.
    pub(crate) async fn check(&mut self, bursar: &Bursar) -> Result<CheckReport, Error> {
        let mut report = CheckReport::default();
        let before = read_journal(bursar, &mut report).await?;
        self.compare(&before, &mut report);
        Rows::of(&before, self.checked, self.kept).check(bursar, &mut report).await?;
        self.resend(bursar, &before, &mut report).await?;
        let after = read_journal(bursar, &mut report).await?;
        if after.len() < before.len() || after[..before.len()] != before[..] {
            report.add("the journal does not begin with its earlier events".into());
        }
        self.compare(&after, &mut report);
        LimitCheck::check(&after, bursar, &mut report).await?;
        let proof = bursar.journal().prove().await?;
        (report.segments, self.segments) = (proof.segments - self.segments, proof.segments);
        if proof.archived < self.archived {
            report.add(format!("position {} was archived, but the archive ends at {}", self.archived, proof.archived));
        }
        let verification = bursar.verify().await?;
        verification.violations.iter().for_each(|violation| report.add(format!("verify: {violation}")));
        for event in &after[self.checked.min(after.len())..] {
            report.rescued += usize::from(matches!(event.event, Event::JobRescued { .. }));
            report.billed += usize::from(matches!(event.event, Event::JobBilled { lost: true, .. }));
        }
        self.checked = after.len();
        Ok(report)
    }

    /// Compares the responses with the journal.
    fn compare(&self, journal: &[JournalEvent], report: &mut CheckReport) {
        let commands = by_key(journal);
        let jobs: HashSet<JobId> = journal.iter().filter_map(|event| enqueued(&event.event)).collect();
        let funded: HashSet<(HoldId, JobId)> = journal.iter().filter_map(|event| funding(&event.event)).collect();
        for (key, sent) in &self.sent {
            let found = commands.get(key.as_str()).map_or(&[][..], Vec::as_slice);
            if found.len() > 1 {
                report.add(format!("{key} was done {} times: {:?}", found.len(), sent.request));
            }
            match (sent.done(), found.first()) {
                (Some((command, created)), Some(first)) => {
                    if command != first.command {
                        report
                            .add(format!("{key} was acknowledged as {command}, but the journal has {}", first.command));
                    }
                    if *created != created_by(&first.events) {
                        report.add(format!(
                            "{key} was acknowledged with {created:?}, the journal has {:?}",
                            first.events
                        ));
                    }
                }
                (Some((command, _)), None) => {
                    report.add(format!("{key} was acknowledged as {command}, but it is lost: {:?}", sent.request));
                }
                (None, Some(_)) if !sent.unknown() => {
                    report.add(format!("{key} was reported as not done, but it was: {:?}", sent.responses));
                }
                (None, _) => {}
            }
            if let Some(job) = sent.found().and_then(|created| created.job)
                && !jobs.contains(&job)
            {
                report.add(format!("{key} was answered with the existing {job}, which does not exist"));
            }
            for named in sent.all_found() {
                let foreign = named.hold.zip(named.job).filter(|pair| !funded.contains(pair));
                foreign
                    .iter()
                    .for_each(|(hold, job)| report.add(format!("{key} was answered with {hold}, not {job}'s")));
            }
            if let Some(first) = found.first()
                && !is_complete(&sent.request, &first.events)
            {
                report.add(format!("{key} is not done as requested: {:?} became {:?}", sent.request, first.events));
            }
        }
        for (key, done) in commands {
            let known = self.sent.contains_key(key) || key == CHECKER || key.starts_with(WORKER_PREFIX);
            for other in done.iter().filter(|done| !known && !is_maintenance(&done.events)) {
                report.add(format!("{key:?} has an effect that was not requested: {:?}", other.events));
            }
        }
        check_unique(journal, report);
        self.leases.compare(journal, report);
    }

    /// Sends again the requests with an unknown outcome and those done since the last check: one effect, one answer. Leaves out those
    /// whose idempotency key has expired.
    async fn resend(
        &mut self,
        bursar: &Bursar,
        journal: &[JournalEvent],
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let now = bursar.now().await?;
        let key_of = |event: &JournalEvent| event.context.correlation_id.clone();
        let is_old = |event: &&JournalEvent| self.keys_kept.is_some_and(|kept| event.at.after(kept) <= now);
        let old: HashSet<String> = journal.iter().filter(is_old).filter_map(key_of).collect();
        let done: HashSet<&str> = by_key(journal).into_keys().collect();
        let forgotten: HashSet<JobId> = journal.iter().filter_map(|event| forgotten(&event.event)).collect();
        let new_keys = std::mem::take(&mut self.new_keys);
        let again: Vec<&String> =
            new_keys.iter().filter(|key| self.sent[*key].is_resent() && !old.contains(*key)).collect();
        for keys in again.chunks(RESENT_AT_ONCE) {
            let mut sending = JoinSet::new();
            for key in keys {
                let (key, request, bursar) = ((*key).clone(), self.sent[*key].request.clone(), bursar.clone());
                sending.spawn(async move {
                    let response = request.send(&bursar, &key).await;
                    (key, response)
                });
            }
            for (key, response) in sending.join_all().await {
                let sent = self.sent.get_mut(&key).expect("only sent requests are sent again");
                let is_forgotten = |job: JobId| forgotten.contains(&job);
                report.check_repetition(&key, sent, done.contains(key.as_str()), &response, is_forgotten);
                sent.unanswered = 0;
                sent.responses.push(response);
            }
        }
        Ok(())
    }
}

impl SentRequest {
    fn is_resent(&self) -> bool {
        self.unknown() || self.done().is_some() || self.found().is_some()
    }
}

impl CheckReport {
    /// Checks the response to a request that was sent again.
    fn check_repetition(
        &mut self,
        key: &str,
        sent: &SentRequest,
        was_done: bool,
        response: &Response,
        is_forgotten: impl Fn(JobId) -> bool,
    ) {
        let first = sent.done().map(|(command, created)| (command, created.clone()));
        match (response, first) {
            // The job that it named is gone, so that its key is free again.
            (Response::Done { replayed: false, .. } | Response::Refused(_), None)
                if sent.found().and_then(|found| found.job).is_some_and(&is_forgotten) => {}
            (Response::Done { replayed: false, created, .. }, None) if sent.found().is_some() => {
                // A later attempt of the job may have another hold; `compare` checks that the hold belongs to the job.
                let same = |first: &Created| Created { hold: first.hold, ..created.clone() } == *first;
                if !sent.found().is_some_and(same) {
                    self.add(format!("{key} was answered {:?}, and now {created:?}", sent.found()));
                }
            }
            (Response::Done { command, replayed: true, created }, Some(first)) => {
                if (*command, created.clone()) != first {
                    self.add(format!("{key} was answered {first:?}, and now {command} {created:?}"));
                }
            }
            (response, Some(first)) => self.add(format!("{key} was answered {first:?}, and now {response:?}")),
            (Response::Done { replayed, .. }, None) => {
                self.unknown_done += usize::from(was_done);
                if *replayed != was_done {
                    self.add(format!("{key} was done before: {was_done}, but is answered as replayed: {replayed}"));
                }
            }
            (Response::Refused(_), None) if !was_done => {}
            (response, None) => {
                self.add(format!("{key} was done before: {was_done}, but sent again it returns {response:?}"));
            }
        }
    }
}

/// Reads the whole journal and checks that its positions have no gap.
async fn read_journal(bursar: &Bursar, report: &mut CheckReport) -> Result<Vec<JournalEvent>, Error> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let (page, at) = bursar.journal().read(after, PAGE).await?;
        all.extend(page);
        if at == after {
            break;
        }
        after = at;
    }
    if let Some((expected, event)) = (1..).zip(&all).find(|(expected, event)| *expected != event.position) {
        report.add(format!("the journal has position {} where {expected} is expected", event.position));
    }
    let end = bursar.health().await?.position;
    if end != after {
        report.add(format!("the journal can be read up to {after}, but its reported end is {end}"));
    }
    Ok(all)
}

/// Groups the commands of the journal by correlation id.
fn by_key(journal: &[JournalEvent]) -> HashMap<&str, Vec<JournaledCommand>> {
    let mut found: HashMap<&str, Vec<JournaledCommand>> = HashMap::new();
    for event in journal {
        let done = found.entry(event.context.correlation_id.as_deref().unwrap_or_default()).or_default();
        match done.iter_mut().rev().find(|done| done.command == event.command) {
            Some(same) => same.events.push(event.event.clone()),
            None => done.push(JournaledCommand { command: event.command, events: vec![event.event.clone()] }),
        }
    }
    found
}

fn created_by(events: &[Event]) -> Created {
    let mut created = Created::default();
    for event in events {
        match event {
            Event::JobEnqueued { job, .. } => (created.job, created.job_created) = (Some(*job), true),
            Event::JobFound { job } => created.job = Some(*job),
            Event::GrantMinted { grant, .. } => created.grant = Some(*grant),
            other => created.hold = created.hold.or(hold_of(other)),
        }
    }
    created
}

/// Returns a hold placed for a job, with the job.
pub(crate) fn funding(event: &Event) -> Option<(HoldId, JobId)> {
    match event {
        Event::HoldPlaced { hold, job: Some(job), .. } => Some((*hold, *job)),
        _ => None,
    }
}

fn enqueued(event: &Event) -> Option<JobId> {
    match event {
        Event::JobEnqueued { job, .. } => Some(*job),
        _ => None,
    }
}

fn forgotten(event: &Event) -> Option<JobId> {
    match event {
        Event::JobForgotten { job } => Some(*job),
        _ => None,
    }
}

pub(crate) fn hold_of(event: &Event) -> Option<HoldId> {
    match event {
        Event::HoldPlaced { hold, .. }
        | Event::HoldCommitted { hold, .. }
        | Event::HoldReleased { hold, .. }
        | Event::HoldExtended { hold, .. }
        | Event::HoldExpired { hold, .. } => Some(*hold),
        _ => None,
    }
}

/// Returns whether maintenance wrote the events: expired holds; rescued, resumed or forgotten jobs; or jobs that maintenance
/// tried to resume and that now wait for another scope.
fn is_maintenance(events: &[Event]) -> bool {
    let of_jobs = |event: &Event| {
        matches!(event, Event::JobRescued { .. } | Event::JobResumed { .. } | Event::JobForgotten { .. })
    };
    let waits = |event: &Event| matches!(event, Event::HoldExpired { .. } | Event::JobParked { .. });
    events.iter().any(of_jobs) || events.iter().all(waits)
}

/// Returns whether the events are exactly what the request asks for.
fn is_complete(request: &ClientRequest, events: &[Event]) -> bool {
    let placed = |event: &Event, at: &str, units: i64| match event {
        Event::HoldPlaced { charges, .. } | Event::Posted { charges } => {
            charges.len() == 1 && charges[0].scope.as_str() == at && charges[0].amount == units
        }
        _ => false,
    };
    match (request, events) {
        (ClientRequest::Hold { scope, amount, .. }, [event @ Event::HoldPlaced { .. }])
        | (ClientRequest::Post { scope, amount }, [event @ Event::Posted { .. }]) => placed(event, scope, *amount),
        (ClientRequest::Commit { hold, actual }, [Event::HoldCommitted { hold: of, charges, .. }]) => {
            hold == of && charges.len() == 1 && charges[0].actual == Some(*actual)
        }
        (ClientRequest::Release { hold }, [Event::HoldReleased { hold: of, .. }])
        | (ClientRequest::Extend { hold, .. }, [Event::HoldExtended { hold: of, .. }]) => hold == of,
        (ClientRequest::Mint { .. }, [Event::GrantMinted { .. }]) => true,
        (ClientRequest::Metered { scope, amount, job, owned, .. }, events) if events.len() == 3 => {
            let held = events.iter().any(|event| placed(event, scope, *amount));
            let redeemed = events.iter().any(|event| matches!(event, Event::GrantRedeemed { .. }));
            let enqueued = events.iter().any(|event| match event {
                Event::JobEnqueued { spec, hold, .. } => {
                    let key = spec.idempotency_key.as_ref().map(bursar::IdempotencyKey::as_str);
                    key == Some(job.as_str()) && hold.is_some() == *owned
                }
                // A command whose owner job exists has no effect, and so no events.
                Event::JobFound { .. } => !owned,
                _ => false,
            });
            held && redeemed && enqueued
        }
        _ => false,
    }
}

/// Checks that grants are redeemed once, holds settled once and job keys used once.
fn check_unique(journal: &[JournalEvent], report: &mut CheckReport) {
    let (mut grants, mut settled) = (HashSet::new(), HashSet::new());
    let (mut keys, mut jobs) = (HashMap::<String, JobId>::new(), HashSet::new());
    for event in journal {
        match &event.event {
            Event::GrantRedeemed { grant, .. } if !grants.insert(*grant) => {
                report.add(format!("{grant} was redeemed a second time at position {}", event.position));
            }
            Event::HoldCommitted { hold, .. } | Event::HoldReleased { hold, .. } if !settled.insert(*hold) => {
                report.add(format!("{hold} was settled a second time at position {}", event.position));
            }
            Event::JobEnqueued { job, spec, .. } => {
                let key = spec.idempotency_key.as_ref().map(ToString::to_string).unwrap_or_default();
                jobs.insert(*job);
                if let Some(first) = keys.insert(key.clone(), *job) {
                    report.add(format!("{key} is the key of both {first} and {job}"));
                }
            }
            Event::JobForgotten { job } => keys.retain(|_, of| of != job),
            Event::JobFound { job } if !jobs.contains(job) => {
                report.add(format!("{job} was found at position {} before it was enqueued", event.position));
            }
            _ => {}
        }
    }
}
