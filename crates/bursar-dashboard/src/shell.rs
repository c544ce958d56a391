//! The frame of every page: header, navigation, messages.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bursar_wire::role::Role;
use maud::{DOCTYPE, Markup, html};

use crate::assets::{ICON, SCRIPT, STYLE};
use crate::session::{self, FLASH};
use crate::view::{bar, form};
use crate::visit::{Flash, Visit, encoded};

/// What browsers may load for a page: its own style sheet, script and images, and nothing else.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// How a page follows events.
pub(crate) enum Live {
    /// It does not change.
    Still,
    /// Parts marked with `data-live` are replaced when an event of these channels arrives.
    Replace(String),
    /// A bar tells how many events have arrived, so that rows do not move under the pointer.
    Announce(String),
}

/// An entry of the navigation.
struct Entry {
    path: &'static str,
    label: &'static str,
    /// The action that a visitor needs to see it.
    action: &'static str,
    /// The path of its icon.
    icon: &'static str,
}

const ENTRIES: [&[Entry]; 2] = [
    &[
        Entry { path: "/", label: "Overview", action: "queues.read", icon: "M2 13V8M6 13V3M10 13V6M14 13V9" },
        Entry { path: "/budgets", label: "Budgets", action: "budgets.read", icon: "M2 4h12v9H2zM2 7h12M10 10h2" },
        Entry { path: "/jobs", label: "Jobs", action: "jobs.read", icon: "M3 4h10M3 8h10M3 12h6" },
        Entry { path: "/queues", label: "Queues", action: "queues.read", icon: "M2 5h12v6H2zM6 5v6M10 5v6" },
        Entry {
            path: "/schedules",
            label: "Schedules",
            action: "schedules.read",
            icon: "M8 2a6 6 0 100 12A6 6 0 008 2M8 5v3l2 2",
        },
        Entry { path: "/blobs", label: "Blobs", action: "blobs.read", icon: "M4 2h5l3 3v9H4zM9 2v3h3" },
        Entry { path: "/dead", label: "Dead jobs", action: "jobs.read", icon: "M4 4l8 8M12 4l-8 8" },
        Entry {
            path: "/workers",
            label: "Workers",
            action: "jobs.read",
            icon: "M8 3a2.5 2.5 0 100 5 2.5 2.5 0 000-5M3 14c0-3 2-4.5 5-4.5s5 1.5 5 4.5",
        },
    ],
    &[
        Entry { path: "/grants", label: "Grants", action: "grants.read", icon: "M2 6h12v4H2zM5 6v4" },
        Entry { path: "/journal", label: "Journal", action: "journal.read", icon: "M4 2h8v12H4zM6 5h4M6 8h4M6 11h2" },
        Entry {
            path: "/tokens",
            label: "Tokens",
            action: "tokens.write",
            icon: "M5 8a3 3 0 106 0 3 3 0 00-6 0M11 8h3M13 8v3",
        },
        Entry { path: "/settings", label: "Settings", action: "whoami", icon: "M3 5h10M3 11h10M6 3v4M10 9v4" },
    ],
];

/// Shows a page with navigation.
pub(crate) fn page(visit: &Visit, title: &str, live: &Live, body: &Markup) -> Response {
    let (mode, events) = match live {
        Live::Still => (None, None),
        Live::Replace(channels) => (Some("replace"), Some(channels)),
        Live::Announce(channels) => (Some("announce"), Some(channels)),
    };
    let may_listen = |channels: &&String| {
        let journal = channels.as_str() == "journal";
        !channels.is_empty() && visit.may("events.listen") && (!journal || visit.may("journal.read"))
    };
    let events = events.filter(may_listen);
    let events = events.map(|channels| visit.url(&format!("/events?channels={}", encoded(channels))));
    let markup = html! {
        (DOCTYPE)
        html lang="en" data-theme=[visit.theme.as_deref()] {
            (head(title))
            body data-events=[&events] data-live-mode=[mode] {
                a.skip href="#main" { "Skip to the content" }
                (bar::patterns())
                (top(visit, events.is_some()))
                div.shell {
                    (navigation(visit))
                    main.page #main {
                        @if let Some(flash) = &visit.flash { (message(visit, flash)) }
                        (body)
                    }
                }
                (palette(visit))
                p.sr-only #announce role="status" {}
            }
        }
    };
    let mut response = with_headers(markup);
    if visit.flash.is_some() {
        // The message is shown once.
        response.headers_mut().append(header::SET_COOKIE, session::set_cookie(FLASH, "", 0, &visit.caller));
    }
    response
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            title { (title) " · Bursar" }
            link rel="icon" href=(ICON.url) type="image/svg+xml";
            link rel="stylesheet" href=(STYLE.url);
            script src=(SCRIPT.url) defer {}
        }
    }
}

