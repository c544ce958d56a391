//! How far something is that takes longer than a second, for whoever watches.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use tokio::time::interval;

/// How often it is told.
const EACH: Duration = Duration::from_secs(1);

/// Does something that may take long. From the first second on a line tells that it goes on, where a person sees standard error; nothing
/// is written anywhere else.
pub(crate) async fn watched<T>(what: &str, work: impl Future<Output = T>) -> T {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() { told(what, work, &mut stderr).await } else { work.await }
}

async fn told<T>(what: &str, work: impl Future<Output = T>, to: &mut impl Write) -> T {
    let mut seconds = interval(EACH);
    // The first one comes at once.
    seconds.tick().await;
    let (mut passed, mut work) = (0_u64, std::pin::pin!(work));
    let done = loop {
        tokio::select! {
            done = &mut work => break done,
            _ = seconds.tick() => {
                passed += 1;
                // Whether it can be told is no reason to stop the work.
                let _ = write!(to, "\r{what} … {passed} s").and_then(|()| to.flush());
            }
        }
    };
    if passed > 0 {
        let _ = writeln!(to, "\r{what} … {passed} s, done");
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(work: Duration) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let mut seen = Vec::new();
        let checking = async move {
            tokio::time::sleep(work).await;
            "sound"
        };
        assert_eq!(runtime.block_on(told("checking", checking, &mut seen)), "sound");
        String::from_utf8(seen).unwrap()
    }

    #[test]
    fn what_takes_long_is_told_once_a_second_and_what_is_quick_is_not() {
        assert_eq!(run(Duration::from_millis(900)), "");
        assert_eq!(run(Duration::from_millis(2_500)), "\rchecking … 1 s\rchecking … 2 s\rchecking … 2 s, done\n");
    }
}
