//! What all callers asked for and were told, and whether it is so.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bursar::{Bursar, CommandId, Error, Event, GrantId, GrantState, HoldId, HoldState, JobId, JournalEvent};
use tokio::task::JoinSet;

use super::act::{Act, Made, Told};
use super::caps::Caps;
use super::diary::Line;
use super::hand::HAND;
use super::leases::{LeaseId, Leases, Whereabouts};

/// Findings that are kept: one fault shows itself many times.
const FINDINGS_MAX: usize = 40;
/// Requests that are asked again at once.
const AT_ONCE: usize = 200;
/// Events read at once.
const PAGE: usize = 1_000;
/// What the one who checks asks for under.
pub(crate) const OWN: &str = "checker";

/// Everything that was asked of one database, by key.
#[derive(Default)]
pub(crate) struct Book {
    asked: BTreeMap<String, Asked>,
    leases: Leases,
    /// Keys that came in since the last check.
    fresh: Vec<String>,
    /// Where the journal ended at the last check.
    checked: usize,
}

struct Asked {
    act: Act,
    told: Vec<Told>,
    /// Asked more often than answered: it was in flight when somebody died.
    open: usize,
}

/// What the book counted and what it found wrong.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) findings: Vec<String>,
    pub(crate) resolved_done: usize,
    pub(crate) resolved_not: usize,
    pub(crate) unknown_there: usize,
    /// Leases that lapsed since the last check, and those whose spend was charged late.
    pub(crate) rescued: usize,
    pub(crate) billed: usize,
}

/// A command of the journal.
struct Happened {
    command: CommandId,
    events: Vec<Event>,
}

impl Verdict {
    pub(crate) fn find(&mut self, text: String) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(text);
        }
    }
}

impl Asked {
    /// It was told that it is done.
    fn done(&self) -> Option<(CommandId, &Made)> {
        self.told.iter().find_map(|told| match told {
            Told::Done { command, made, .. } if !self.is_found(made) => Some((*command, made)),
            _ => None,
        })
    }

    /// It was told that the job which was to own its hold is there already: nothing is done, and nothing remembered.
    fn found(&self) -> Option<&Made> {
        self.all_found().next()
    }

    /// Every answer that named a job which was there.
    fn all_found(&self) -> impl Iterator<Item = &Made> {
        self.told.iter().filter_map(|told| match told {
            Told::Done { made, .. } if self.is_found(made) => Some(made),
            _ => None,
        })
    }

    fn is_found(&self, made: &Made) -> bool {
        matches!(self.act, Act::Metered { owned: true, .. }) && !made.created
    }

    fn unknown(&self) -> bool {
        self.done().is_none()
            && self.found().is_none()
            && (self.open > 0 || matches!(self.told.last(), Some(Told::Unknown(_))))
    }
}

impl Book {
    /// Takes in a diary.
    pub(crate) fn enter(&mut self, lines: Vec<Line>) {
        for line in lines {
            self.leases.enter(&line);
            match line {
                Line::Leased { .. } | Line::Ended { .. } | Line::Lost { .. } => {}
                Line::Asks { key, act } => {
                    if !self.asked.contains_key(&key) {
                        self.fresh.push(key.clone());
                    }
                    self.asked.entry(key).or_insert(Asked { act, told: Vec::new(), open: 0 }).open += 1;
                }
                Line::Told { key, told } => {
                    let asked = self.asked.get_mut(&key).expect("who was told had asked");
                    asked.open -= 1;
                    asked.told.push(told);
                }
            }
        }
    }

    /// Leases that the dead have left behind.
    pub(crate) fn open_leases(&self) -> Vec<LeaseId> {
        self.leases.open()
    }

    /// What came in so far was looked at before: it is still compared, but only what nobody knows is asked again.
    pub(crate) fn settle_for_good(&mut self) {
        self.fresh.retain(|key| self.asked[key].unknown());
    }

    /// Compares what was told with what is there, settles what nobody knows, and compares again.
    pub(crate) async fn check(&mut self, bursar: &Bursar) -> Result<Verdict, Error> {
        let mut verdict = Verdict::default();
        let before = read(bursar, &mut verdict).await?;
        self.compare(&before, &mut verdict);
        self.look(bursar, &before, &mut verdict).await?;
        self.ask_again(bursar, &before, &mut verdict).await;
        let after = read(bursar, &mut verdict).await?;
        if after.len() < before.len() || after[..before.len()] != before[..] {
            verdict.find("the journal of before is not the beginning of the journal".into());
        }
        self.compare(&after, &mut verdict);
        Caps::check(&after, bursar, &mut verdict).await?;
        let report = bursar.verify().await?;
        report.violations.iter().for_each(|violation| verdict.find(format!("verify: {violation}")));
        for event in &after[self.checked.min(after.len())..] {
            verdict.rescued += usize::from(matches!(event.event, Event::JobRescued { .. }));
            verdict.billed += usize::from(matches!(event.event, Event::JobBilled { lost: true, .. }));
        }
        self.checked = after.len();
        Ok(verdict)
    }

