//! Faults by name, for the tests that must catch them.
//!
//! A place where a rule stands asks whether its fault is on. Without the feature `mutants`, which no shipped crate turns
//! on, the answer is a constant `false` and the question compiles to nothing.

macro_rules! mutants {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// A rule that can be taken away.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mutant {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Mutant {
            /// Every fault there is.
            pub const ALL: &[Mutant] = &[$(Mutant::$variant,)+];

            /// Its name on the command line and in reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Mutant::$variant => $name,)+ }
            }

            /// What it does, in one line.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Mutant::$variant => concat!($($doc,)+),)+ }
            }
        }
    };
}

mutants! {
    /// A hold that has expired can still be extended.
    SkipExpiryCheck = "skip-expiry-check",
    /// A hold that has expired goes on counting.
    CountExpired = "count-expired",
    /// A hold that has expired goes on counting where its charge stands in the row of the scope.
    ForgetRecent = "forget-recent",
    /// A late commit is answered, and not charged.
    ForgetLateCommit = "forget-late-commit",
    /// A late commit is charged although the hold's policy refuses it.
    ChargeLateAnyway = "charge-late-anyway",
    /// What a commit did not use stays held.
    KeepTheRest = "keep-the-rest",
    /// An overrun is not flagged.
    HideOverrun = "hide-overrun",
    /// A hold is settled on the chain its scopes have now, not the one it was placed on.
    SettlePresentChain = "settle-present-chain",
    /// A credit that names a hold is dated when that was placed, also where it takes back what went beyond the hold.
    CreditAtPlacing = "credit-at-placing",
    /// Ancestors are not charged.
    SkipAncestors = "skip-ancestors",
    /// One unit more than a limit leaves is admitted.
    OneTooMany = "one-too-many",
    /// A charge of nothing opens the windows that it names.
    NothingOpensWindows = "nothing-opens-windows",
    /// Limits that the caller gives are not looked at.
    IgnoreGivenLimits = "ignore-given-limits",
    /// The budget that a charge brings along takes the place of one that somebody defined.
    DefaultReplacesDefined = "default-replaces-defined",
    /// The budget that a charge brought along stays when others bring another.
    KeepOldDefault = "keep-old-default",
    /// A frozen scope admits spend.
    FrozenAdmits = "frozen-admits",
    /// A trip limit freezes nothing.
    NeverTrip = "never-trip",
    /// A threshold is told again each time.
    CrossTwice = "cross-twice",
    /// A posting that leaves a rolling window is taken out twice.
    EvictTwice = "evict-twice",
    /// A calendar window never turns.
    CalendarStands = "calendar-stands",
    /// A bucket is filled above its capacity.
    BucketOverflows = "bucket-overflows",
    /// A bucket that takes the place of another is full.
    RedefiningFills = "redefining-fills",
    /// A window that was kept for a refused request does not count the holds that are placed meanwhile.
    PreparedGoesStale = "prepared-goes-stale",
    /// A budget is put below another whatever is below it.
    ForgetBelow = "forget-below",
    /// Postings that a window still needs are rolled up.
    RollUpTooMuch = "roll-up-too-much",
    /// A grant that was redeemed can be redeemed again.
    RedeemTwice = "redeem-twice",
    /// A grant can be redeemed after its time.
    RedeemExpired = "redeem-expired",
    /// A key used for something else is not noticed.
    DropFingerprint = "drop-fingerprint",
    /// What was done under a key is not remembered.
    ForgetKey = "forget-key",
    /// A dry run writes.
    DryRunWrites = "dry-run-writes",
    /// A release is not written in the journal.
    ForgetReleaseEvent = "forget-release-event",
    /// Time follows the clock back.
    ClockGoesBack = "clock-goes-back",
    /// Rows are not locked in the one order.
    LockInAnyOrder = "lock-in-any-order",
    /// A batch that has a row waits for others that come before it.
    WaitOutOfTurn = "wait-out-of-turn",
    /// Balances are read before their rows are locked (in the simulated database).
    ReadBeforeLock = "read-before-lock",
    /// What was only looked at is written whatever became of it meanwhile (in the simulated database).
    WriteUnseen = "write-unseen",
    /// A row that somebody else has locked is taken for one that is not there.
    LockedIsGone = "locked-is-gone",
    /// A repetition that waited for its twin is refused for what the twin did.
    TwinIsRefused = "twin-is-refused",
    /// A caller is told that it is done, whatever became of the commit.
    AnswerBeforeCommit = "answer-before-commit",
    /// A request without a key is done again when it is not known whether it was done.
    RetryWithoutKey = "retry-without-key",
    /// Listeners are told twice.
    AnnounceTwice = "announce-twice",
    /// A worker can end a lease that is not its own.
    SkipFence = "skip-fence",
    /// A job that is leased again has the fence it had.
    SameFence = "same-fence",
    /// A principal reports on a lease that another one took.
    AnyoneReports = "anyone-reports",
    /// A principal charges scopes that are none of its job's.
    ChargeAnyScope = "charge-any-scope",
    /// The end of a lease is repeated with another usage.
    RepeatAnyUsage = "repeat-any-usage",
    /// A queue leases more at once than it may.
    IgnoreConcurrency = "ignore-concurrency",
    /// What a worker spent that lost its lease is charged as often as it reports it.
    BillLostTwice = "bill-lost-twice",
    /// A schedule enqueues a job for a tick that has been.
    TickTwice = "tick-twice",
    /// Finished jobs are removed before their time.
    ForgetTooSoon = "forget-too-soon",
    /// A rescue brings back a job that has ended meanwhile.
    RescueFinished = "rescue-finished",
    /// A lease is taken back although a heartbeat has put its lapse off.
    RescueEarly = "rescue-early",
    /// A job that is handed back has lost an attempt.
    BurnReturned = "burn-returned",
    /// A job that is put off has lost an attempt.
    BurnSnoozed = "burn-snoozed",
    /// A lease that lapsed was no attempt.
    FreeLapse = "free-lapse",
    /// A job is tried again after its last attempt.
    RetryForever = "retry-forever",
    /// A dead job keeps its hold.
    KeepDeadHold = "keep-dead-hold",
    /// What was held for a job is counted on when its hold is settled.
    CountSettled = "count-settled",
    /// What a failed attempt spent is not charged.
    ForgetFailedUsage = "forget-failed-usage",
    /// What a worker spent that lost its lease is not charged.
    DropLostSpend = "drop-lost-spend",
    /// What a worker reported with the end of its lease is charged again when it repeats it later.
    BillSettled = "bill-settled",
    /// A job that awaits its budget is never looked at again.
    NeverLookAgain = "never-look-again",
    /// When the first of a line goes, nobody steps up.
    LineStands = "line-stands",
    /// The first of a line stays barred when its key has a slot again.
    StayBarred = "stay-barred",
    /// A running job that is to be cancelled ends as dead.
    CancelledDies = "cancelled-dies",
    /// Jobs are leased from a paused queue.
    LeasePaused = "lease-paused",
    /// The slot of a lease is not given back at its end.
    LeakSlot = "leak-slot",
    /// A flow key leases more at once than it may.
    IgnoreKeyConcurrency = "ignore-key-concurrency",
    /// A queue leases more in a time than it may.
    IgnoreRate = "ignore-rate",
    /// The worst job is leased first.
    WorstFirst = "worst-first",
    /// The key of a forgotten job stays taken.
    KeepJobKey = "keep-job-key",
    /// SQLite answers before its commit is on the disk.
    SynchronousOff = "synchronous-off",
    /// SQLite answers when its commit is written, and syncs it when it is next copied into the database file.
    SynchronousNormal = "synchronous-normal",
}

#[cfg(feature = "mutants")]
static ON: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

impl Mutant {
    /// The fault of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Mutant> {
        Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name)
    }

    /// Whether this fault is on.
    #[cfg(not(feature = "mutants"))]
    #[must_use]
    #[inline(always)]
    pub const fn on(self) -> bool {
        false
    }

    /// Whether this fault is on.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn on(self) -> bool {
        ON.load(std::sync::atomic::Ordering::Relaxed) == self as u8 + 1
    }

    /// Turns one fault on for the whole process, or all of them off.
    #[cfg(feature = "mutants")]
    pub fn switch(to: Option<Mutant>) {
        ON.store(to.map_or(0, |mutant| mutant as u8 + 1), std::sync::atomic::Ordering::Relaxed);
    }
}
