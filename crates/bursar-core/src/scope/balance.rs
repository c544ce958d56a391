//! The balance of one window: what is posted and held in it.

use serde::{Deserialize, Serialize};

use super::{Bounds, DueStep, Posting, PostingMark, WindowHistory};
use crate::bounds::WINDOW_IDLE;
use crate::bucket::{clamp, full};
use crate::mutant::Mutant;
use crate::time::{Span, Time};
use crate::window::Window;

/// The units posted and held in one window.
///
/// How the kinds of windows count:
///
/// | window | holds that count | postings that count | changes with time |
/// | --- | --- | --- | --- |
/// | lifetime | all live ones | all | never |
/// | rolling | all live ones | those of the last `length` | postings are evicted as they leave |
/// | calendar | those placed in it | those whose instant lies in it | starts again from zero when it ends |
/// | bucket | those placed since it was opened | those since it was opened; they draw tokens | refills evenly |
///
/// # Which instant spend counts for
///
/// The held part of a committed hold is posted for the instant at which the hold was placed, so it stays in the window
/// in which it was admitted. The rest (an overrun, or all of a late commit) is posted for the instant of the commit.
/// Units that an expiry charges are posted for the instant of expiry; a late commit then posts what is missing for its
/// own instant, or gives back what is too much for that of the expiry. A
/// credit that names a hold reverses the rest first, each part at its instant. Only [`Balance::bounds`] defines what
/// belongs to a window: counting, opening a window and verifying the tables all use it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// The window.
    pub window: Window,
    /// The start of the window: it counts what was placed or posted from this instant on.
    pub since: Time,
    /// The end of the window; `NEVER` for all but calendar windows.
    pub until: Time,
    /// Units posted in it; always 0 for a bucket, whose level includes them.
    pub posted: i64,
    /// Units of live holds that count in it.
    pub held: i64,
    /// Rolling: postings up to this mark have left the window.
    pub evicted: PostingMark,
    /// Rolling: no posting leaves before this instant.
    pub next_eviction: Time,
    /// Bucket: the number of tokens, multiplied by the refill period in microseconds so that refilling never rounds.
    pub level: i128,
    /// Bucket: the instant at which `level` was computed.
    pub level_at: Time,
    /// The thresholds crossed, in percent.
    pub crossed: Vec<u32>,
    /// Whether spend passed the trip limit over this window. The limit trips again only after spend falls back or the
    /// window resets.
    pub tripped: bool,
    /// When an event last named the window, or when the balance was prepared.
    pub named: Time,
    /// Whether the balance was only prepared for a request and no event has named the window since; see
    /// [the module of scopes](crate::scope#windows-that-are-opened-later).
    pub prospective: bool,
}

impl Balance {
    /// Returns whether the balance is stored with its scope. A prospective bucket is not: its level depends on when it
    /// was opened, so each request that names it opens a new one.
    pub fn is_stored(&self) -> bool {
        !(self.prospective && matches!(self.window, Window::Bucket { .. }))
    }

    /// Opens a window at `now`, with the units that its history contains.
    pub fn open(window: Window, now: Time, past: WindowHistory) -> Balance {
        let (since, until) = Balance::opening(&window, now).expect("the zone of a window that is opened is known");
        let level = full(&window);
        let (evicted, next_eviction) = match window {
            Window::Rolling { length } => {
                ((now.before(length), u64::MAX), past.oldest.map_or(Time::NEVER, |at| at.after(length)))
            }
            _ => ((Time::MIN, 0), Time::NEVER),
        };
        let bucket = matches!(window, Window::Bucket { .. });
        Balance {
            window,
            since,
            until,
            posted: if bucket { 0 } else { past.posted },
            held: if bucket { 0 } else { past.held },
            evicted,
            next_eviction,
            level,
            level_at: if bucket { now } else { Time::default() },
            crossed: Vec::new(),
            tripped: false,
            named: now,
            prospective: false,
        }
    }

    /// Returns the start and end of a window opened at `now`, or `None` for a calendar window in a zone that this build
    /// does not know. A rolling window has neither: its marks say which postings count.
    pub(crate) fn opening(window: &Window, now: Time) -> Option<(Time, Time)> {
        match window {
            Window::Lifetime | Window::Rolling { .. } => Some((Time::MIN, Time::NEVER)),
            Window::Bucket { .. } => Some((now, Time::NEVER)),
            Window::Calendar { .. } => window.calendar_bounds(now),
        }
    }

    /// Returns the units spent: those posted, or for a bucket those taken out of it and not held.
    pub fn spent(&self) -> i64 {
        match self.window {
            // The bucket may refill while units are held, which would make this negative.
            Window::Bucket { capacity, .. } => {
                clamp(i128::from(capacity) - self.tokens() - i128::from(self.held)).max(0)
            }
            _ => self.posted,
        }
    }

    /// Returns the units that a limit of `amount` over this window leaves.
    pub fn remaining(&self, amount: i64) -> i64 {
        match self.window {
            Window::Bucket { .. } => clamp(self.tokens()),
            _ => clamp(i128::from(amount) - i128::from(self.posted) - i128::from(self.held)),
        }
    }

