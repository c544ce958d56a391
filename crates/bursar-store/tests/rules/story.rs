//! Stories: tests written as lines of requests with their expected answers.
//!
//! A line is `request => answer`. A line that begins with `+` is sent in one transaction with the line before it; all
//! others have a transaction of their own, which takes a microsecond. Words of a request:
//!
//! | word | meaning |
//! | --- | --- |
//! | `a=5` | a charge (or an actual) of 5 on scope `a` |
//! | `a=5(9/day,…)` | the same under limits of the caller |
//! | `a=5[9/day,…]` | the same with a default budget |
//! | `a=5!` | the same, refusing overruns and late commits |
//! | `redeem:g:purpose:subject` | redeems the grant `g`; `g!` presents a wrong secret |
//! | `job:queue:key:grant` | enqueues a job; the key, and `grant` to use the grant's payload, are optional |
//! | `on-expiry=5` | the expiry of the hold posts 5 units of each charge |
//! | `ttl=5s`, `key=k`, `dry`, `tenant=t` | TTL, idempotency key, dry run, tenant |
//! | `as=p:media` | the principal `p`, which reaches the namespace `media`, works through a server |

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bursar_core::answer::Outcome;
use bursar_core::budget::{Budget, Cover, Limit};
use bursar_core::context::{Context, Reporter};
use bursar_core::credential::Pattern;
use bursar_core::decide::Rules;
use bursar_core::grant::{Token, TokenDigest};
use bursar_core::hold::OnExpiry;
use bursar_core::id::{BlobId, GrantId, HoldId, IdSource, JobId};
use bursar_core::job::JobSpec;
use bursar_core::name::{IdempotencyKey, JobKind, LeaseOwner, Purpose, Queue, Scope, Subject, Tenant};
use bursar_core::notation::Unit;
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Actual, Charge, Command, Mint, Op, Redemption, Request, Settle};
use bursar_core::time::{Span, Time};
use bursar_store::conformance::CommitRequests;
use bursar_store::prelude::*;
use bursar_store::{Clock, LockPolicy, ManualClock, MemoryStore, RequestOutcome, Setup};
use futures_util::FutureExt;

/// A Sunday, 2026-11-15 at noon in UTC.
pub(crate) const NOON: Time = Time::from_micros(1_794_744_000_000_000);

/// Runs a story on a new store, and panics if an answer is not the expected one.
#[track_caller]
pub(crate) fn story(text: &str) {
    World::default().tell(text);
}

/// A store with a clock, and the names that a story gives to holds, grants and jobs.
pub(crate) struct World {
    pub(crate) store: MemoryStore,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) holds: BTreeMap<String, HoldId>,
    pub(crate) grants: BTreeMap<String, Token>,
    pub(crate) jobs: Vec<JobId>,
    /// The jobs that the story has named.
    pub(crate) names: BTreeMap<String, JobId>,
    pub(crate) blobs: BTreeMap<String, BlobId>,
    /// The number of events that `events` has shown.
    pub(crate) events_shown: u64,
}

pub(crate) struct Counter(pub(crate) u128);

impl IdSource for Counter {
    fn next_id(&mut self, _: Time) -> u128 {
        self.0 += 1;
        self.0
    }
}

impl Default for World {
    fn default() -> World {
        World::with(Rules::default())
    }
}

impl World {
    pub(crate) fn with(rules: Rules) -> World {
        let clock = Arc::new(ManualClock::at(NOON));
        let ids = Arc::new(Mutex::new(Counter(0)));
        let store = MemoryStore::new(Setup { rules, clock: Some(clock.clone()), ids, migrate: true });
        World {
            store,
            clock,
            holds: BTreeMap::new(),
            grants: BTreeMap::new(),
            jobs: Vec::new(),
            names: BTreeMap::new(),
            blobs: BTreeMap::new(),
            events_shown: 0,
        }
    }

    #[track_caller]
    pub(crate) fn tell(&mut self, text: &str) {
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let (mut at, mut wrong) = (0, String::new());
        while at < lines.len() {
            let more = lines[at + 1..].iter().take_while(|line| line.starts_with('+')).count();
            let (requests, expected): (Vec<&str>, Vec<&str>) = lines[at..=at + more]
                .iter()
                .map(|line| line.trim_start_matches('+').split_once("=>").unwrap_or((line, "")))
                .map(|(request, expected)| (request.trim(), expected.trim()))
                .unzip();
            for ((line, answer), expected) in requests.iter().zip(self.answer(&requests)).zip(expected) {
                if answer != expected {
                    wrong.push_str(&format!("\n  {line}\n    answered: {answer}\n    expected: {expected}"));
                }
            }
            at += more + 1;
        }
        assert!(wrong.is_empty(), "answers differ from the story:{wrong}");
        self.rebuild();
    }

    /// Returns the answers to the lines of one transaction.
    fn answer(&mut self, lines: &[&str]) -> Vec<String> {
        if let [line] = lines
            && let Some(text) = self.look(line)
        {
            return vec![text];
        }
        let requests: Vec<Request> = lines.iter().map(|line| self.request(line)).collect();
        let answers = self.commit(requests);
        lines.iter().zip(answers).map(|(line, answer)| self.render(line, answer)).collect()
    }

