//! A connection, bounded in what its peer can make the server keep: one that takes nothing of what it is sent, or next to nothing, is
//! closed, and large heads are counted.

pub(crate) mod heads;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use self::heads::Heads;

/// The least that a peer must move.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How long it may move nothing at all.
    pub(crate) stall: Duration,
    /// Bytes a second that it must move on average, once that long has passed.
    pub(crate) rate: usize,
}

impl Pace {
    /// Whether so many bytes are too few for so long.
    pub(crate) fn is_too_slow(self, bytes: usize, took: Duration) -> bool {
        took >= self.stall && (bytes as f64) < self.rate as f64 * took.as_secs_f64()
    }
}

/// A stream with a least pace of writing, whose heads are counted.
pub(crate) struct Connection<S> {
    stream: S,
    pace: Pace,
    /// Has the system forget what the peer has not taken: it would keep it for minutes after the connection is closed.
    reset: fn(&S),
    /// While the peer does not take all that there is for it.
    blocked: Option<Blocked>,
    heads: Heads,
}

struct Blocked {
    since: Instant,
    /// Bytes that it has taken since.
    taken: usize,
    look: Pin<Box<Sleep>>,
}

impl<S> Connection<S> {
    pub(crate) fn new(stream: S, pace: Pace, heads: Heads, reset: fn(&S)) -> Connection<S> {
        Connection { stream, pace, reset, blocked: None, heads }
    }

    /// What a write came to: an error where the peer is too slow.
    fn paced(
        &mut self,
        context: &mut Context<'_>,
        wrote: Poll<io::Result<usize>>,
        all: usize,
    ) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Ready(Ok(bytes)) => {
                match &mut self.blocked {
                    // Whoever takes a little at a time is measured on.
                    Some(blocked) if bytes < all => blocked.taken += bytes,
                    _ => self.blocked = None,
                }
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                let (now, pace) = (Instant::now(), self.pace);
                let blocked = self.blocked.get_or_insert_with(|| Blocked {
                    since: now,
                    taken: 0,
                    look: Box::pin(sleep_until(now + pace.stall)),
                });
                loop {
                    ready!(blocked.look.as_mut().poll(context));
                    let now = Instant::now();
                    if pace.is_too_slow(blocked.taken, now - blocked.since) {
                        (self.reset)(&self.stream);
                        let slow = "the peer does not take what it is sent";
                        return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, slow)));
                    }
                    blocked.look.as_mut().reset(now + pace.stall);
                }
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        match Pin::new(&mut this.stream).poll_read(context, buffer) {
            Poll::Ready(Ok(())) => Poll::Ready(this.heads.count(buffer.filled().len() - before)),
            other => other,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.paced(context, wrote, bytes.len())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.paced(context, wrote, slices.iter().map(|slice| slice.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;
    use crate::in_flight::InFlight;

    fn connection<S>(stream: S) -> Connection<S> {
        let heads = Heads::new(Default::default(), InFlight::new(1 << 20, 1 << 20), "heads".into());
        Connection::new(stream, PACE, heads, |_| {})
    }

    const PACE: Pace = Pace { stall: Duration::from_secs(10), rate: 1_024 };

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (server, _peer) = duplex(1_000);
        let began = Instant::now();
        let failed = connection(server).write_all(&[0; 5_000]).await.unwrap_err();
        assert_eq!((failed.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, 10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_a_byte_now_and_then_is_given_up_too() {
        let (server, mut peer) = duplex(1_000);
        tokio::spawn(async move {
            while peer.read_u8().await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let began = Instant::now();
        let failed = connection(server).write_all(&[0; 1 << 20]).await.unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() < Duration::from_secs(21), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_that_keeps_up_gets_everything() {
        let (server, mut peer) = duplex(1_000);
        let reading = tokio::spawn(async move {
            let (mut part, mut all) = ([0; 900], 0);
            while let Ok(bytes @ 1..) = peer.read(&mut part).await {
                all += bytes;
                tokio::time::sleep(Duration::from_millis(400)).await;
            }
            all
        });
        let mut connection = connection(server);
        connection.write_all(&[0; 200_000]).await.unwrap();
        drop(connection);
        assert_eq!(reading.await.unwrap(), 200_000);
    }
}