    /// What was told, against the journal.
    fn compare(&self, journal: &[JournalEvent], verdict: &mut Verdict) {
        let happened = by_key(journal);
        let jobs: HashSet<JobId> = journal.iter().filter_map(|event| enqueued(&event.event)).collect();
        let funded: HashSet<(HoldId, JobId)> = journal.iter().filter_map(|event| funding(&event.event)).collect();
        for (key, asked) in &self.asked {
            let found = happened.get(key.as_str()).map_or(&[][..], Vec::as_slice);
            if found.len() > 1 {
                verdict.find(format!("{key} was done {} times: {:?}", found.len(), asked.act));
            }
            match (asked.done(), found.first()) {
                (Some((command, made)), Some(first)) => {
                    if command != first.command {
                        verdict.find(format!("{key} was told {command}, and {} did it", first.command));
                    }
                    if *made != made_by(&first.events) {
                        verdict.find(format!("{key} was told of {made:?}, the journal has {:?}", first.events));
                    }
                }
                (Some((command, _)), None) => {
                    verdict.find(format!("{key} was told that {command} did it, and it is lost: {:?}", asked.act));
                }
                (None, Some(_)) if !asked.unknown() => {
                    verdict.find(format!("{key} was told that nothing was done, and it was: {:?}", asked.told));
                }
                (None, _) => {}
            }
            if let Some(job) = asked.found().and_then(|made| made.job)
                && !jobs.contains(&job)
            {
                verdict.find(format!("{key} was told that {job} is there already, and it is not"));
            }
            for made in asked.all_found() {
                let theirs = made.hold.zip(made.job).filter(|pair| !funded.contains(pair));
                theirs.iter().for_each(|(hold, job)| verdict.find(format!("{key} was told of {hold}, not {job}'s")));
            }
            if let Some(first) = found.first()
                && !whole(&asked.act, &first.events)
            {
                verdict.find(format!("{key} is not done as asked: {:?} became {:?}", asked.act, first.events));
            }
        }
        for (key, done) in happened {
            let known = self.asked.contains_key(key) || key == OWN || key.starts_with(HAND);
            for other in done.iter().filter(|done| !known && !is_upkeep(&done.events)) {
                verdict.find(format!("{key:?} did what nobody asked for: {:?}", other.events));
            }
        }
        once(journal, verdict);
        self.leases.compare(journal, verdict);
    }

