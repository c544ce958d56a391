//! A progress line on standard error for operations that take longer than a second.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use tokio::time::interval;

/// How often the line is updated.
const INTERVAL: Duration = Duration::from_secs(1);

/// Runs an operation. If standard error is a terminal and the operation takes longer than a second, a line shows how
/// long it has been running.
pub(crate) async fn with_progress<T>(name: &str, work: impl Future<Output = T>) -> T {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() { report_to(&mut stderr, name, work).await } else { work.await }
}

async fn report_to<T>(to: &mut impl Write, name: &str, work: impl Future<Output = T>) -> T {
    let mut ticks = interval(INTERVAL);
    // The first tick completes immediately.
    ticks.tick().await;
    let (mut seconds, mut work) = (0_u64, std::pin::pin!(work));
    let result = loop {
        tokio::select! {
            result = &mut work => break result,
            _ = ticks.tick() => {
                seconds += 1;
                // A progress line that cannot be written must not stop the operation.
                let _ = write!(to, "\r{name} … {seconds} s").and_then(|()| to.flush());
            }
        }
    };
    if seconds > 0 {
        let _ = writeln!(to, "\r{name} … {seconds} s, done");
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(duration: Duration) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let mut written = Vec::new();
        let work = async move {
            tokio::time::sleep(duration).await;
            "result"
        };
        assert_eq!(runtime.block_on(report_to(&mut written, "checking", work)), "result");
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn only_slow_operations_report_progress_each_second() {
        assert_eq!(run(Duration::from_millis(900)), "");
        assert_eq!(run(Duration::from_millis(2_500)), "\rchecking … 1 s\rchecking … 2 s\rchecking … 2 s, done\n");
    }
}
