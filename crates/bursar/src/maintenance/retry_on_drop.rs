//! Retries, in the background, what a dropped handle leaves to do, such as the release of its hold.

use std::future::Future;
use std::time::Duration;

use crate::error::Error;

/// The pauses between attempts. They are long, because no caller waits for the result.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
];

/// Executes `attempt`, and retries it after transient errors, which are passed to `on_retry`. Fails with the last error after the last
/// pause, or with the first error that is not transient.
pub(crate) async fn retry_transient<F: Future<Output = Result<(), Error>>>(
    mut attempt: impl FnMut() -> F,
    on_retry: impl Fn(&Error),
) -> Result<(), Error> {
    let mut pauses = PAUSES.iter();
    loop {
        let Err(error) = attempt().await else { return Ok(()) };
        let transient = !matches!(error, Error::Refused(_)) && !error.is_closed();
        let Some(pause) = pauses.next().filter(|_| transient) else { return Err(error) };
        on_retry(&error);
        tokio::time::sleep(*pause).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use bursar_core::refusal::Refusal;
    use bursar_store::StoreError;

    use super::*;

    fn busy() -> Error {
        Error::Store(StoreError::Busy("another transaction".into()).into())
    }

    #[tokio::test(start_paused = true)]
    async fn only_transient_errors_are_retried() {
        let (tried, retried) = (Cell::new(0), Cell::new(0));
        let attempt = |outcome: fn(usize) -> Result<(), Error>| {
            tried.set(0);
            retried.set(0);
            let tried = &tried;
            retry_transient(
                move || {
                    tried.set(tried.get() + 1);
                    std::future::ready(outcome(tried.get()))
                },
                |_| retried.set(retried.get() + 1),
            )
        };
        attempt(|tried| if tried < 4 { Err(busy()) } else { Ok(()) }).await.unwrap();
        assert_eq!((tried.get(), retried.get()), (4, 3));
        assert!(attempt(|_| Err(busy())).await.unwrap_err().is_busy());
        assert_eq!((tried.get(), retried.get()), (PAUSES.len() + 1, PAUSES.len()));
        let refused = attempt(|_| Err(Error::Refused(Refusal::Refused(Vec::new())))).await;
        assert!(matches!(refused, Err(Error::Refused(_))));
        assert_eq!((tried.get(), retried.get()), (1, 0), "a refusal is not retried");
    }
}
