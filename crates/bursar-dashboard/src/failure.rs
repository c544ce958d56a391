//! Why a page cannot be shown, and the page that says so.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use bursar_client::{Error, Kind};
use bursar_core::refusal::Invalid;
use maud::html;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::api::Caller;
use crate::{session, shell};

/// Why a page cannot be shown.
pub(crate) enum Failure {
    /// The visitor has to sign in first, and then goes to this path.
    SignIn { next: String, expired: bool, caller: Caller },
    /// The request came from another site, and so without the cookie. Loading the page again sends it.
    LoadAgain,
    /// A form was not sent by a page of this session.
    Forged,
    /// The visitor's role does not allow an action.
    NotAllowed(&'static str),
    /// There is no such page.
    NoPage,
    /// Nothing is known of the tenant that the URL names; these tenants are known.
    NoTenant { tenant: String, known: Vec<String> },
    /// The API answered with a problem.
    Api(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Api(error)
    }
}

impl From<Invalid> for Failure {
    fn from(error: Invalid) -> Failure {
        Failure::Api(error.into())
    }
}

impl Failure {
    /// Returns whether the visitor's role is the reason.
    pub(crate) fn is_forbidden(&self) -> bool {
        match self {
            Failure::NotAllowed(_) => true,
            Failure::Api(error) => error.kind() == Some(Kind::Forbidden),
            _ => false,
        }
    }

    /// Returns the text that a message beside a form shows.
    pub(crate) fn text(&self) -> String {
        match self {
            Failure::SignIn { .. } => "the session has ended; sign in again".to_owned(),
            Failure::LoadAgain | Failure::Forged => {
                "the form is not from this session; nothing was changed; load the page again".to_owned()
            }
            Failure::NotAllowed(action) => format!("the role of this token does not allow {action}"),
            Failure::NoPage => "there is no such page".to_owned(),
            Failure::NoTenant { tenant, .. } => format!("no tenant is called {tenant}"),
            Failure::Api(error) => error.to_string(),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let (status, title) = match &self {
            Failure::SignIn { next, expired, caller } => {
                let next = utf8_percent_encode(next, NON_ALPHANUMERIC);
                let why = if *expired { "&expired=1" } else { "" };
                let mut response = Redirect::to(&format!("/login?next={next}{why}")).into_response();
                if *expired {
                    response.headers_mut().append(header::SET_COOKIE, session::sign_out(caller));
                }
                return response;
            }
            Failure::NoTenant { tenant, known } => return shell::no_tenant(tenant, known),
            Failure::LoadAgain => return shell::reload().into_response(),
            Failure::Forged => (StatusCode::FORBIDDEN, "The form was not accepted"),
            Failure::NotAllowed(_) => (StatusCode::FORBIDDEN, "Not allowed"),
            Failure::NoPage => (StatusCode::NOT_FOUND, "Page not found"),
            Failure::Api(error) => match (error, error.kind()) {
                (_, Some(Kind::NotFound | Kind::UnknownScope)) => (StatusCode::NOT_FOUND, "Not found"),
                (_, Some(Kind::Forbidden)) => (StatusCode::FORBIDDEN, "Not allowed"),
                (Error::Invalid(_), _) | (_, Some(Kind::Invalid)) => (StatusCode::BAD_REQUEST, "Not valid"),
                (Error::Problem(problem), _) => {
                    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::BAD_GATEWAY);
                    (status, "The page cannot be shown")
                }
                _ => (StatusCode::BAD_GATEWAY, "The page cannot be shown"),
            },
        };
        let request = match &self {
            Failure::Api(Error::Problem(problem)) => problem.http.as_ref().and_then(|http| http.request_id.clone()),
            _ => None,
        };
        let body = html! {
            p { (self.text()) }
            @if let Some(request) = request { p.muted { "Request " code { (request) } } }
            p { a.btn href="/" { "Overview" } }
        };
        (status, shell::bare(title, &body)).into_response()
    }
}