    pub(crate) fn commit(&mut self, requests: Vec<Request>) -> Vec<Result<Outcome, Refusal>> {
        self.clock.advance(Span::from_micros(1));
        let requests: Vec<_> = requests.into_iter().map(Arc::new).collect();
        let mut answers: Vec<Option<Result<Outcome, Refusal>>> = vec![None; requests.len()];
        // As the engine does, submit only the unanswered requests again.
        while answers.iter().any(Option::is_none) {
            let open: Vec<usize> = (0..requests.len()).filter(|index| answers[*index].is_none()).collect();
            let unanswered: Vec<_> = open.iter().map(|index| requests[*index].clone()).collect();
            let outcomes = self.store.commit_requests(&unanswered, LockPolicy::Skip).now_or_never().unwrap().unwrap();
            for (index, outcome) in open.into_iter().zip(outcomes) {
                if let RequestOutcome::Answered(answer) = outcome {
                    answers[index] = Some(answer);
                }
            }
        }
        answers.into_iter().flatten().collect()
    }

    /// Moves of the clock, and reads. `None` if the line is a request.
    fn look(&mut self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some(match words[..] {
            ["after", time] => {
                self.clock.advance(span(time));
                String::new()
            }
            ["back", time] => {
                self.clock.turn_back(span(time));
                String::new()
            }
            ["left", scope] => self.left(scope),
            ["held", scope] => self.scope_row(scope).balances[0].held.to_string(),
            ["state", hold] => {
                let hold =
                    self.store.hold(&Tenant::built_in(), self.holds[hold]).now_or_never().unwrap().unwrap().unwrap();
                hold.state_at(self.clock.now()).to_string()
            }
            ["events"] => self.events(),
            ["job", name] => self.job_words(name),
            ["due"] => self.due_words(),
            ["figures", queue] => self.figure_words(queue),
            ["dead"] => self.dead_words(),
            ["blob", name] => self.blob_words(name),
            ["line", queue, key] => self.line_words(queue, key),
            _ => return self.schedule_look(&words),
        })
    }

    fn request(&mut self, line: &str) -> Request {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let value = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let options = ["ttl", "key", "tenant", "parent", "trip", "at", "late", "overrun", "life", "unit", "on-expiry"];
        let is_option = |word: &&&str| **word == "dry" || options.iter().any(|o| word.starts_with(&format!("{o}=")));
        let plain: Vec<&str> = words.iter().filter(|word| !is_option(word)).copied().collect();
        let ttl = || value("ttl").map(span);
        let on_expiry = value("on-expiry").map_or(OnExpiry::Release, |units| OnExpiry::Charge(units.parse().unwrap()));
        let submit = |command: Command| Op::Submit(Command { on_expiry, ..command });
        let op = match verb {
            "define" => Op::Define { scope: scope(plain[0]), budget: budget(&plain[1..], value) },
            "post" => submit(self.command(&plain, Settle::Now)),
            "hold" => submit(self.command(&plain[1..], Settle::Hold { ttl: ttl() })),
            "owned" => submit(self.command(&plain[1..], Settle::Job)),
            "commit" => Op::Commit { hold: self.named(plain[0]), actual: actual(&plain[1..]) },
            "release" => Op::Release { hold: self.named(plain[0]) },
            "extend" => Op::Extend { hold: self.named(plain[0]), by: span(plain[1]) },
            "credit" => Op::Credit {
                scope: scope(plain[0]),
                amount: plain[1].parse().unwrap(),
                hold: plain.get(2).map(|hold| self.named(hold)),
            },
            "remove-budget" => Op::RemoveBudget { scope: scope(plain[0]) },
            "freeze" => Op::Freeze { scope: scope(plain[0]) },
            "unfreeze" => Op::Unfreeze { scope: scope(plain[0]) },
            "tidy" => Op::Tidy { scopes: plain.iter().map(|name| scope(name)).collect() },
            "sweep" => Op::Expire { holds: self.holds.values().copied().collect() },
            "mint" => self.mint(&plain, ttl().unwrap_or(Span::from_secs(60))),
            "revoke" => Op::Revoke { grant: self.token(plain[0]).id() },
            "purge" => Op::PurgeGrants { grants: self.grants.values().map(Token::id).collect() },
            other => self.work(other, &words),
        };
        let tenant = value("tenant").map_or_else(Tenant::built_in, |name| Tenant::new(name).unwrap());
        let request = Request { dry_run: words.contains(&"dry"), ..Request::from(op) };
        let request = request.in_context(Context { reporter: value("as").map(reporter), ..Context::of(tenant) });
        match value("key") {
            Some(key) => request.with_key(IdempotencyKey::new(key).unwrap()),
            None => request,
        }
    }

    /// Returns the id of a hold by its name in the story; of no hold if the name is unknown.
    fn named(&self, name: &str) -> HoldId {
        self.holds.get(name).copied().unwrap_or(HoldId(u128::MAX))
    }