    /// Estimates how long until `amount` could fit under `limit`; `None` if time alone will not make it fit.
    ///
    /// This is when the next units come back by themselves: a refill, an eviction, the end of the window or an expiry.
    /// A release can make room sooner, and one expiry or eviction may not be enough.
    pub(crate) fn retry_after(&self, limit: i64, amount: i64, now: Time, next_expiry: Time) -> Option<Span> {
        if !self.could_fit(limit, amount) {
            return None;
        }
        // Where nothing refills meanwhile, expiries help only if all of them together make enough room.
        let refills = matches!(self.window, Window::Bucket { .. });
        let enough = i128::from(self.remaining(limit)) + i128::from(self.held) >= i128::from(amount);
        let freed_by_expiry = if self.held > 0 && (refills || enough) { next_expiry } else { Time::NEVER };
        let at = match self.window {
            Window::Bucket { refill: 0, .. } | Window::Lifetime => freed_by_expiry,
            Window::Bucket { refill, length, .. } => {
                let lacking = i128::from(amount) * i128::from(length.micros()) - self.level;
                let micros = lacking.div_euclid(i128::from(refill)) + i128::from(lacking % i128::from(refill) != 0);
                now.after(Span::from_micros(clamp(micros))).min(freed_by_expiry)
            }
            Window::Rolling { .. } => self.next_eviction.min(freed_by_expiry),
            Window::Calendar { .. } => self.until.min(freed_by_expiry),
        };
        (at < Time::NEVER).then(|| at.since(now))
    }

    /// Returns whether `amount` fits under `limit` in an empty window, or in this window without its holds. The latter
    /// can be more if credits made `posted` negative.
    pub(crate) fn could_fit(&self, limit: i64, amount: i64) -> bool {
        amount <= limit.max(clamp(i128::from(limit) - i128::from(self.posted)))
    }

    /// Returns which postings and which live holds belong to the window now.
    pub fn bounds(&self) -> Bounds {
        let (after, placed_from) = match self.window {
            Window::Lifetime => ((Time::MIN, 0), Time::MIN),
            Window::Rolling { .. } => (self.evicted, Time::MIN),
            Window::Bucket { .. } | Window::Calendar { .. } => {
                ((self.since.before(Span::from_micros(1)), u64::MAX), self.since)
            }
        };
        Bounds { after, placed_from, until: self.until }
    }

    /// Returns whether a hold placed at `placed_at` counts in the window.
    fn counts_hold(&self, placed_at: Time) -> bool {
        let Bounds { placed_from, until, .. } = self.bounds();
        placed_from <= placed_at && placed_at < until
    }

    /// Returns whether a posting made now counts in the window.
    fn counts_posting(&self, posting: &Posting) -> bool {
        let Bounds { after, until, .. } = self.bounds();
        (posting.at, posting.seq) > after && posting.at < until
    }

    /// Sets units aside.
    pub(super) fn add_hold(&mut self, now: Time, amount: i64) {
        if self.counts_hold(now) && !(self.prospective && Mutant::PreparedGoesStale.on()) {
            self.held += amount;
            self.draw(amount);
        }
    }

    /// Frees `held` units of a hold and adds postings. A bucket gets back only the difference, because its tokens left
    /// when the hold was placed.
    pub(super) fn settle(&mut self, placed_at: Time, held: i64, postings: &[Posting]) {
        let mut freed = 0;
        if held != 0 && self.counts_hold(placed_at) {
            self.held -= held;
            freed = held;
        }
        let counted = postings.iter().filter(|posting| self.counts_posting(posting));
        let spent: i64 = counted.map(|posting| posting.amount).sum();
        match self.window {
            Window::Bucket { .. } => self.draw(spent - freed),
            _ => self.posted += spent,
        }
        if let Window::Rolling { length } = self.window {
            let first = postings.iter().filter(|posting| self.counts_posting(posting)).map(|posting| posting.at).min();
            self.next_eviction = self.next_eviction.min(first.map_or(Time::NEVER, |at| at.after(length)));
        }
    }

    /// Takes out postings that left a rolling window. Returns false if more have left than `postings` contains.
    pub(super) fn evict(&mut self, postings: &DueStep<Posting>) -> bool {
        let Window::Rolling { length } = self.window else { return true };
        for posting in &postings.items {
            self.posted -= posting.amount * if Mutant::EvictTwice.on() { 2 } else { 1 };
            self.evicted = (posting.at, posting.seq);
        }
        if postings.more {
            self.next_eviction = self.evicted.0.after(length);
            return false;
        }
        self.next_eviction = postings.next.after(length);
        true
    }

    /// Brings the window to `now`, after everything that left it is folded.
    pub(super) fn advance(&mut self, now: Time) {
        self.refill(now);
        if let Window::Rolling { length } = self.window {
            // Needed even if no posting was due: the commit of an old hold posts for an instant before the window.
            self.evicted = self.evicted.max((now.before(length), u64::MAX));
        }
        self.start_window(now);
    }

    /// Starts a new calendar window if the stored one has ended by `now`.
    pub(super) fn start_window(&mut self, now: Time) {
        if now < self.until || !matches!(self.window, Window::Calendar { .. }) || Mutant::CalendarStands.on() {
            return;
        }
        // The start of the next window is unknown without the zone. The balance stays as it is, and requests on the
        // scope are refused.
        let Some((start, end)) = Balance::opening(&self.window, now) else { return };
        // Zone data may differ between builds, so a window never starts before the last one ended.
        self.since = start.max(self.until);
        self.until = end.max(now.after(Span::from_micros(1)));
        self.posted = 0;
        self.held = 0;
        self.crossed.clear();
        self.tripped = false;
    }

    /// Returns whether the window may be closed when its place is needed: no event has named it for [`WINDOW_IDLE`].
    pub(super) fn is_idle(&self, now: Time) -> bool {
        let closable = match self.window {
            Window::Lifetime => false,
            // A bucket opens full, so closing one that is not full would forget spend.
            Window::Bucket { capacity, .. } => self.held == 0 && self.tokens() >= i128::from(capacity),
            Window::Rolling { .. } | Window::Calendar { .. } => true,
        };
        closable && self.named.after(WINDOW_IDLE) < now
    }
}
