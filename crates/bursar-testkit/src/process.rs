//! Processes that a test starts: what they say and that they end, with patience that has an end.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Longer than anything takes that is not stuck, on a slow machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What a process says, line by line. It is read all the time, so that the process never waits for a reader.
#[derive(Debug)]
pub struct Says(Receiver<String>);

impl Says {
    /// Reads from a pipe until its end.
    pub fn on(pipe: impl Read + Send + 'static) -> Says {
        let (tell, says) = channel();
        thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = String::new();
            // A line that was cut off by a kill was not said.
            while pipe.read_line(&mut line).is_ok() && line.ends_with('\n') {
                let said = line.trim_end_matches(['\n', '\r']).to_owned();
                if tell.send(said).is_err() {
                    break;
                }
                line.clear();
            }
            // Nobody listens any more, and it must still not wait.
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        });
        Says(says)
    }

    /// The next line; `None` once it says nothing more.
    ///
    /// # Panics
    /// When nothing comes for five minutes.
    pub fn next_line(&self) -> Option<String> {
        match self.0.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("the process has said nothing for {PATIENCE:?}, and has not ended")
            }
        }
    }

    /// All that is still to come, up to its end.
    ///
    /// # Panics
    /// When nothing comes for five minutes.
    pub fn rest(&self) -> Vec<String> {
        std::iter::from_fn(|| self.next_line()).collect()
    }
}

/// Waits for the end of a process.
///
/// # Panics
/// When it has not ended after five minutes; it is killed then.
pub fn ended(child: &mut Child) -> ExitStatus {
    for _ in 0..PATIENCE.as_millis() / LOOK_EVERY.as_millis() {
        if let Some(status) = child.try_wait().expect("it is our child") {
            return status;
        }
        thread::sleep(LOOK_EVERY);
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("the process has not ended after {PATIENCE:?}");
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn whole_lines_are_heard_and_the_end_is_told() {
        let script = r"printf 'one\ntwo\r\nhalf'; exit 3";
        let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let says = Says::on(child.stdout.take().unwrap());
        assert_eq!(says.next_line().as_deref(), Some("one"));
        assert_eq!(says.rest(), ["two"]);
        assert_eq!((says.next_line(), ended(&mut child).code()), (None, Some(3)));
    }
}
