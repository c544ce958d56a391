//! Receiving a request body: bounded in size, in time and in memory.

use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout};

use crate::app::App;
use crate::connection::MinPace;
use crate::in_flight::{Account, BytesInFlight, Full, Reservation, UNCOUNTED};
use crate::route::Route;
use crate::wire::problem::{Kind, Problem};

/// Receives the body of a request. The memory stays reserved as long as the returned reservations live.
pub(super) async fn read_body(
    app: &App,
    route: &Route,
    account: &Account,
    parts: &Parts,
    body: Body,
) -> Result<(Bytes, Vec<Reservation>), Problem> {
    if parts.headers.contains_key(header::CONTENT_ENCODING) {
        let detail = "Content-Encoding is not supported; send the body uncompressed";
        return Err(Problem::new(Kind::UnsupportedMediaType, detail));
    }
    let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let bytes_max = route.body_bytes_max.min(app.limits.body_bytes);
    let mut reservations = Vec::new();
    let memory = BodyMemory { bytes: &app.bytes, account, reservations: &mut reservations };
    let received = timeout(app.limits.body, collect(body, length, bytes_max, app.limits.min_pace(), memory)).await;
    let bytes = match received {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(BodyError::Incomplete)) => {
            return Err(Problem::invalid("body".into(), "the connection ended before the body was complete"));
        }
        Ok(Err(BodyError::TooLarge)) => {
            let detail = format!("the body exceeds {bytes_max} bytes; split it into several requests");
            return Err(Problem::new(Kind::TooLarge, detail));
        }
        Ok(Err(BodyError::NoRoom(full))) => return Err(full.into()),
        Ok(Err(BodyError::Slow)) | Err(_) => {
            return Err(Problem::new(Kind::Timeout, "the body arrived too slowly; nothing was changed; retry"));
        }
    };
    let media = parts.headers.get(header::CONTENT_TYPE).map(|media| media.to_str().unwrap_or_default());
    let media = media.map(|media| media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    match media.as_deref() {
        Some("application/json") => Ok((bytes, reservations)),
        None if bytes.is_empty() => Ok((bytes, reservations)),
        _ => {
            let detail = "the body must be JSON; send it with Content-Type: application/json";
            Err(Problem::new(Kind::UnsupportedMediaType, detail))
        }
    }
}

/// Why a body was not received.
enum BodyError {
    /// The connection ended early.
    Incomplete,
    TooLarge,
    Slow,
    NoRoom(Full),
}

/// The memory reserved for one body, and where to reserve more.
struct BodyMemory<'a> {
    bytes: &'a BytesInFlight,
    account: &'a Account,
    reservations: &'a mut Vec<Reservation>,
}

impl BodyMemory<'_> {
    /// Reserves this many bytes more, and returns how many.
    fn reserve(&mut self, bytes: usize) -> Result<usize, BodyError> {
        self.reservations.push(self.bytes.reserve(self.account, bytes).map_err(BodyError::NoRoom)?);
        Ok(bytes)
    }
}

/// How long the rest of a refused body is still received and discarded. A client that is cut off while it sends may never read the
/// response.
const LINGER: Duration = Duration::from_secs(1);

/// Receives a body. One that is too large fails as soon as that is known, without waiting for the rest.
async fn collect(
    mut body: Body,
    length: Option<u64>,
    bytes_max: usize,
    pace: MinPace,
    mut memory: BodyMemory<'_>,
) -> Result<Bytes, BodyError> {
    let began = Instant::now();
    let mut too_large = length.is_some_and(|length| length > bytes_max as u64);
    let mut reserved = UNCOUNTED;
    if let Some(length) = length.filter(|length| !too_large && *length > UNCOUNTED as u64) {
        reserved = memory.reserve(length as usize)?;
    }
    let mut bytes = BytesMut::with_capacity(if too_large { 0 } else { length.unwrap_or(0) as usize });
    while !too_large {
        // The average rate is checked before each wait; the timeout below covers a body that stops arriving.
        if pace.is_too_slow(bytes.len(), began.elapsed()) {
            return Err(BodyError::Slow);
        }
        match timeout(pace.stall, body.frame()).await {
            Err(_) => return Err(BodyError::Slow),
            Ok(None) => return Ok(bytes.freeze()),
            Ok(Some(Err(_))) => return Err(BodyError::Incomplete),
            Ok(Some(Ok(frame))) => {
                let data = frame.into_data().unwrap_or_default();
                too_large = bytes.len() + data.len() > bytes_max;
                // Without a Content-Length the reservation doubles as needed.
                while !too_large && bytes.len() + data.len() > reserved {
                    reserved += memory.reserve(reserved.max(data.len()))?;
                }
                bytes.extend_from_slice(&data);
            }
        }
    }
    tokio::spawn(timeout(LINGER, async move { while let Some(Ok(_)) = body.frame().await {} }));
    Err(BodyError::TooLarge)
}
