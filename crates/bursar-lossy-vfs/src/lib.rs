//! A file system for SQLite that loses unsynced writes in a simulated power loss. Not shipped.
//!
//! [`install`] replaces SQLite's default file system for the whole process, so that the program under test needs no
//! change. Files are written as usual; a [`Disk`] additionally tracks which bytes are durable. At chosen calls it
//! reports the files that a power loss at that moment would leave: all synced bytes and a random part of the others.
//!
//! ```no_run
//! use bursar_lossy_vfs::{Disk, install};
//! let disk = Disk::load("data".as_ref(), 7, vec![100, 250], |survivors| println!("{} files", survivors.len()));
//! install(disk.expect("the folder can be read"));
//! ```

mod disk;
mod vfs;

pub use disk::{Disk, SECTOR, Survivor};
pub use vfs::install;
