//! What `bursar bench` measures: Bursar as its users call it, beside a baseline on the same engine, disk and day.
//!
//! Rounds of both sides alternate, every commit is durable on both, and the median of the rounds is told with the
//! slowest and the fastest. After each measurement the books are checked.
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

mod apart;
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

pub use apart::{APART, work_apart};
pub use engine::Engine;
pub use error::BenchError;
pub use http::{BARE, serve_bare};
pub use machine::Machine;
pub use measure::{Told, run};
pub use plan::{Baseline, Bench, Keys, Options, Work};
pub use report::Line;
