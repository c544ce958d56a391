//! A shell in a folder of its own, with the built binary on its path.

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::document::Step;

/// The address that the guides say.
const ADDRESS: &str = "127.0.0.1:7440";
/// Begins the line that tells how a command ended.
const MARK: char = '\u{1e}';
/// Longer than any document takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs the commands of a document one after the other; how each ended, and what it printed. It ends where a command ends the shell.
pub(crate) fn run(steps: &[Step]) -> Vec<(i32, String)> {
    let folder = tempfile::tempdir().unwrap();
    // The guides say one address; documents may be run beside something that listens there.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).unwrap().to_string();
    let mut script = String::from("exec 2>&1\n");
    for step in steps {
        let whole = step.expected.is_none();
        // Every command of a whole block must succeed. It sets variables for those that follow, so that it is no subshell.
        let command = if whole { format!("set -e\n{}\nset +e", step.command) } else { step.command.clone() };
        script.push_str(&command.replace(ADDRESS, &free));
        script.push_str("\ncode=$?; printf '\\036%s\\n' \"$code\"; (exit \"$code\")\n");
    }
    let path = folder.path().join("commands.sh");
    std::fs::write(&path, script).unwrap();
    let printed = finished(&path, folder.path());
    let mut ended = Vec::new();
    let mut text = String::new();
    for line in printed.lines() {
        match line.split_once(MARK).and_then(|(before, code)| Some((before, code.parse().ok()?))) {
            Some((before, code)) => ended.push((code, (std::mem::take(&mut text) + before).replace(&free, ADDRESS))),
            None => text.extend([line, "\n"]),
        }
    }
    // A block that failed has ended the shell: what it printed last is its.
    if ended.len() < steps.len() {
        ended.push((-1, text));
    }
    ended
}

/// What a script prints, until it ends or its time is over. Then whatever it has started is ended.
fn finished(script: &Path, folder: &Path) -> String {
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
    let (tell, told) = mpsc::channel();
    let waiting = std::thread::spawn(move || {
        let _ = shell.wait();
        let _ = tell.send(());
    });
    let in_time = told.recv_timeout(PATIENCE).is_ok();
    // A server that a guide has started in the background is in the same group.
    let _ = Command::new("kill").args(["-TERM", "--", &format!("-{group}")]).stderr(Stdio::null()).status();
    if !in_time {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).stderr(Stdio::null()).status();
    }
    waiting.join().unwrap();
    std::fs::read_to_string(folder.join("printed")).unwrap()
}
