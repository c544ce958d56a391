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
    /// A caller is told that it is done, whatever became of the commit.
    AnswerBeforeCommit = "answer-before-commit",
    /// SQLite answers before its commit is on the disk.
    SynchronousOff = "synchronous-off",
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
