//! The document as a page: it needs nothing from elsewhere, so that it works without a network.

/// The page. It reads `/v1/openapi.json` and shows it.
pub(crate) const PAGE: &str = include_str!("page.html");
