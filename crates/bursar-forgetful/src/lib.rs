//! A disk for SQLite that forgets what was not synced when the power goes. Not shipped.
//!
//! [`install`] puts itself between SQLite and its files for the whole process, so that the program under test needs no
//! change. Files are really written; beside that a [`Disk`] keeps what of them would survive. At chosen calls it hands
//! out what a power loss at that moment would leave: what was synced, and of what was not a random part.
//!
//! ```no_run
//! use bursar_forgetful::{Disk, install};
//! let disk = Disk::load("data".as_ref(), 7, vec![100, 250], |survivors| println!("{} files", survivors.len()));
//! install(disk.expect("the folder can be read"));
//! ```

mod disk;
mod vfs;

pub use disk::{Disk, SECTOR, Survivor};
pub use vfs::install;
