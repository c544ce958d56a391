//! Named faults (mutants) that the simulator and the tests must detect.
//!
//! The code of a rule checks with `Mutant::X.on()` whether its fault is enabled. Without the feature `mutants`, which no
//! shipped crate enables, `on` is a constant `false` and compiles to nothing.

macro_rules! mutants {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// A fault that can be enabled, which breaks one rule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mutant {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Mutant {
            /// Every fault.
            pub const ALL: &[Mutant] = &[$(Mutant::$variant,)+];

            /// Returns its name on the command line and in reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Mutant::$variant => $name,)+ }
            }

            /// Returns a description in one line.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Mutant::$variant => concat!($($doc,)+),)+ }
            }
        }
    };
}

mutants! {
    /// A slice of a quota is used after its windows have ended.
    SpendOldSlice = "spend-old-slice",
    /// A slice of a quota gives out more units than were held.
    OverspendSlice = "overspend-slice",
    /// An expired hold can still be extended.
    SkipExpiryCheck = "skip-expiry-check",
    /// An expired hold still counts.
    CountExpired = "count-expired",
    /// An expired hold still counts if its charge is kept in the scope's row.
    ForgetRecent = "forget-recent",
    /// A late commit is acknowledged but not charged.
    ForgetLateCommit = "forget-late-commit",
    /// The units that the expiry of a hold charges are not posted.
    ForgetExpiryCharge = "forget-expiry-charge",
    /// A late commit is charged in full although the expiry of the hold has charged some of it.
    ChargeExpiryTwice = "charge-expiry-twice",
    /// A late commit is charged although the hold's policy refuses it.
    ChargeLateAnyway = "charge-late-anyway",
    /// A commit above the held amount is charged although the hold's policy refuses it.
    AdmitOverrun = "admit-overrun",
    /// A hold lives as long as its caller asks for, whatever the policies of its budgets say.
    IgnoreTtlPolicy = "ignore-ttl-policy",
    /// Extensions and requests exceed the longest life of a hold.
    IgnoreLifeMax = "ignore-life-max",
    /// A hold of another tenant can be settled and extended.
    SettleAcrossTenants = "settle-across-tenants",
    /// The units that a commit did not use stay held.
    KeepTheRest = "keep-the-rest",
    /// A hold is forgotten as soon as it has ended.
    ForgetEarly = "forget-early",
    /// A hold is forgotten although its job can be retried.
    ForgetOwned = "forget-owned",
    /// A hold is forgotten although the collection of its blob has to give back what it charged.
    ForgetPaying = "forget-paying",
    /// An overrun is not flagged.
    HideOverrun = "hide-overrun",
    /// A hold is settled on the current ancestors of its scopes, not on those it was placed on.
    SettlePresentChain = "settle-present-chain",
    /// A credit that names a hold counts for the instant of its placement, even where it reverses an overrun.
    CreditAtPlacing = "credit-at-placing",
    /// Ancestors are not charged.
    SkipAncestors = "skip-ancestors",
    /// A charge of one unit more than a limit leaves is admitted.
    OneTooMany = "one-too-many",
    /// A charge of 0 units opens the windows that it names.
    NothingOpensWindows = "nothing-opens-windows",
    /// Limits that the caller gives are ignored.
    IgnoreGivenLimits = "ignore-given-limits",
    /// A budget is removed while units are held on it.
    RemoveHeldBudget = "remove-held-budget",
    /// The default budget of a charge replaces one that a caller defined.
    DefaultReplacesDefined = "default-replaces-defined",
    /// The default budget of a charge stays when a charge has a different default.
    KeepOldDefault = "keep-old-default",
    /// A frozen scope admits spend.
    FrozenAdmits = "frozen-admits",
    /// A budget in shadow mode refuses.
    ShadowRefuses = "shadow-refuses",
    /// What a budget in shadow mode would have refused is not recorded.
    ForgetShadow = "forget-shadow",
    /// The payload of a job that has not ended is erased.
    EraseLive = "erase-live",
    /// A job whose payload was erased is retried.
    RetryErased = "retry-erased",
    /// The payload of a job stays in its row when it is erased.
    KeepErased = "keep-erased",
    /// The payload of a grant that can still be redeemed is erased.
    EraseOpenGrant = "erase-open-grant",
    /// A trip limit never freezes its scope.
    NeverTrip = "never-trip",
    /// A threshold is reported again with each posting.
    CrossTwice = "cross-twice",
    /// A posting that leaves a rolling window is subtracted twice.
    EvictTwice = "evict-twice",
    /// A calendar window never resets.
    CalendarStands = "calendar-stands",
    /// A bucket refills above its capacity.
    BucketOverflows = "bucket-overflows",
    /// A bucket that replaces another starts full.
    RedefiningFills = "redefining-fills",
    /// A window that was prepared for a refused request does not count later holds.
    PreparedGoesStale = "prepared-goes-stale",
    /// A budget can be moved under a parent however deep the budgets below it are.
    ForgetBelow = "forget-below",
    /// Postings that a window still needs are rolled up.
    RollUpTooMuch = "roll-up-too-much",
    /// A grant can be redeemed twice.
    RedeemTwice = "redeem-twice",
    /// A grant can be redeemed after its expiry.
    RedeemExpired = "redeem-expired",
    /// An idempotency key reused for a different request is not detected.
    DropFingerprint = "drop-fingerprint",
    /// Idempotency keys are not stored.
    ForgetKey = "forget-key",
    /// A dry run writes.
    DryRunWrites = "dry-run-writes",
    /// A release is not written in the journal.
    ForgetReleaseEvent = "forget-release-event",
    /// Time goes back when the clock does.
    ClockGoesBack = "clock-goes-back",
    /// Rows are not locked in a fixed order.
    LockInAnyOrder = "lock-in-any-order",
    /// A batch that holds a lock waits for locks that come earlier in the lock order.
    WaitOutOfTurn = "wait-out-of-turn",
    /// Balances are read before their rows are locked (in the simulated database).
    ReadBeforeLock = "read-before-lock",
    /// A row that another transaction has locked is treated as missing.
    LockedIsGone = "locked-is-gone",
    /// A repeated request that waited for the first one is refused because of the first one's effect.
    TwinIsRefused = "twin-is-refused",
    /// A request is acknowledged even if its commit failed.
    AnswerBeforeCommit = "answer-before-commit",
    /// A request without an idempotency key is retried when its outcome is unknown.
    RetryWithoutKey = "retry-without-key",
    /// Listeners receive each event twice.
    AnnounceTwice = "announce-twice",
    /// A worker can end a lease with an old fence.
    SkipFence = "skip-fence",
    /// A job that is leased again keeps its fence.
    SameFence = "same-fence",
    /// A principal can report on a lease of another principal.
    AnyoneReports = "anyone-reports",
    /// A principal can charge scopes that its job may not charge.
    ChargeAnyScope = "charge-any-scope",
    /// The end of a lease can be repeated with different usage.
    RepeatAnyUsage = "repeat-any-usage",
    /// The concurrency limit of a queue is ignored.
    IgnoreConcurrency = "ignore-concurrency",
    /// Spend of a lapsed lease is charged each time its worker reports it.
    BillLostTwice = "bill-lost-twice",
    /// A schedule enqueues a job for a tick that was handled already.
    TickTwice = "tick-twice",
    /// Finished jobs are removed before their retention ends.
    ForgetTooSoon = "forget-too-soon",
    /// Rescuing a lapsed lease restarts a job that has ended since.
    RescueFinished = "rescue-finished",
    /// A lease is taken back although a heartbeat extended it.
    RescueEarly = "rescue-early",
    /// A returned job loses an attempt.
    BurnReturned = "burn-returned",
    /// A snoozed job loses an attempt.
    BurnSnoozed = "burn-snoozed",
    /// A lapsed lease does not count as an attempt.
    FreeLapse = "free-lapse",
    /// A checkpoint that a worker reports after it lost its lease is kept.
    KeepLostCheckpoint = "keep-lost-checkpoint",
    /// A worker emits an event after it lost its lease.
    EmitAfterLoss = "emit-after-loss",
    /// The next lease of a job does not carry its checkpoint.
    DropCheckpoint = "drop-checkpoint",
    /// A job is retried after its last attempt.
    RetryForever = "retry-forever",
    /// A dead job keeps its hold.
    KeepDeadHold = "keep-dead-hold",
    /// The units of a job's hold stay in the sum of held units after it is settled.
    CountSettled = "count-settled",
    /// A dead job that is retried, discarded or removed stays in the count of its error.
    CountRevived = "count-revived",
    /// Spend of a failed attempt is not charged.
    ForgetFailedUsage = "forget-failed-usage",
    /// Spend of a lapsed lease is not charged.
    DropLostSpend = "drop-lost-spend",
    /// Spend reported with the end of a lease is charged again when the report is repeated later.
    BillSettled = "bill-settled",
    /// A job that awaits its budget is never tried again.
    NeverLookAgain = "never-look-again",
    /// When the head of a line leaves, no job becomes the next head.
    LineStands = "line-stands",
    /// The head of a line stays barred when its flow key has a free slot.
    StayBarred = "stay-barred",
    /// A leased job whose cancellation was requested ends as dead.
    CancelledDies = "cancelled-dies",
    /// Jobs are leased from a paused queue.
    LeasePaused = "lease-paused",
    /// The slot of a lease is not freed at its end.
    LeakSlot = "leak-slot",
    /// The concurrency limit of a flow key is ignored.
    IgnoreKeyConcurrency = "ignore-key-concurrency",
    /// A key above its rate still leases.
    IgnoreKeyRate = "ignore-key-rate",
    /// A caller acts on a job of another tenant.
    ActAcrossTenants = "act-across-tenants",
    /// The answer to a command whose job exists already lacks the hold of the job.
    ForgetFoundHold = "forget-found-hold",
    /// The rate limit of a queue is ignored.
    IgnoreRate = "ignore-rate",
    /// The job with the worst rank is leased first.
    WorstFirst = "worst-first",
    /// The idempotency key of a removed job stays in use.
    KeepJobKey = "keep-job-key",
    /// A blob that something refers to is doomed.
    DoomReferenced = "doom-referenced",
    /// A blob is doomed before it is due.
    DoomEarly = "doom-early",
    /// A blob that is not doomed is collected.
    CollectUndoomed = "collect-undoomed",
    /// A blob whose bytes are being deleted can be referred to.
    ReferToDoomed = "refer-to-doomed",
    /// A released reference still counts.
    CountReleased = "count-released",
    /// The references of a removed job stay.
    KeepJobReferences = "keep-job-references",
    /// A worker that lost its lease makes references to blobs.
    LostLeaseRefers = "lost-lease-refers",
    /// A principal can name blobs of namespaces that it does not reach.
    ReachAnyNamespace = "reach-any-namespace",
    /// An upload finds a deleted blob with the same bytes.
    FindDeleted = "find-deleted",
    /// An upload finds a blob of another namespace.
    FindAnyNamespace = "find-any-namespace",
    /// An upload finds a blob of another tenant.
    FindAnyTenant = "find-any-tenant",
    /// The bytes of a stored blob are not posted.
    StoreUncharged = "store-uncharged",
    /// An upload that is given up keeps its hold.
    KeepUploadHold = "keep-upload-hold",
    /// The bytes of a collected blob are not credited.
    CollectUncredited = "collect-uncredited",
    /// A row that no segment has is deleted from the journal.
    PruneUnarchived = "prune-unarchived",
    /// A row from which an idempotency key is answered is archived.
    ArchiveAnswers = "archive-answers",
    /// A segment is recorded although another one has been recorded since.
    BreakChain = "break-chain",
    /// A row that is gone from the source of a move stays in the target.
    KeepMovedRow = "keep-moved-row",
    /// A row that has changed since a move copied it is not copied again.
    KeepStaleRow = "keep-stale-row",
    /// SQLite acknowledges a commit before it is on disk.
    SynchronousOff = "synchronous-off",
    /// SQLite acknowledges a commit when it is written, and syncs it at the next checkpoint.
    SynchronousNormal = "synchronous-normal",
}

#[cfg(feature = "mutants")]
static ON: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

impl Mutant {
    /// Returns the fault with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Mutant> {
        Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name)
    }

    /// Returns whether this fault is enabled.
    #[cfg(not(feature = "mutants"))]
    #[must_use]
    #[inline(always)]
    pub const fn on(self) -> bool {
        false
    }

    /// Returns whether this fault is enabled.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn on(self) -> bool {
        ON.load(std::sync::atomic::Ordering::Relaxed) == self as u8 + 1
    }

    /// Enables one fault for the whole process, or disables all.
    #[cfg(feature = "mutants")]
    pub fn switch(to: Option<Mutant>) {
        ON.store(to.map_or(0, |mutant| mutant as u8 + 1), std::sync::atomic::Ordering::Relaxed);
    }
}
