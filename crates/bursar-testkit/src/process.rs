//! Child processes of a test: reading their output and waiting for their end, with timeouts.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Longer than any healthy process takes, even on a slow and busy machine.
const TIMEOUT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The output of a process, line by line. A thread drains the pipe, so that the process never blocks on a full one.
#[derive(Debug)]
pub struct Says(Receiver<String>);

impl Says {
    /// Starts reading a pipe.
    pub fn on(pipe: impl Read + Send + 'static) -> Says {
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = String::new();
            // A line without its end was cut off by a kill and does not count.
            while pipe.read_line(&mut line).is_ok() && line.ends_with('\n') {
                let complete = line.trim_end_matches(['\n', '\r']).to_owned();
                if sender.send(complete).is_err() {
                    break;
                }
                line.clear();
            }
            // The receiver is gone; the process must still not block.
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        });
        Says(lines)
    }

    /// Returns the next line; `None` at the end of the output.
    ///
    /// # Panics
    /// When no line arrives within five minutes.
    pub fn next_line(&self) -> Option<String> {
        match self.0.recv_timeout(TIMEOUT) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("the process printed nothing for {TIMEOUT:?} and has not ended")
            }
        }
    }

    /// Returns all remaining lines up to the end of the output.
    ///
    /// # Panics
    /// When no line arrives within five minutes.
    pub fn rest(&self) -> Vec<String> {
        std::iter::from_fn(|| self.next_line()).collect()
    }
}

/// Waits until a process has ended.
///
/// # Panics
/// When it has not ended after five minutes; the process is killed first.
pub fn ended(child: &mut Child) -> ExitStatus {
    for _ in 0..TIMEOUT.as_millis() / POLL_INTERVAL.as_millis() {
        if let Some(status) = child.try_wait().expect("the process is a child of this one") {
            return status;
        }
        thread::sleep(POLL_INTERVAL);
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("the process has not ended after {TIMEOUT:?}");
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn complete_lines_are_read_and_the_end_is_reported() {
        let script = r"printf 'one\ntwo\r\nhalf'; exit 3";
        let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let says = Says::on(child.stdout.take().unwrap());
        assert_eq!(says.next_line().as_deref(), Some("one"));
        assert_eq!(says.rest(), ["two"]);
        assert_eq!((says.next_line(), ended(&mut child).code()), (None, Some(3)));
    }
}
