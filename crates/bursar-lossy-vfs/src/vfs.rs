//! A SQLite VFS that wraps the default one.
//!
//! The VFS is a copy of the default one with `xOpen` and `xDelete` replaced. An open file has its original methods except
//! write, truncate, sync and close. Each replaced function records the call in the [`Disk`] and then calls the original;
//! only sync does not, because the `Disk` alone decides which bytes survive.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rusqlite::ffi::{
    self, SQLITE_MISUSE, SQLITE_OK, SQLITE_OPEN_MAIN_JOURNAL, SQLITE_OPEN_SUPER_JOURNAL, SQLITE_OPEN_WAL, sqlite3_file,
    sqlite3_int64, sqlite3_io_methods, sqlite3_vfs,
};

use crate::disk::Disk;

/// Makes the VFS the default of this process. Call it once, before the first database is opened.
///
/// # Panics
/// When SQLite has no default VFS, or when called twice.
pub fn install(disk: Disk) -> &'static Disk {
    // SAFETY: a null name requests the default VFS; the call initializes SQLite.
    let base = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) };
    assert!(!base.is_null(), "SQLite has a default VFS");
    // SAFETY: SQLite returned the pointer, it is not null, and the default VFS is never unregistered.
    let original = unsafe { *base };
    let mut copy = original;
    copy.pNext = std::ptr::null_mut();
    copy.zName = c"lossy".as_ptr();
    copy.xOpen = Some(open);
    copy.xDelete = Some(delete);
    let first = SHIM.set(Shim { original: Original(original), disk, files: Mutex::default() }).is_ok();
    assert!(first, "install is called once per process");
    // SQLite keeps the pointer for the life of the process.
    let copy: &'static mut sqlite3_vfs = Box::leak(Box::new(copy));
    // SAFETY: the structure is complete and never freed. Its functions are those below and those of the original,
    // which find their state in `pAppData`, copied with it.
    let done = unsafe { ffi::sqlite3_vfs_register(copy, 1) };
    assert_eq!(done, SQLITE_OK, "the VFS is registered");
    &SHIM.get().expect("SHIM was set above").disk
}

static SHIM: OnceLock<Shim> = OnceLock::new();

struct Shim {
    original: Original,
    disk: Disk,
    /// Open files by the address of SQLite's structure.
    files: Mutex<HashMap<usize, OpenFile>>,
}

/// The default VFS before [`install`].
struct Original(sqlite3_vfs);

// SAFETY: SQLite itself uses the structure from any thread. After registration only SQLite's list of VFSs writes to its
// fields, and `pNext` of this copy is not read.
unsafe impl Send for Original {}
// SAFETY: as above.
unsafe impl Sync for Original {}

#[derive(Clone, Copy)]
struct OpenFile {
    methods: &'static sqlite3_io_methods,
    /// Its number in the [`Disk`]; `None` for a temporary file, which need not survive.
    file: Option<usize>,
    /// Whether the next sync also syncs the directory: true for a new log or journal, as SQLite does on Unix.
    sync_directory: bool,
}

impl Shim {
    fn files(&self) -> MutexGuard<'_, HashMap<usize, OpenFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the shim and the state of an open file.
fn find(file: *mut sqlite3_file) -> Option<(&'static Shim, OpenFile)> {
    let shim = SHIM.get()?;
    let opened = shim.files().get(&file.addr()).copied()?;
    Some((shim, opened))
}

fn path(name: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(name.to_bytes()))
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let Some(shim) = SHIM.get() else { return SQLITE_MISUSE };
    let Some(original) = shim.original.0.xOpen else { return SQLITE_MISUSE };
    // SAFETY: the arguments are SQLite's own, passed on unchanged; the copy has the original's `pAppData` and `szOsFile`,
    // so that the original can work with it.
    let done = unsafe { original(vfs, name, file, flags, out) };
    // SAFETY: SQLite passes `xOpen` a buffer of `szOsFile` bytes, whose first field the original has set.
    let methods = unsafe { (*file).pMethods };
    if done != SQLITE_OK || methods.is_null() {
        return done;
    }
    let (number, created) = if name.is_null() {
        (None, false)
    } else {
        // SAFETY: a name that is not null is zero-terminated and lives as long as the file.
        let (number, created) = shim.disk.open(path(unsafe { CStr::from_ptr(name) }));
        (Some(number), created)
    };
    let logs = SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL;
    // SAFETY: the original's methods are constants of the library: static and never written to.
    let methods: &'static sqlite3_io_methods = unsafe { &*methods };
    let opened = OpenFile { methods, file: number, sync_directory: created && flags & logs != 0 };
    shim.files().insert(file.addr(), opened);
    // SAFETY: `file` is open, and SQLite does not use it before this function returns.
    unsafe { (*file).pMethods = lossy(methods) };
    done
}