fn brand() -> Markup {
    html! {
        svg viewBox="0 0 20 20" aria-hidden="true" {
            rect.mark-free x="1" y="3" width="18" height="14" rx="3" {}
            rect.mark-posted x="4" y="10" width="12" height="4" rx="1" {}
        }
    }
}

fn top(visit: &Visit, live: bool) -> Markup {
    let who = &visit.who;
    html! {
        header.top {
            button.nav-toggle popovertarget="nav" aria-label="Navigation" {
                svg.icon viewBox="0 0 16 16" aria-hidden="true" { path d="M2 4h12M2 8h12M2 12h12" {} }
            }
            a.brand href=(visit.url("/")) { (brand()) span { "Bursar" } }
            span.top-sep aria-hidden="true" { "/" }
            (tenant_menu(visit))
            a.search href=(visit.url("/search")) {
                svg.icon viewBox="0 0 16 16" aria-hidden="true" { path d="M7 3a4 4 0 100 8 4 4 0 000-8M10 10l4 4" {} }
                span { "Find a job, budget, queue or page" }
                kbd { "⌘K" }
            }
            @if live { span.live.is-off #live { span { "connecting" } } }
            details.menu {
                summary.btn.is-quiet { span.tag.is-role { (who.role.name()) } }
                div.menu-list.is-right {
                    p.menu-note { "Signed in as " strong { (who.name) } }
                    button type="button" data-set-theme="system" { "System theme" }
                    button type="button" data-set-theme="light" { "Light theme" }
                    button type="button" data-set-theme="dark" { "Dark theme" }
                    hr;
                    a href="/api" { "API reference" }
                    hr;
                    form method="post" action="/logout" { (form::token(visit)) button { "Sign out" } }
                }
            }
        }
    }
}

/// An operator may look at every tenant; the other roles have one.
fn tenant_menu(visit: &Visit) -> Markup {
    let shown = visit.tenant.as_ref().unwrap_or(&visit.who.tenant);
    if visit.who.role != Role::Operator {
        return html! { span.muted.tenant { (shown) } };
    }
    html! {
        details.menu {
            summary.btn.is-quiet { (shown) }
            div.menu-list {
                a href=(visit.url("/tenants")) { "All tenants" }
                hr;
                form.form method="get" action="/" {
                    div.field {
                        label for="tenant" { "Tenant" }
                        input #tenant name="tenant" value=(visit.tenant.as_ref().map(ToString::to_string).unwrap_or_default())
                            placeholder=(visit.who.tenant) autocomplete="off" spellcheck="false";
                    }
                    div.form-acts { button.btn.is-primary { "Show" } }
                }
            }
        }
    }
}

fn navigation(visit: &Visit) -> Markup {
    let path = visit.uri.path();
    let current = |entry: &Entry| match entry.path {
        "/" => path == "/",
        entry => path == entry || path.starts_with(&format!("{entry}/")),
    };
    html! {
        nav.nav #nav popover aria-label="Pages" {
            @for group in ENTRIES {
                ul {
                    @for entry in group.iter().filter(|entry| visit.may(entry.action)) {
                        li {
                            a href=(visit.url(entry.path)) aria-current=[current(entry).then_some("page")] {
                                svg.icon viewBox="0 0 16 16" aria-hidden="true" { path d=(entry.icon) {} }
                                (entry.label)
                            }
                        }
                    }
                }
            }
            p.nav-foot { "Bursar " (env!("CARGO_PKG_VERSION")) " · " a href="/api" { "API" } }
        }
    }
}

