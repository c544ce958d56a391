//! Test support shared by Bursar's crates: throwaway databases, a clock that processes share, reproducible ids.
//!
//! ```no_run
//! let url = bursar_testkit::fresh_database();
//! println!("an empty database at {url}");
//! ```

mod cases;
mod clock;
mod ids;
mod postgres;
mod process;

pub use bursar_pg_cluster::{Cluster, Pooler};
pub use cases::{Case, run_cases};
pub use clock::FileClock;
pub use ids::{RandomIds, SeqIds};
pub use postgres::{fresh_database, pooler, postgres};
pub use process::{Says, ended};
