//! The measurements of `bursar bench`: Bursar through its public API, compared with a baseline on the same engine and disk.
//!
//! Rounds of both sides alternate, and every commit is durable on both. The median of the rounds is reported with the
//! slowest and the fastest. `verify` runs after each measurement.
//!
//! ```no_run
//! # fn main() -> Result<(), bursar_bench::BenchError> {
//! use bursar_bench::{Options, Told};
//!
//! let options = Options { bench: Some("hold".parse()?), callers: Some(50), ..Options::default() };
//! bursar_bench::run(&options, &mut |told| {
//!     if let Told::Line(line) = told {
//!         println!("{}", line.row());
//!     }
//! })
//! # }
//! ```

mod check;
mod child_process;
mod engine;
mod error;
mod fit;
mod history;
mod http;
mod jobs;
mod limit;
mod load;
mod machine;
mod measure;
mod meter;
mod plan;
mod postgres;
mod report;
mod snapshot;
mod sqlite;
mod subject;
mod textbook;

pub use child_process::{WORKER_ARGS, work_apart};
pub use engine::Engine;
pub use error::BenchError;
pub use http::{BARE_SERVER_ARGS, serve_bare};
pub use machine::Machine;
pub use measure::{Told, run};
pub use plan::{Baseline, Bench, Keys, Options, Through, Work};
pub use report::Line;
