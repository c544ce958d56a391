//! Where spans are sent.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Uri, header};
use percent_encoding::percent_decode_str;

/// The path of traces below the address of a receiver.
const TRACES: &str = "/v1/traces";
/// The most headers of a request to the receiver.
const HEADERS_MAX: usize = 32;

/// Where spans are sent by OTLP over HTTP, and how much is sampled.
#[derive(Clone, Debug)]
pub struct OtlpSettings {
    pub(super) address: Uri,
    /// Headers of every request; their values are not shown.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// The part of requests without a trace that start one, from 0 to 1.
    pub sample: f64,
    /// The name under which the spans appear.
    pub service_name: String,
    /// The most spans that wait to be sent. Further ones are dropped.
    pub queue: usize,
    /// The most spans of one request to the receiver.
    pub batch: usize,
    /// The most time that a span waits for others, to be sent with them.
    pub delay: Duration,
    /// The most time that the receiver may take to answer.
    pub timeout: Duration,
    /// The wait before the first retry; it doubles with each.
    pub retry: Duration,
}

/// Why settings for OTLP are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe the variants")]
pub enum OtlpError {
    #[error("must be http://HOST:PORT or https://…, without a password and without a query")]
    Address,
    #[error(
        "must be at most {HEADERS_MAX} headers as NAME=VALUE, separated by commas; a value is percent-encoded where needed"
    )]
    Headers,
}

impl OtlpSettings {
    /// Returns settings for a receiver: spans are sent to `/v1/traces` below its address.
    pub fn new(endpoint: &str) -> Result<OtlpSettings, OtlpError> {
        // An address with a query must not become one with a path in the query.
        parse(endpoint)?;
        OtlpSettings::at(&format!("{}{TRACES}", endpoint.trim_end_matches('/')))
    }

    /// Returns settings that send spans to exactly this address.
    pub fn at(address: &str) -> Result<OtlpSettings, OtlpError> {
        let [delay, timeout, retry] = [5, 10, 1].map(Duration::from_secs);
        let service_name = "bursar".to_owned();
        let address = parse(address)?;
        let (queue, batch) = (2_048, 512);
        Ok(OtlpSettings {
            address,
            headers: Vec::new(),
            sample: 1.0,
            service_name,
            queue,
            batch,
            delay,
            timeout,
            retry,
        })
    }

    /// Returns the settings with headers, written as `NAME=VALUE,NAME=VALUE`.
    pub fn with_headers(self, text: &str) -> Result<OtlpSettings, OtlpError> {
        let headers: Option<Vec<_>> =
            text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(read_header).collect();
        let headers = headers.filter(|headers| headers.len() <= HEADERS_MAX).ok_or(OtlpError::Headers)?;
        Ok(OtlpSettings { headers, ..self })
    }
}

fn parse(address: &str) -> Result<Uri, OtlpError> {
    let uri: Uri = address.parse().map_err(|_| OtlpError::Address)?;
    let named = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    let is_http = matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty());
    // A password or a key in an address would be shown with the configuration.
    if is_http && !named && uri.query().is_none() && !address.contains('#') { Ok(uri) } else { Err(OtlpError::Address) }
}

fn read_header(text: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = text.split_once('=')?;
    let name: HeaderName = name.trim().parse().ok()?;
    let framing =
        [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION, header::HOST];
    let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
    let mut value = HeaderValue::from_str(&value).ok().filter(|_| !framing.contains(&name))?;
    // So that it is not shown by `Debug`.
    value.set_sensitive(true);
    Some((name, value))
}
