//! Signing in with a token or a one-time code, and signing out.

use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Form, Router};
use bursar_client::Kind;
use maud::html;
use serde::Deserialize;

use crate::Shared;
use crate::api::Caller;
use crate::failure::Failure;
use crate::session::{self, SESSION};
use crate::shell;
use crate::suggested::CREATE_TOKEN;
use crate::visit::{Act, client, from_another_site};

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/login", get(show).post(sign_in)).route("/logout", post(sign_out))
}

#[derive(Deserialize)]
struct LoginQuery {
    #[serde(default)]
    next: String,
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    expired: Option<String>,
}

async fn show(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Query(query): Query<LoginQuery>,
) -> Response {
    match query.code {
        Some(code) => match shared.codes.take(&code, &caller) {
            Some(token) => signed_in(&token, "/", &caller),
            // A second click on the link of a browser that is signed in already.
            None if session::cookie(&headers, SESSION).is_some() => Redirect::to("/").into_response(),
            None => form(&query.next, Some("The link has been used or is not valid. Paste the token instead.")),
        },
        None if query.expired.is_some() => form(&query.next, Some("The session has ended. Sign in again.")),
        None => form(&query.next, None),
    }
}

fn form(next: &str, problem: Option<&str>) -> Response {
    let body = html! {
        p.muted { "Paste a token of this server." }
        form.form method="post" action="/login" {
            @if let Some(problem) = problem { div.flash.is-bad role="alert" { p { (problem) } } }
            input type="hidden" name="next" value=(next);
            div.field {
                label for="token" { "Token" }
                input.mono #token name="token" type="password" required autofocus autocomplete="current-password" placeholder="bop_… or bak_…";
            }
            button.btn.is-primary { "Sign in" }
        }
        p.login-foot { "No token yet? " code { (CREATE_TOKEN) } " makes one that may only look." }
    };
    shell::bare("Sign in", &body)
}

#[derive(Deserialize)]
struct LoginForm {
    token: String,
    #[serde(default)]
    next: String,
}

async fn sign_in(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Form(fields): Form<LoginForm>,
) -> Result<Response, Failure> {
    // Another site could otherwise sign a browser in with a token of its own.
    if from_another_site(&headers) {
        return Err(Failure::Forged);
    }
    let token = fields.token.trim();
    let who = client(&shared, caller)?.token(token).whoami().await;
    match who {
        Ok(_) => Ok(signed_in(token, &fields.next, &caller)),
        Err(error) if error.kind() == Some(Kind::Unauthorized) => {
            Ok(form(&fields.next, Some("This token is not valid here. Check that it was copied whole.")))
        }
        Err(error) => Ok(form(&fields.next, Some(&error.to_string()))),
    }
}

/// Sets the cookie and goes to a page of this site.
fn signed_in(token: &str, next: &str, caller: &Caller) -> Response {
    let local = next.starts_with('/') && !next.starts_with("//") && !next.contains('\\');
    let mut response = Redirect::to(if local { next } else { "/" }).into_response();
    response.headers_mut().append(header::SET_COOKIE, session::sign_in(token, caller));
    response
}

async fn sign_out(act: Act) -> Response {
    let mut response = Redirect::to("/login").into_response();
    response.headers_mut().append(header::SET_COOKIE, session::sign_out(&act.visit.caller));
    response.headers_mut().append("clear-site-data", HeaderValue::from_static("\"cache\""));
    response
}
