//! A shell in a temporary folder, with the built binary on its PATH.

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::document::Step;

/// The address that the guides use.
const ADDRESS: &str = "127.0.0.1:7440";
/// Starts the line with the exit code of a command.
const MARK: char = '\u{1e}';
/// Longer than any document takes.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Runs the commands of a document in order; returns the exit code and the output of each. Stops where a command ends
/// the shell.
pub(crate) fn run(steps: &[Step]) -> Vec<(i32, String)> {
    let folder = tempfile::tempdir().unwrap();
    // Another process may listen on the address that the guides use.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).unwrap().to_string();
    let mut script = String::from("exec 2>&1\n");
    for step in steps {
        let whole = step.expected.is_none();
        // Every command of an `sh` block must succeed. It is not a subshell, because it may set variables.
        let command = if whole { format!("set -e\n{}\nset +e", step.command) } else { step.command.clone() };
        script.push_str(&command.replace(ADDRESS, &free));
        script.push_str("\ncode=$?; printf '\\036%s\\n' \"$code\"; (exit \"$code\")\n");
    }
    let path = folder.path().join("commands.sh");
    std::fs::write(&path, script).unwrap();
    let printed = run_script(&path, folder.path());
    let mut results = Vec::new();
    let mut text = String::new();
    for line in printed.lines() {
        match line.split_once(MARK).and_then(|(before, code)| Some((before, code.parse().ok()?))) {
            Some((before, code)) => results.push((code, (std::mem::take(&mut text) + before).replace(&free, ADDRESS))),
            None => text.extend([line, "\n"]),
        }
    }
    // A failed block ends the shell; the last output belongs to it.
    if results.len() < steps.len() {
        results.push((-1, text));
    }
    results
}

/// Runs a script until it exits or times out, then kills the processes it started. Returns its output.
fn run_script(script: &Path, folder: &Path) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_bursar")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let printed = std::fs::File::create(folder.join("printed")).unwrap();
    let mut shell = Command::new("sh")
        .arg(script)
        .current_dir(folder)
        .env_clear()
        .envs([("PATH", path.as_str()), ("LANG", "C.UTF-8"), ("USER", "you")])
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(printed)
        .process_group(0)
        .spawn()
        .unwrap();
    let group = shell.id();
    let (exited, exits) = mpsc::channel();
    let waiting = std::thread::spawn(move || {
        let _ = shell.wait();
        let _ = exited.send(());
    });
    let in_time = exits.recv_timeout(TIMEOUT).is_ok();
    // A server that a guide started in the background is in the same process group.
    let _ = Command::new("kill").args(["-TERM", "--", &format!("-{group}")]).stderr(Stdio::null()).status();
    if !in_time {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).stderr(Stdio::null()).status();
    }
    waiting.join().unwrap();
    std::fs::read_to_string(folder.join("printed")).unwrap()
}
