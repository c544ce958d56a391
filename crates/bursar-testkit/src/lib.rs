//! What Bursar's tests share. Of it only the throwaway PostgreSQL is shipped, for `bursar bench`.
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

pub use cases::{Case, run_cases};
pub use clock::FileClock;
pub use ids::{RandomIds, SeqIds};
pub use postgres::{Cluster, fresh_database, postgres};
pub use process::{Says, ended};
