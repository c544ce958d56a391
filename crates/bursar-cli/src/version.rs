//! The version of this build.

/// The version, the commit and its date: `0.1.0 (98d956524f3e, 2026-11-17)`. Set by `build.rs`.
pub(crate) const VERSION: &str = env!("BUILD_VERSION");