    /// What the journal says of holds, jobs and grants since the last check, against their rows.
    async fn look(&self, bursar: &Bursar, journal: &[JournalEvent], verdict: &mut Verdict) -> Result<(), Error> {
        let touched: HashSet<HoldId> =
            journal.iter().skip(self.checked).filter_map(|event| hold_of(&event.event)).collect();
        let mut states: HashMap<HoldId, HoldState> = HashMap::new();
        let mut grants: HashMap<GrantId, GrantState> = HashMap::new();
        for event in journal {
            match &event.event {
                Event::HoldPlaced { hold, .. } => drop(states.insert(*hold, HoldState::Held)),
                Event::HoldCommitted { hold, .. } => drop(states.insert(*hold, HoldState::Committed)),
                Event::HoldReleased { hold, .. } => drop(states.insert(*hold, HoldState::Released)),
                Event::HoldExpired { hold, .. } => drop(states.insert(*hold, HoldState::Expired)),
                Event::GrantMinted { grant, .. } => drop(grants.insert(*grant, GrantState::Open)),
                Event::GrantRedeemed { grant, .. } => drop(grants.insert(*grant, GrantState::Redeemed)),
                _ => {}
            }
        }
        for hold in touched {
            let (found, said) = (bursar.ledger().find(hold).await?.map(|row| row.state), states.get(&hold).copied());
            if found != said {
                verdict.find(format!("{hold} is {found:?}, the journal says {said:?}"));
            }
        }
        let mut whereabouts = Whereabouts::default();
        journal.iter().for_each(|event| whereabouts.take(&event.event));
        let touched: BTreeSet<JobId> =
            journal.iter().skip(self.checked).filter_map(|event| event.event.job()).collect();
        whereabouts.check(touched, bursar, verdict).await?;
        let mut after = None;
        loop {
            let page = bursar.grants().list(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            for grant in &page {
                if grants.remove(&grant.id) != Some(grant.state) {
                    verdict.find(format!("{} is {:?}, and the journal says otherwise", grant.id, grant.state));
                }
            }
        }
        grants.into_keys().for_each(|grant| verdict.find(format!("{grant} was minted, and is not there")));
        Ok(())
    }

    /// Asks again for what nobody knows, and for what was done since the last check: one effect, one answer.
    async fn ask_again(&mut self, bursar: &Bursar, journal: &[JournalEvent], verdict: &mut Verdict) {
        let there: HashSet<&str> = by_key(journal).into_keys().collect();
        let fresh = std::mem::take(&mut self.fresh);
        let again: Vec<&String> = fresh.iter().filter(|key| self.asked[*key].asked_again()).collect();
        for keys in again.chunks(AT_ONCE) {
            let mut asking = JoinSet::new();
            for key in keys {
                let (key, act, bursar) = ((*key).clone(), self.asked[*key].act.clone(), bursar.clone());
                asking.spawn(async move {
                    let told = act.ask(&bursar, &key).await;
                    (key, told)
                });
            }
            for (key, told) in asking.join_all().await {
                let asked = self.asked.get_mut(&key).expect("it was asked");
                verdict.judge(&key, asked, there.contains(key.as_str()), &told);
                asked.open = 0;
                asked.told.push(told);
            }
        }
    }
}

impl Asked {
    fn asked_again(&self) -> bool {
        self.unknown() || self.done().is_some() || self.found().is_some()
    }
}

impl Verdict {
    /// Judges the answer to what was asked a second time.
    fn judge(&mut self, key: &str, asked: &Asked, was_there: bool, told: &Told) {
        let known = asked.done().map(|(command, made)| (command, made.clone()));
        match (told, known) {
            (Told::Done { replayed: false, made, .. }, None) if asked.found().is_some() => {
                // The job's next attempt may have a hold of its own by now; that it is its, the journal is asked.
                let same = |first: &Made| Made { hold: first.hold, ..made.clone() } == *first;
                if !asked.found().is_some_and(same) {
                    self.find(format!("{key} was told of {:?}, and now of {made:?}", asked.found()));
                }
            }
            (Told::Done { command, replayed: true, made }, Some(first)) => {
                if (*command, made.clone()) != first {
                    self.find(format!("{key} was answered {first:?}, and now {command} {made:?}"));
                }
            }
            (told, Some(first)) => self.find(format!("{key} was answered {first:?}, and now {told:?}")),
            (Told::Done { replayed, .. }, None) => {
                self.unknown_there += usize::from(was_there);
                self.resolved_done += usize::from(!was_there);
                if *replayed != was_there {
                    self.find(format!("{key} was there: {was_there}, and is answered as replayed: {replayed}"));
                }
            }
            (Told::Refused(_), None) if !was_there => self.resolved_not += 1,
            (told, None) => self.find(format!("{key} was there: {was_there}, and asked again it says {told:?}")),
        }
    }
}

/// The whole journal, whose positions must be dense.
async fn read(bursar: &Bursar, verdict: &mut Verdict) -> Result<Vec<JournalEvent>, Error> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let (page, at) = bursar.journal().read(after, PAGE).await?;
        all.extend(page);
        if at == after {
            break;
        }
        after = at;
    }
    if let Some((gap, event)) = (1..).zip(&all).find(|(place, event)| *place != event.position) {
        verdict.find(format!("position {} stands where {gap} should", event.position));
    }
    let end = bursar.health().await?.position;
    if end != after {
        verdict.find(format!("the journal can be read up to {after}, and says it ends at {end}"));
    }
    Ok(all)
}

/// The commands of the journal by the key they were asked under.
fn by_key(journal: &[JournalEvent]) -> HashMap<&str, Vec<Happened>> {
    let mut found: HashMap<&str, Vec<Happened>> = HashMap::new();
    for event in journal {
        let done = found.entry(event.context.correlation_id.as_deref().unwrap_or_default()).or_default();
        match done.iter_mut().rev().find(|done| done.command == event.command) {
            Some(same) => same.events.push(event.event.clone()),
            None => done.push(Happened { command: event.command, events: vec![event.event.clone()] }),
        }
    }
    found
}

