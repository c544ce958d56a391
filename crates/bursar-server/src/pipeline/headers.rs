//! The request headers that Bursar reads: tenant, idempotency key, `If-Match`, `Last-Event-ID`.

use axum::http::{HeaderMap, HeaderName, header};
use bursar::{Fingerprint, IfMatch, Tenant};

use crate::principal::Principal;
use crate::wire::problem::{Kind, Problem};

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const TENANT: HeaderName = HeaderName::from_static("bursar-tenant");

/// Returns the tenant that a request acts for: the principal's own, or for an operator the one in `Bursar-Tenant`.
pub(super) fn tenant(principal: &Principal, headers: &HeaderMap) -> Result<Tenant, Problem> {
    let Some(requested) = header_text(headers, &TENANT)? else { return Ok(principal.tenant.clone()) };
    let requested = Tenant::new(requested)?;
    if requested != principal.tenant && !principal.is_operator() {
        let detail = "the token does not belong to the tenant in Bursar-Tenant; leave the header out, or use a token of that tenant";
        return Err(Problem::new(Kind::Forbidden, detail));
    }
    Ok(requested)
}

/// Returns the value of a header that may occur at most once.
pub(crate) fn header_text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::invalid(name.to_string(), format!("the header {name} is repeated; send it once")));
    }
    let text =
        value.to_str().map_err(|_| Problem::invalid(name.to_string(), format!("the header {name} is not ASCII")));
    text.map(Some)
}

/// Parses `If-Match`: one strong ETag, as a response returned it, or `*`.
pub(crate) fn if_match(headers: &HeaderMap) -> Result<Option<IfMatch>, Problem> {
    let Some(text) = header_text(headers, &header::IF_MATCH)? else { return Ok(None) };
    if text == "*" {
        return Ok(Some(IfMatch::Any));
    }
    let hexadecimal = |digits: &&str| digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let digits = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).filter(hexadecimal);
    match digits.map(|digits| u128::from_str_radix(digits, 16)) {
        Some(Ok(digest)) => Ok(Some(IfMatch::Only(Fingerprint(digest)))),
        _ => Err(Problem::invalid("if-match".into(), "If-Match must be one ETag, as a response returned it, or *")),
    }
}
