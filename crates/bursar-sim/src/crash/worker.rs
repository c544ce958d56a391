//! The life of a process that is going to be killed: several callers that ask without a pause.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bursar::{Bursar, GrantId, HoldId};
use bursar_core::grant::Token;
use bursar_core::id::uuid_v7;
use bursar_core::time::Time;
use bursar_store::{Clock, SystemClock};

use super::act::{Act, Told};
use super::diary::{Diary, Line};
use super::dice::Dice;
use super::hand::Hand;
use super::leases::LeaseId;

/// Scopes with a cap each. The first ones have one parent, whose cap is below their sum.
pub(crate) const TEAMS: [&str; 4] = ["team:0", "team:1", "team:2", "team:3"];
pub(crate) const UNDER: usize = 2;
pub(crate) const ORG: &str = "org";
/// A scope for holds that expire before they are settled.
pub(crate) const BRIEF: &str = "brief";

/// Callers in a process.
const CALLERS: usize = 6;
/// Workers in a process, beside them.
const HANDS: usize = 2;
/// How often lapsed leases are looked for: often, as nobody lives long.
const RESCUE: Duration = Duration::from_millis(50);
/// Between two attempts to open the database of a server that is down.
const PAUSE: Duration = Duration::from_millis(25);
/// Job keys that callers share in a round, so that some find a job that is there already.
const SHARED_JOBS: u64 = 40;

/// What a process is told when it is started.
pub(crate) struct Orders {
    pub(crate) url: String,
    pub(crate) diary: String,
    pub(crate) seed: u64,
    /// What keys begin with: no two processes have the same.
    pub(crate) name: String,
    /// Tokens that all processes know.
    pub(crate) tokens: String,
    /// Leases of those who were killed in earlier rounds.
    pub(crate) dead: String,
}

impl Orders {
    pub(crate) fn args(&self) -> [String; 6] {
        let Orders { url, diary, seed, name, tokens, dead } = self;
        [url.clone(), diary.clone(), seed.to_string(), name.clone(), tokens.clone(), dead.clone()]
    }

    pub(crate) fn parse(args: &[String]) -> Orders {
        let [url, diary, seed, name, tokens, dead] = args else { panic!("not the orders of a worker: {args:?}") };
        let seed = seed.parse().expect("a seed is a number");
        let [url, diary, name, tokens, dead] = [url, diary, name, tokens, dead].map(String::clone);
        Orders { url, diary, seed, name, tokens, dead }
    }
}

/// Asks until it is killed.
pub(crate) async fn live(orders: &Orders) {
    let diary = Arc::new(Diary::open(Path::new(&orders.diary)).expect("a diary can be kept"));
    let shared = std::fs::read_to_string(&orders.tokens).expect("the tokens can be read");
    let shared: Arc<Vec<String>> = Arc::new(shared.lines().map(str::to_owned).collect());
    let dead = std::fs::read_to_string(&orders.dead).expect("the leases of the dead can be read");
    let dead: Vec<LeaseId> = serde_json::from_str(&dead).expect("they are a list");
    let bursar = open(&orders.url).await;
    let mut dice = Dice::new(orders.seed);
    let callers: Vec<_> = (0..CALLERS)
        .map(|place| {
            let name = format!("{}-{place}", orders.name);
            let caller = Caller::new(name, dice.fork(), shared.clone());
            tokio::spawn(caller.ask_on(bursar.clone(), diary.clone()))
        })
        .collect();
    for place in 0..HANDS {
        let hand = Hand::new(&format!("{}-{place}", orders.name), dice.fork());
        tokio::spawn(hand.work_on(bursar.clone(), diary.clone(), dead.clone()));
    }
    for caller in callers {
        caller.await.expect("a caller does not panic");
    }
}

