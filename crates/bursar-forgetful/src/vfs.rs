//! Between SQLite and its files.
//!
//! The file system that SQLite would use is copied, and of the copy two functions are replaced: opening and deleting. A file
//! that was opened keeps all functions of its own but four: write, truncate, sync and close. Each replaced function tells
//! the disk and then calls the one it stands for; only sync does not, because what survives is what the disk says.

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

/// Makes every SQLite database that this process opens from now on live on the disk. To be called once, before the first.
///
/// # Panics
/// When SQLite has no file system of its own, or this was called before.
pub fn install(disk: Disk) -> &'static Disk {
    // SAFETY: a null name asks for the default file system; SQLite initializes itself on the way.
    let base = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) };
    assert!(!base.is_null(), "SQLite has a file system");
    // SAFETY: SQLite returned it, it is not null, and the default file system is never taken away.
    let original = unsafe { *base };
    let mut copy = original;
    copy.pNext = std::ptr::null_mut();
    copy.zName = c"forgetful".as_ptr();
    copy.xOpen = Some(open);
    copy.xDelete = Some(delete);
    let first = SHIM.set(Shim { original: Original(original), disk, files: Mutex::default() }).is_ok();
    assert!(first, "there is one disk a process");
    // SQLite keeps the pointer for the life of the process.
    let copy: &'static mut sqlite3_vfs = Box::leak(Box::new(copy));
    // SAFETY: the structure is whole, lives for ever, and its functions are those below and those of the original, which
    // find what is theirs in `pAppData`, copied with it.
    let done = unsafe { ffi::sqlite3_vfs_register(copy, 1) };
    assert_eq!(done, SQLITE_OK, "the file system is registered");
    &SHIM.get().expect("it was just set").disk
}

static SHIM: OnceLock<Shim> = OnceLock::new();

struct Shim {
    original: Original,
    disk: Disk,
    /// Files that are open, by the address of SQLite's structure.
    files: Mutex<HashMap<usize, Opened>>,
}

/// The file system that was there before.
struct Original(sqlite3_vfs);

// SAFETY: SQLite itself uses the structure from any thread; after registration nothing writes to what it points to but
// SQLite's own list of file systems, and `pNext` of this copy is not read.
unsafe impl Send for Original {}
// SAFETY: as above.
unsafe impl Sync for Original {}

#[derive(Clone, Copy)]
struct Opened {
    methods: &'static sqlite3_io_methods,
    /// Its number on the disk; `None` for a temporary file, which no power loss concerns.
    file: Option<usize>,
    /// The directory is synced with its first sync: it is a log or a journal that was just made. So SQLite does on Unix.
    newborn: bool,
}

impl Shim {
    fn files(&self) -> MutexGuard<'_, HashMap<usize, Opened>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The shim, and what is known of a file.
fn known(file: *mut sqlite3_file) -> Option<(&'static Shim, Opened)> {
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
    // SAFETY: the arguments are SQLite's own, passed on as they came; the copy carries the original's `pAppData` and
    // `szOsFile`, so that the original can work with it.
    let done = unsafe { original(vfs, name, file, flags, out) };
    // SAFETY: SQLite gives `xOpen` room for a file of `szOsFile` bytes, whose first field the original has set.
    let methods = unsafe { (*file).pMethods };
    if done != SQLITE_OK || methods.is_null() {
        return done;
    }
    let (number, made) = if name.is_null() {
        (None, false)
    } else {
        // SAFETY: a name that is not null ends with a zero and lives as long as the file.
        let (number, made) = shim.disk.open(path(unsafe { CStr::from_ptr(name) }));
        (Some(number), made)
    };
    let logs = SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL;
    // SAFETY: methods of the original are constants of the library: they live for ever and nobody writes to them.
    let methods: &'static sqlite3_io_methods = unsafe { &*methods };
    let opened = Opened { methods, file: number, newborn: made && flags & logs != 0 };
    shim.files().insert(file.addr(), opened);
    // SAFETY: `file` is open and ours to change before it is handed back.
    unsafe { (*file).pMethods = forgetful(methods) };
    done
}

/// The methods of a file with four replaced. There are only a few kinds, so that each is made once and kept.
fn forgetful(original: &'static sqlite3_io_methods) -> &'static sqlite3_io_methods {
    static MADE: Mutex<Vec<(usize, &'static sqlite3_io_methods)>> = Mutex::new(Vec::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let key = std::ptr::from_ref(original).addr();
    if let Some((_, known)) = made.iter().find(|(of, _)| *of == key) {
        return known;
    }
    let mut methods = *original;
    // Without the third version's: a file that is mapped into memory would be written to unseen.
    methods.iVersion = methods.iVersion.min(2);
    methods.xWrite = Some(write);
    methods.xTruncate = Some(truncate);
    methods.xSync = Some(sync);
    methods.xClose = Some(close);
    let methods: &'static sqlite3_io_methods = Box::leak(Box::new(methods));
    made.push((key, methods));
    methods
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, directory: c_int) -> c_int {
    let Some(shim) = SHIM.get() else { return SQLITE_MISUSE };
    let Some(original) = shim.original.0.xDelete else { return SQLITE_MISUSE };
    // SAFETY: the name of a file to be deleted is never null, and ends with a zero.
    shim.disk.delete(path(unsafe { CStr::from_ptr(name) }), directory != 0);
    // SAFETY: the arguments are SQLite's own, passed on as they came.
    unsafe { original(vfs, name, directory) }
}

unsafe extern "C" fn write(file: *mut sqlite3_file, bytes: *const c_void, count: c_int, at: sqlite3_int64) -> c_int {
    let Some((shim, opened)) = known(file) else { return SQLITE_MISUSE };
    let Some(original) = opened.methods.xWrite else { return SQLITE_MISUSE };
    if let (Some(number), Ok(length), Ok(at)) = (opened.file, usize::try_from(count), usize::try_from(at)) {
        // SAFETY: SQLite passes so many bytes, which nobody changes during the call.
        shim.disk.write(number, at, unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) });
    }
    // SAFETY: the arguments are SQLite's own, and the function is the one this file came with.
    unsafe { original(file, bytes, count, at) }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    let Some((shim, opened)) = known(file) else { return SQLITE_MISUSE };
    let Some(original) = opened.methods.xTruncate else { return SQLITE_MISUSE };
    if let (Some(number), Ok(size)) = (opened.file, usize::try_from(size)) {
        shim.disk.truncate(number, size);
    }
    // SAFETY: as for writing.
    unsafe { original(file, size) }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, _: c_int) -> c_int {
    let Some((shim, opened)) = known(file) else { return SQLITE_MISUSE };
    if let Some(number) = opened.file {
        shim.disk.sync(number, opened.newborn);
        if let Some(opened) = shim.files().get_mut(&file.addr()) {
            opened.newborn = false;
        }
    }
    SQLITE_OK
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let Some(shim) = SHIM.get() else { return SQLITE_MISUSE };
    let Some(opened) = shim.files().remove(&file.addr()) else { return SQLITE_MISUSE };
    let Some(original) = opened.methods.xClose else { return SQLITE_MISUSE };
    // SAFETY: the file is given back as it was opened, with the methods it came with.
    unsafe {
        (*file).pMethods = opened.methods;
        original(file)
    }
}
