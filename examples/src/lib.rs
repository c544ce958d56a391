//! Example programs, one per file in `src/bin`. Each asserts what it shows and exits with status 0.

/// Any error of an example: from Bursar, the database or a parser.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
