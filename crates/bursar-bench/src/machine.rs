//! The machine: its description, the time of an fsync, and the memory of this process.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use tokio::time::Instant;

use crate::error::BenchError;

/// The machine that the figures were measured on.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Cores this process may use.
    pub cores: usize,
    /// The CPU model.
    pub cpu: String,
    /// The kernel version.
    pub kernel: String,
    /// Memory, in MB.
    pub memory_mb: u64,
}

impl Machine {
    /// Describes this machine.
    pub fn describe() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpu = field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
        Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu,
            kernel: if kernel.is_empty() { std::env::consts::OS.to_owned() } else { kernel },
            memory_mb: field(&read("/proc/meminfo"), "MemTotal").map_or(0, |text| kilobytes(&text) / 1_024),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Machine { cores, cpu, kernel, memory_mb } = self;
        write!(f, "machine: {cores} cores, {cpu}, kernel {kernel}, {memory_mb} MB of memory")
    }
}

/// Samples of the fsync time; odd, so that the median is one of them.
const FSYNCS: usize = 51;
/// The data written before each fsync: one database page.
const PAGE: [u8; 4_096] = [7; 4_096];

/// Returns the median time to write and fsync a page in this folder, in milliseconds.
pub(crate) fn fsync_ms(folder: &Path) -> Result<f64, BenchError> {
    let mut file = tempfile::tempfile_in(folder)?;
    let mut times = Vec::with_capacity(FSYNCS);
    for _ in 0..FSYNCS {
        let begun = Instant::now();
        file.write_all(&PAGE)?;
        file.sync_data()?;
        times.push(begun.elapsed().as_secs_f64() * 1_000.0);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[FSYNCS / 2])
}

/// Returns a folder for databases that is on a disk, not on a file system in memory, where an fsync does nothing.
pub(crate) fn folder_on_disk() -> Result<PathBuf, BenchError> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let candidates = [std::env::temp_dir(), PathBuf::from("/var/tmp"), std::env::current_dir()?];
    let found = candidates.iter().find(|folder| folder.is_dir() && !in_memory(&mounts, folder));
    found.cloned().ok_or_else(|| {
        BenchError::Usage(
            "every temporary folder is in memory; name a folder on a disk with --database sqlite://PATH".into(),
        )
    })
}

/// Returns whether a folder is on a file system in memory, according to the mount table.
fn in_memory(mounts: &str, folder: &Path) -> bool {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let nearest = mounted.filter(|(place, _)| folder.starts_with(place)).max_by_key(|(place, _)| place.len());
    nearest.is_some_and(|(_, kind)| matches!(kind, "tmpfs" | "ramfs"))
}

/// Resets the peak memory of this process. Where the system does not support it, the peak is that of the whole run.
pub(crate) fn reset_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Returns the peak memory since the last reset, in MB.
pub(crate) fn peak_mb() -> f64 {
    memory_mb("/proc/self/status", "VmHWM").unwrap_or(0.0)
}

/// Returns a memory figure of a process from its status file, in MB.
pub(crate) fn memory_mb(status: &str, name: &str) -> Option<f64> {
    let status = fs::read_to_string(status).ok()?;
    field(&status, name).map(|text| kilobytes(&text) as f64 / 1_024.0)
}

/// Returns a field of a text with lines of the form `name: value`.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim().to_owned())
    })
}

fn kilobytes(text: &str) -> u64 {
    text.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_decides_whether_a_folder_is_in_memory() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/disk ext4 rw 0 0\n";
        for (folder, expected) in [("/nowhere", false), ("/tmp", true), ("/tmp/none", true), ("/tmp/disk/x", false)] {
            assert_eq!(in_memory(mounts, Path::new(folder)), expected, "{folder}");
        }
    }

    #[test]
    fn the_machine_is_described_and_an_fsync_takes_time() {
        let machine = Machine::describe();
        assert!(machine.cores > 0 && machine.memory_mb > 0 && !machine.kernel.is_empty(), "{machine}");
        let folder = folder_on_disk().unwrap();
        assert!(fsync_ms(&folder).unwrap() > 0.0);
        reset_peak();
        assert!(peak_mb() > 1.0);
    }
}
