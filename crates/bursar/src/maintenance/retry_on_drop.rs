//! Retries work that a dropped handle leaves behind, in the background and with long pauses.

use std::future::Future;
use std::time::Duration;

use crate::error::Error;

/// The pauses between attempts. No caller waits for the result.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
];

/// Retries transient errors, each of which is passed to `on_retry`, until the pauses are used up.
pub(crate) async fn attempts<F: Future<Output = Result<(), Error>>>(
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
        let (tried, told) = (Cell::new(0), Cell::new(0));
        let attempt = |outcome: fn(usize) -> Result<(), Error>| {
            tried.set(0);
            told.set(0);
            let tried = &tried;
            attempts(
                move || {
                    tried.set(tried.get() + 1);
                    std::future::ready(outcome(tried.get()))
                },
                |_| told.set(told.get() + 1),
            )
        };
        attempt(|tried| if tried < 4 { Err(busy()) } else { Ok(()) }).await.unwrap();
        assert_eq!((tried.get(), told.get()), (4, 3));
        assert!(attempt(|_| Err(busy())).await.unwrap_err().is_busy());
        assert_eq!((tried.get(), told.get()), (PAUSES.len() + 1, PAUSES.len()));
        let refused = attempt(|_| Err(Error::Refused(Refusal::Refused(Vec::new())))).await;
        assert!(matches!(refused, Err(Error::Refused(_))));
        assert_eq!((tried.get(), told.get()), (1, 0), "it would be refused again");
    }
}
