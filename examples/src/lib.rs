//! Programs that read like their use: each in `src/bin`, each asserts what it claims and ends with status 0.

/// What can go wrong in an example: Bursar's errors, the database's and those of the parsers.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