/// Returns a file's methods with four of them replaced. SQLite has few method tables, so each copy is made once and leaked.
fn lossy(original: &'static sqlite3_io_methods) -> &'static sqlite3_io_methods {
    static COPIES: Mutex<Vec<(usize, &'static sqlite3_io_methods)>> = Mutex::new(Vec::new());
    let mut copies = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
    let key = std::ptr::from_ref(original).addr();
    if let Some((_, known)) = copies.iter().find(|(of, _)| *of == key) {
        return known;
    }
    let mut methods = *original;
    // Version 3 adds memory mapping, which would bypass `xWrite`.
    methods.iVersion = methods.iVersion.min(2);
    methods.xWrite = Some(write);
    methods.xTruncate = Some(truncate);
    methods.xSync = Some(sync);
    methods.xClose = Some(close);
    let methods: &'static sqlite3_io_methods = Box::leak(Box::new(methods));
    copies.push((key, methods));
    methods
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, directory: c_int) -> c_int {
    let Some(shim) = SHIM.get() else { return SQLITE_MISUSE };
    let Some(original) = shim.original.0.xDelete else { return SQLITE_MISUSE };
    // SAFETY: the name passed to `xDelete` is never null and is zero-terminated.
    shim.disk.delete(path(unsafe { CStr::from_ptr(name) }), directory != 0);
    // SAFETY: the arguments are SQLite's own, passed on unchanged.
    unsafe { original(vfs, name, directory) }
}

unsafe extern "C" fn write(file: *mut sqlite3_file, bytes: *const c_void, count: c_int, at: sqlite3_int64) -> c_int {
    let Some((shim, opened)) = find(file) else { return SQLITE_MISUSE };
    let Some(original) = opened.methods.xWrite else { return SQLITE_MISUSE };
    if let (Some(number), Ok(length), Ok(at)) = (opened.file, usize::try_from(count), usize::try_from(at)) {
        // SAFETY: SQLite passes `count` bytes that do not change during the call.
        shim.disk.write(number, at, unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) });
    }
    // SAFETY: the arguments are SQLite's own, and the function is the file's original one.
    unsafe { original(file, bytes, count, at) }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    let Some((shim, opened)) = find(file) else { return SQLITE_MISUSE };
    let Some(original) = opened.methods.xTruncate else { return SQLITE_MISUSE };
    if let (Some(number), Ok(size)) = (opened.file, usize::try_from(size)) {
        shim.disk.truncate(number, size);
    }
    // SAFETY: as for writing.
    unsafe { original(file, size) }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, _: c_int) -> c_int {
    let Some((shim, opened)) = find(file) else { return SQLITE_MISUSE };
    if let Some(number) = opened.file {
        shim.disk.sync(number, opened.sync_directory);
        if let Some(opened) = shim.files().get_mut(&file.addr()) {
            opened.sync_directory = false;
        }
    }
    SQLITE_OK
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let Some(shim) = SHIM.get() else { return SQLITE_MISUSE };
    let Some(opened) = shim.files().remove(&file.addr()) else { return SQLITE_MISUSE };
    let Some(original) = opened.methods.xClose else { return SQLITE_MISUSE };
    // SAFETY: the original close gets the file with its original methods.
    unsafe {
        (*file).pMethods = opened.methods;
        original(file)
    }
}