    fn token(&self, name: &str) -> Token {
        self.grants.get(name).cloned().unwrap_or_else(|| Token::new(GrantId(u128::MAX), [0; 32]))
    }

    fn mint(&mut self, words: &[&str], ttl: Span) -> Op {
        let number = self.grants.len() as u128 + 1;
        let token = Token::new(GrantId(number), [7; 32]);
        self.grants.insert(words[0].to_owned(), token.clone());
        Op::Mint(Mint {
            id: token.id(),
            digest: token.digest(),
            purpose: Purpose::new(words[1]).unwrap(),
            subject: Subject::new(words[2]).unwrap(),
            payload: words.get(3).map_or_else(Payload::default, |json| Payload::new(json).unwrap()),
            ttl,
        })
    }

    fn command(&self, words: &[&str], settle: Settle) -> Command {
        let mut command = Command { settle, ..Command::default() };
        for word in words {
            if let Some(redeem) = word.strip_prefix("redeem:") {
                let parts: Vec<&str> = redeem.split(':').collect();
                let token = self.token(parts[0].trim_end_matches('!'));
                let digest = if parts[0].ends_with('!') { TokenDigest([0; 32]) } else { token.digest() };
                let (purpose, subject) = (Purpose::new(parts[1]).unwrap(), Subject::new(parts[2]).unwrap());
                command.redeem.push(Redemption { purpose, subject, grant: token.id(), digest });
            } else if let Some(job) = word.strip_prefix("job:") {
                let mut parts = job.split(':');
                let queue = Queue::new(parts.next().unwrap()).unwrap();
                let mut spec = JobSpec::new(queue, JobKind::new("work").unwrap(), Payload::default());
                spec.idempotency_key = parts.next().filter(|k| !k.is_empty()).map(|k| IdempotencyKey::new(k).unwrap());
                spec.payload_from_grant = parts.next() == Some("grant");
                command.jobs.push(spec);
            } else {
                command.charges.push(charge(word));
            }
        }
        command
    }
}

/// Parses a principal and the namespace that it reaches.
fn reporter(text: &str) -> Arc<Reporter> {
    let (owner, namespace) = text.split_once(':').unwrap();
    let namespaces = vec![Pattern::new(namespace).unwrap()];
    Arc::new(Reporter { owner: LeaseOwner::new(owner).unwrap(), charges: Vec::new(), namespaces })
}

pub(crate) fn scope(name: &str) -> Scope {
    Scope::new(name).unwrap()
}

pub(crate) fn span(text: &str) -> Span {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let micros = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        other => panic!("{other:?} is not a unit of time"),
    };
    Span::from_micros(number.parse::<i64>().unwrap() * micros)
}

fn limit(text: &str) -> Limit {
    let (amount, window) = text.split_once('/').unwrap();
    Limit::new(amount.parse().unwrap(), window.parse().unwrap())
}

pub(crate) fn charge(word: &str) -> Charge {
    let (name, rest) = word.split_once('=').unwrap();
    let cover = rest.ends_with('!').then_some(Cover::Refuse);
    let rest = rest.trim_end_matches('!');
    let limits = |text: &str| text.split(',').filter(|text| !text.is_empty()).map(limit).collect::<Vec<_>>();
    let (rest, default) = match rest.trim_end_matches(']').split_once('[') {
        Some((rest, default)) => (rest, Some(Arc::new(Budget::new(limits(default)).by_default()))),
        None => (rest, None),
    };
    let (amount, given) = rest.split_once('(').unwrap_or((rest, ""));
    let given = limits(given.trim_end_matches(')'));
    Charge { cover, default, ..Charge::new(scope(name), amount.parse().unwrap()).within(given) }
}

fn actual(words: &[&str]) -> Actual {
    match words {
        [] => Actual::Held,
        [one] if !one.contains('=') => Actual::Amount(one.parse().unwrap()),
        each => Actual::Each(each.iter().map(|word| charge(word)).map(|c| (c.scope, c.amount)).collect()),
    }
}

fn budget<'a>(limits: &[&str], value: impl Fn(&str) -> Option<&'a str>) -> Budget {
    let cover = |word: Option<&str>| if word == Some("refuse") { Cover::Refuse } else { Cover::Charge };
    let mut budget = Budget::new(limits.iter().map(|text| limit(text)));
    budget.parent = value("parent").map(scope);
    budget = budget.counting(&Unit::named(value("unit").unwrap_or_default()));
    budget.trip = value("trip").map(limit);
    budget.thresholds = value("at").map_or(Vec::new(), |at| at.split(',').map(|p| p.parse().unwrap()).collect());
    budget.hold.late = cover(value("late"));
    budget.hold.overrun = cover(value("overrun"));
    budget.hold.life_max = value("life").map(span);
    if let Some(policy) = value("ttl") {
        let parts: Vec<Span> = policy.split("..").map(span).collect();
        budget.hold.ttl_min = parts[0];
        budget.hold.ttl = (parts.len() > 2).then(|| parts[1]);
        budget.hold.ttl_max = Some(parts[parts.len() - 1]);
    }
    budget
}
