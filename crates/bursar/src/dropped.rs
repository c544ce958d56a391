//! What somebody dropped and nobody else will do: it is done in the background, with patience.

use std::future::Future;
use std::time::Duration;

use crate::error::Error;

/// How long to wait before it is tried again, each time. Nobody waits for it, so that it may take a while.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
];

/// Tries until it is done. What may pass is told to `again` and tried again; whoever is gone cannot be told of an error.
pub(crate) async fn attempts<F: Future<Output = Result<(), Error>>>(
    mut attempt: impl FnMut() -> F,
    again: impl Fn(&Error),
) -> Result<(), Error> {
    let mut pauses = PAUSES.iter();
    loop {
        let Err(error) = attempt().await else { return Ok(()) };
        let passes = !matches!(error, Error::Refused(_)) && !error.is_closed();
        let Some(pause) = pauses.next().filter(|_| passes) else { return Err(error) };
        again(&error);
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
        Error::Store(StoreError::Busy("a stranger".into()).into())
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_tried_again_and_what_will_not_is_told() {
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