fn made_by(events: &[Event]) -> Made {
    let mut made = Made::default();
    for event in events {
        match event {
            Event::JobEnqueued { job, .. } => (made.job, made.created) = (Some(*job), true),
            Event::JobFound { job } => made.job = Some(*job),
            Event::GrantMinted { grant, .. } => made.grant = Some(*grant),
            other => made.hold = made.hold.or(hold_of(other)),
        }
    }
    made
}

/// A hold that was placed for a job.
fn funding(event: &Event) -> Option<(HoldId, JobId)> {
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

fn hold_of(event: &Event) -> Option<HoldId> {
    match event {
        Event::HoldPlaced { hold, .. }
        | Event::HoldCommitted { hold, .. }
        | Event::HoldReleased { hold, .. }
        | Event::HoldExtended { hold, .. }
        | Event::HoldExpired { hold, .. } => Some(*hold),
        _ => None,
    }
}

/// Whether events are of the upkeep: holds that expired, jobs that were rescued, resumed or forgotten, or jobs that were to be
/// resumed and wait for another scope now.
fn is_upkeep(events: &[Event]) -> bool {
    let of_jobs = |event: &Event| {
        matches!(event, Event::JobRescued { .. } | Event::JobResumed { .. } | Event::JobForgotten { .. })
    };
    let waits = |event: &Event| matches!(event, Event::HoldExpired { .. } | Event::JobParked { .. });
    events.iter().any(of_jobs) || events.iter().all(waits)
}

/// Whether a command did all that was asked, and nothing else.
fn whole(act: &Act, events: &[Event]) -> bool {
    let placed = |event: &Event, at: &str, units: i64| match event {
        Event::HoldPlaced { charges, .. } | Event::Posted { charges } => {
            charges.len() == 1 && charges[0].scope.as_str() == at && charges[0].amount == units
        }
        _ => false,
    };
    match (act, events) {
        (Act::Hold { scope, amount, .. }, [event @ Event::HoldPlaced { .. }])
        | (Act::Post { scope, amount }, [event @ Event::Posted { .. }]) => placed(event, scope, *amount),
        (Act::Commit { hold, actual }, [Event::HoldCommitted { hold: of, charges, .. }]) => {
            hold == of && charges.len() == 1 && charges[0].actual == Some(*actual)
        }
        (Act::Release { hold }, [Event::HoldReleased { hold: of, .. }])
        | (Act::Extend { hold, .. }, [Event::HoldExtended { hold: of, .. }]) => hold == of,
        (Act::Mint { .. }, [Event::GrantMinted { .. }]) => true,
        (Act::Metered { scope, amount, job, owned, .. }, events) if events.len() == 3 => {
            let held = events.iter().any(|event| placed(event, scope, *amount));
            let redeemed = events.iter().any(|event| matches!(event, Event::GrantRedeemed { .. }));
            let enqueued = events.iter().any(|event| match event {
                Event::JobEnqueued { spec, hold, .. } => {
                    let key = spec.idempotency_key.as_ref().map(bursar::IdempotencyKey::as_str);
                    key == Some(job.as_str()) && hold.is_some() == *owned
                }
                // A job that was to own the hold is never just found: then nothing is done.
                Event::JobFound { .. } => !owned,
                _ => false,
            });
            held && redeemed && enqueued
        }
        _ => false,
    }
}

/// Grants are redeemed once, holds settled once, job keys used once.
fn once(journal: &[JournalEvent], verdict: &mut Verdict) {
    let (mut grants, mut settled) = (HashSet::new(), HashSet::new());
    let (mut keys, mut jobs) = (HashMap::<String, JobId>::new(), HashSet::new());
    for event in journal {
        match &event.event {
            Event::GrantRedeemed { grant, .. } if !grants.insert(*grant) => {
                verdict.find(format!("{grant} was redeemed a second time at {}", event.position));
            }
            Event::HoldCommitted { hold, .. } | Event::HoldReleased { hold, .. } if !settled.insert(*hold) => {
                verdict.find(format!("{hold} was settled a second time at {}", event.position));
            }
            Event::JobEnqueued { job, spec, .. } => {
                let key = spec.idempotency_key.as_ref().map(ToString::to_string).unwrap_or_default();
                jobs.insert(*job);
                if let Some(first) = keys.insert(key.clone(), *job) {
                    verdict.find(format!("{key} is the key of {first} and of {job}"));
                }
            }
            Event::JobFound { job } if !jobs.contains(job) => {
                verdict.find(format!("{job} was found at {} before it was enqueued", event.position));
            }
            _ => {}
        }
    }
}