/// The search dialog, with the pages of the navigation.
fn palette(visit: &Visit) -> Markup {
    let entries = ENTRIES.into_iter().flatten().filter(|entry| visit.may(entry.action));
    html! {
        dialog.palette aria-label="Find" {
            form method="get" action="/search" {
                svg.icon viewBox="0 0 16 16" aria-hidden="true" { path d="M7 3a4 4 0 100 8 4 4 0 000-8M10 10l4 4" {} }
                @if let Some(tenant) = &visit.tenant { input type="hidden" name="tenant" value=(tenant); }
                input name="q" placeholder="An id, scope, queue or page" aria-label="Find" autocomplete="off" spellcheck="false"
                    role="combobox" aria-expanded="true" aria-controls="found";
            }
            div.palette-list #found role="listbox" {
                @for (at, entry) in entries.enumerate() {
                    a id={ "found-" (at) } role="option" href=(visit.url(entry.path)) {
                        svg.icon viewBox="0 0 16 16" aria-hidden="true" { path d=(entry.icon) {} }
                        (entry.label)
                    }
                }
            }
            p.palette-foot { span { kbd { "↑" } " " kbd { "↓" } " choose" } span { kbd { "Enter" } " open" } span { kbd { "Esc" } " close" } }
        }
    }
}

fn message(visit: &Visit, flash: &Flash) -> Markup {
    // The page without the message. A script removes the message in place.
    let here = visit.uri.path_and_query().map_or("/", |path| path.as_str());
    let close = html! { a.close href=(here) data-close aria-label="Close this message" title="Close" { "×" } };
    match flash {
        Flash::Done(text) => html! { div.flash.is-ok role="status" { p { (text) } (close) } },
        Flash::Failed(text) => html! { div.flash.is-bad role="alert" { p { (text) } (close) } },
        Flash::Link { address } => html! {
            section.secret role="status" {
                (close)
                h2 { "The link" }
                p { "Copy it now. It needs no token, and its address is not shown again." }
                div.value { code #minted { (address) } button.btn type="button" data-copy=(address) { "Copy" } }
            }
        },
        Flash::Secret { name, token } => html! {
            section.secret role="status" {
                (close)
                h2 { "The token of " (name) }
                p { "Copy it now. It is stored nowhere in plain text, and is not shown again." }
                div.value { code #minted { (token) } button.btn type="button" data-copy=(token) { "Copy" } }
            }
        },
    }
}

/// Shows the head of a page: where it is, its title, and what can be done.
pub(crate) fn head_of(visit: &Visit, crumbs: &[(&str, &str)], title: &Markup, meta: &Markup, acts: &Markup) -> Markup {
    html! {
        div.page-head data-live #page-head {
            @if !crumbs.is_empty() {
                nav aria-label="Path" { ol.crumbs { @for (path, label) in crumbs { li { a href=(visit.url(path)) { (label) } } } } }
            }
            h1 { (title) }
            div.meta { (meta) }
            div.acts { (acts) }
        }
    }
}

/// Shows a page without navigation: sign-in and errors.
pub(crate) fn bare(title: &str, body: &Markup) -> Response {
    with_headers(html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body {
                main.solo #main {
                    div.login {
                        a.brand href="/" { (brand()) span { "Bursar" } }
                        div.card { h1 { (title) } (body) }
                    }
                }
                p.sr-only #announce role="status" {}
            }
        }
    })
}

/// Shows that nothing is known of a tenant, and what is known.
pub(crate) fn no_tenant(tenant: &str, known: &[String]) -> Response {
    let encoded = encoded(tenant);
    let body = html! {
        p { "No tenant is called " strong { (tenant) } ". A tenant begins with its first budget, job or token." }
        @if !known.is_empty() {
            p { "Tenants with budgets: " @for name in known { a href={ "/?tenant=" (crate::visit::encoded(name)) } { (name) } " " } }
        }
        p { a.btn.is-primary href="/" { "Back to your own tenant" } }
        p { a.btn href={ "/budgets/new?tenant=" (encoded) } { "Define a budget for " (tenant) } }
    };
    (axum::http::StatusCode::NOT_FOUND, bare("No such tenant", &body)).into_response()
}

/// Shows that no page has this address.
pub(crate) fn not_found() -> Response {
    let body = html! { p { "No page has this address." } p { a.btn href="/" { "Overview" } } };
    (axum::http::StatusCode::NOT_FOUND, bare("Page not found", &body)).into_response()
}

/// Loads the page again, from this site, so that the browser sends its cookie.
pub(crate) fn reload() -> Response {
    with_headers(html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; meta http-equiv="refresh" content="0"; title { "Bursar" } }
            body {}
        }
    })
}

fn with_headers(markup: Markup) -> Response {
    let headers: [(HeaderName, HeaderValue); 4] = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY)),
        (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, markup.into_string()).into_response()
}