/// Opens the database, which may have been killed: that is tried until this process is killed too.
async fn open(url: &str) -> Bursar {
    loop {
        match Bursar::options(url).rescue(RESCUE).open().await {
            Ok(bursar) => return bursar,
            Err(error) => eprintln!("not open yet: {error}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// One caller, and what it has in hand.
pub(crate) struct Caller {
    name: String,
    dice: Dice,
    asked: u64,
    holds: Vec<(HoldId, i64)>,
    settled: Option<HoldId>,
    tokens: Vec<String>,
    shared: Arc<Vec<String>>,
}

impl Caller {
    pub(crate) fn new(name: String, dice: Dice, shared: Arc<Vec<String>>) -> Caller {
        Caller { name, dice, asked: 0, holds: Vec::new(), settled: None, tokens: Vec::new(), shared }
    }

    async fn ask_on(mut self, bursar: Bursar, diary: Arc<Diary>) {
        loop {
            self.ask_one(&bursar, &diary).await;
        }
    }

    /// Asks for something, with its diary; what was not heard or not done is asked once more at times.
    pub(crate) async fn ask_one(&mut self, bursar: &Bursar, diary: &Diary) {
        let act = self.next_act();
        self.asked += 1;
        let key = format!("{}-{}", self.name, self.asked);
        for _ in 0..2 {
            diary.write(&Line::Asks { key: key.clone(), act: act.clone() }).expect("a diary can be kept");
            let told = act.ask(bursar, &key).await;
            diary.write(&Line::Told { key: key.clone(), told: told.clone() }).expect("a diary can be kept");
            match told {
                Told::Done { made, .. } => return self.remember(&act, made.hold),
                Told::Refused(_) => return,
                Told::Unchanged(_) | Told::Unknown(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
            if self.dice.percent(50) {
                return;
            }
        }
    }

    fn remember(&mut self, act: &Act, hold: Option<HoldId>) {
        match act {
            Act::Hold { amount, .. } | Act::Metered { amount, owned: false, .. } => {
                self.holds.extend(hold.map(|hold| (hold, *amount)));
            }
            Act::Extend { hold, .. } => self.holds.push((*hold, 1)),
            Act::Commit { hold, .. } | Act::Release { hold } => self.settled = Some(*hold),
            Act::Mint { token } => self.tokens.push(token.clone()),
            Act::Metered { .. } | Act::Post { .. } => {}
        }
    }

    fn next_act(&mut self) -> Act {
        let kind = self.dice.below(100);
        let amount = i64::try_from(self.dice.between(1, 4)).unwrap_or(1);
        let scope = TEAMS[usize::try_from(self.dice.below(4)).unwrap_or(0)].to_owned();
        match kind {
            0..5 => return Act::Hold { scope: BRIEF.into(), amount, ttl_ms: self.dice.between(1, 60) },
            5..15 => return Act::Mint { token: token(&mut self.dice) },
            15..25 => return Act::Post { scope, amount: 1 },
            25..30 => {
                // Settled already: to be refused.
                if let Some(hold) = self.settled.take() {
                    return Act::Commit { hold, actual: 0 };
                }
            }
            30..55 => {
                let token = match self.dice.take(&mut self.tokens) {
                    Some(own) if self.dice.percent(60) => own,
                    _ => self.shared[usize::try_from(self.dice.below(self.shared.len() as u64)).unwrap_or(0)].clone(),
                };
                let round = self.name.split('-').next().unwrap_or_default();
                let owned = self.dice.percent(40);
                let job = match self.dice.percent(30) {
                    true => format!("job-{round}-{owned}-{}", self.dice.below(SHARED_JOBS)),
                    false => format!("job-{}-{}", self.name, self.asked),
                };
                return Act::Metered { scope, amount, token, job, owned };
            }
            55..85 => {
                if let Some((hold, held)) = self.dice.take(&mut self.holds) {
                    return match self.dice.below(10) {
                        0..5 => Act::Commit { hold, actual: self.dice.below(2).try_into().unwrap_or(0).min(held) },
                        5..9 => Act::Release { hold },
                        _ => Act::Extend { hold, by_ms: 1_000 },
                    };
                }
            }
            _ => {}
        }
        Act::Hold { scope, amount, ttl_ms: 12 * 3_600_000 }
    }
}

/// A new token. Its secret comes from the dice, so that what was asked can be asked again.
pub(crate) fn token(dice: &mut Dice) -> String {
    let now = SystemClock.now();
    let mut secret = [0; 32];
    secret.chunks_mut(8).for_each(|part| part.copy_from_slice(&dice.roll().to_le_bytes()));
    let random = u128::from(dice.roll()) << 64 | u128::from(dice.roll());
    Token::new(GrantId(uuid_v7(now.max(Time::from_micros(0)), random)), secret).reveal()
}
