//! A TCP connection that bounds what its peer can cost the server: a peer that reads too slowly is disconnected, and large
//! request heads count as bytes in flight.

pub(crate) mod heads;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep_until};

use self::heads::{ConnectionRequests, HeadCounter};
use crate::app::App;

/// A connection that counts against `limits.connections` until it is closed. A WebSocket keeps it beyond its request.
pub(crate) struct OpenConnection {
    app: Arc<App>,
    pub(crate) requests: ConnectionRequests,
    _permit: Option<OwnedSemaphorePermit>,
}

impl OpenConnection {
    pub(crate) fn new(app: Arc<App>, permit: Option<OwnedSemaphorePermit>) -> Arc<OpenConnection> {
        app.metrics.connection(true);
        Arc::new(OpenConnection { app, requests: ConnectionRequests::default(), _permit: permit })
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.app.metrics.connection(false);
    }
}

/// The minimum pace at which a peer must send a body or read a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MinPace {
    /// How long the transfer may stand still.
    pub(crate) stall: Duration,
    /// Average rate in bytes per second, required once `stall` has passed.
    pub(crate) rate: usize,
}

impl MinPace {
    /// Returns whether this many bytes in this time are below the minimum.
    pub(crate) fn is_too_slow(self, bytes: usize, took: Duration) -> bool {
        took >= self.stall && (bytes as f64) < self.rate as f64 * took.as_secs_f64()
    }
}

/// A stream that fails when its peer reads too slowly, and that counts the request heads read from it.
pub(crate) struct Connection<S> {
    stream: S,
    pace: MinPace,
    /// Makes the operating system discard unsent data on close; otherwise it would keep the data for minutes.
    reset: fn(&S),
    /// Set while the peer reads less than the server has for it.
    blocked: Option<BlockedWrite>,
    heads: HeadCounter,
}

/// A write that the peer does not read as fast as the server writes.
struct BlockedWrite {
    since: Instant,
    /// Bytes written since then.
    written: usize,
    /// When to check the pace next.
    check: Pin<Box<Sleep>>,
}

impl<S> Connection<S> {
    pub(crate) fn new(stream: S, pace: MinPace, heads: HeadCounter, reset: fn(&S)) -> Connection<S> {
        Connection { stream, pace, reset, blocked: None, heads }
    }

    /// Passes the result of a write on, or fails if the peer is below the minimum pace.
    fn enforce_pace(
        &mut self,
        context: &mut Context<'_>,
        wrote: Poll<io::Result<usize>>,
        all: usize,
    ) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Ready(Ok(bytes)) => {
                match &mut self.blocked {
                    // A partial write does not reset the measurement; otherwise a peer that reads a few bytes at a time would pass.
                    Some(blocked) if bytes < all => blocked.written += bytes,
                    _ => self.blocked = None,
                }
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                let (now, pace) = (Instant::now(), self.pace);
                let blocked = self.blocked.get_or_insert_with(|| BlockedWrite {
                    since: now,
                    written: 0,
                    check: Box::pin(sleep_until(now + pace.stall)),
                });
                loop {
                    ready!(blocked.check.as_mut().poll(context));
                    let now = Instant::now();
                    if pace.is_too_slow(blocked.written, now - blocked.since) {
                        (self.reset)(&self.stream);
                        let slow = "the peer reads the response too slowly";
                        return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, slow)));
                    }
                    blocked.check.as_mut().reset(now + pace.stall);
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
        this.enforce_pace(context, wrote, bytes.len())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.enforce_pace(context, wrote, slices.iter().map(|slice| slice.len()).sum())
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
    use crate::in_flight::BytesInFlight;

    fn connection<S>(stream: S) -> Connection<S> {
        let heads = HeadCounter::new(Default::default(), BytesInFlight::new(1 << 20, 1 << 20), "heads".into());
        Connection::new(stream, PACE, heads, |_| {})
    }

    const PACE: MinPace = MinPace { stall: Duration::from_secs(10), rate: 1_024 };

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_nothing_is_disconnected() {
        let (server, _peer) = duplex(1_000);
        let began = Instant::now();
        let failed = connection(server).write_all(&[0; 5_000]).await.unwrap_err();
        assert_eq!((failed.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, 10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_byte_by_byte_is_disconnected() {
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
    async fn a_slow_peer_above_the_minimum_gets_everything() {
        let (server, mut peer) = duplex(1_000);
        let reading = tokio::spawn(async move {
            let (mut buffer, mut received) = ([0; 900], 0);
            while let Ok(bytes @ 1..) = peer.read(&mut buffer).await {
                received += bytes;
                tokio::time::sleep(Duration::from_millis(400)).await;
            }
            received
        });
        let mut connection = connection(server);
        connection.write_all(&[0; 200_000]).await.unwrap();
        drop(connection);
        assert_eq!(reading.await.unwrap(), 200_000);
    }
}
