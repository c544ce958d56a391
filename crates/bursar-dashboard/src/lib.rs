//! Bursar in the browser: server-rendered pages that are live, work without JavaScript, and load nothing from other hosts.
//!
//! A page is a client of the HTTP API. It calls the routes of the same server, inside the process, with the token of its visitor.
//! So a page shows what the token may read, an act is authorized and journaled like any other request, and no rule is repeated here.
//!
//! | module | contents |
//! | --- | --- |
//! | `api` | how pages reach the routes |
//! | `session` | sign-in, the session cookie, one-time login codes, protection against forged requests |
//! | `visit` | what a handler gets: the client, who the visitor is, the tenant |
//! | `shell` | the frame of every page: navigation, messages, search |
//! | `view/` | the parts that pages are made of: amounts, times, badges, bars, charts, tables |
//! | `pages/` | one file per page, with its acts |
//! | `suggested` | the commands that empty pages suggest |
//! | `assets` | style sheet, script and icon, with their digests in their URLs |
//!
//! Pages are live by the event stream: when an event arrives, the script loads the page again and replaces the parts that differ.

mod api;
mod assets;
mod failure;
mod pages;
mod session;
mod shell;
mod suggested;
mod view;
mod visit;

use std::sync::Arc;

use axum::Router;

pub use crate::api::{Api, Caller};
pub use crate::session::LoginCodes;
pub use crate::suggested::SUGGESTED_COMMANDS;

/// What all pages share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) api: Arc<dyn Api>,
    pub(crate) codes: LoginCodes,
}

/// Returns the pages. Every request must have a [`Caller`] among its extensions.
pub fn router(api: Arc<dyn Api>, codes: LoginCodes) -> Router {
    pages::router().merge(assets::router()).with_state(Shared { api, codes })
}

/// Returns the URLs of the style sheet and of the icon, for pages outside of the dashboard that look like it.
pub fn look() -> (&'static str, &'static str) {
    (&assets::STYLE.url, &assets::ICON.url)
}

/// Returns the page for an address that has none.
pub fn not_found() -> axum::response::Response {
    shell::not_found()
}
