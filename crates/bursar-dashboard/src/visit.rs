//! What a handler gets of a request: the client, who the visitor is, and the tenant.

use std::sync::Arc;

use axum::Form;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use bursar_client::{Client, Kind, Tenant};
use bursar_core::time::Time;
use bursar_wire::role::WhoAmIAnswer;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::Shared;
use crate::api::{Api, Caller, InProcess};
use crate::failure::Failure;
use crate::session::{self, FLASH, SESSION, THEME};

/// A signed-in visitor and the page that is visited.
pub(crate) struct Visit {
    /// Calls the API with the visitor's token, for the tenant of the page.
    pub(crate) client: Client,
    pub(crate) who: WhoAmIAnswer,
    /// The tenant that an operator has chosen in the URL.
    pub(crate) tenant: Option<Tenant>,
    /// What every form of the page must send back.
    pub(crate) form_token: String,
    pub(crate) caller: Caller,
    /// The scheme and host that the browser uses, such as `https://bursar.example`.
    pub(crate) origin: String,
    pub(crate) now: Time,
    /// The message of the last act.
    pub(crate) flash: Option<Flash>,
    /// `light` or `dark`, if the visitor has chosen one.
    pub(crate) theme: Option<String>,
    pub(crate) uri: Uri,
    pub(crate) api: Arc<dyn Api>,
    token: String,
}

/// A message that is shown once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flash {
    Done(String),
    Failed(String),
    /// A new token, with the name it was made for. The cookie is not readable by scripts and lasts a minute.
    Secret {
        name: String,
        token: String,
    },
    /// The address of a new link. The cookie is like that of a new token.
    Link {
        address: String,
    },
}

impl Flash {
    fn encode(&self) -> String {
        match self {
            Flash::Done(text) => format!("done {text}"),
            Flash::Failed(text) => format!("failed {text}"),
            Flash::Secret { name, token } => format!("secret {token} {name}"),
            Flash::Link { address } => format!("link {address}"),
        }
    }

    fn decode(text: &str) -> Option<Flash> {
        match text.split_once(' ')? {
            ("done", text) => Some(Flash::Done(text.to_owned())),
            ("failed", text) => Some(Flash::Failed(text.to_owned())),
            ("link", text) => Some(Flash::Link { address: text.to_owned() }),
            ("secret", text) => {
                let (token, name) = text.split_once(' ')?;
                Some(Flash::Secret { name: name.to_owned(), token: token.to_owned() })
            }
            _ => None,
        }
    }
}

impl Visit {
    /// Returns whether the visitor may perform an action.
    pub(crate) fn may(&self, action: &str) -> bool {
        self.who.actions.iter().any(|allowed| allowed == action)
    }

    /// Returns a path of the dashboard for the tenant of this page.
    pub(crate) fn url(&self, path: &str) -> String {
        match &self.tenant {
            Some(tenant) => {
                let separator = if path.contains('?') { '&' } else { '?' };
                format!("{path}{separator}tenant={}", encoded(tenant.as_str()))
            }
            None => path.to_owned(),
        }
    }

    /// Goes to a page after an act, which shows what happened.
    pub(crate) fn done(&self, path: &str, message: impl Into<String>) -> Response {
        self.go(path, &Flash::Done(message.into()))
    }

    /// Goes to a page, with a message.
    pub(crate) fn go(&self, path: &str, flash: &Flash) -> Response {
        let mut response = Redirect::to(&self.url(path)).into_response();
        let cookie = session::set_cookie(FLASH, &flash.encode(), 60, &self.caller);
        response.headers_mut().append(header::SET_COOKIE, cookie);
        response
    }

    /// Goes to a page that says why an act failed; an act that the visitor may not do has its own page.
    pub(crate) fn failed(&self, path: &str, failure: Failure) -> Result<Response, Failure> {
        match failure.is_forbidden() {
            true => Err(failure),
            false => Ok(self.go(path, &Flash::Failed(failure.text()))),
        }
    }

    /// Fails if the visitor may not perform an action.
    pub(crate) fn require(&self, action: &'static str) -> Result<(), Failure> {
        if self.may(action) { Ok(()) } else { Err(Failure::NotAllowed(action)) }
    }

    /// Returns the visitor's token, for requests that are passed on as they are.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }
}

/// Everything but the characters that a URL may contain anywhere.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Encodes a part of a path or of a query.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

impl FromRequestParts<Shared> for Visit {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Visit, Failure> {
        let caller = *parts.extensions.get::<Caller>().expect("the server adds the caller");
        let next = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let Some(token) = session::cookie(&parts.headers, SESSION).filter(|token| !token.is_empty()) else {
            // A link on another site does not send a strict cookie, although the visitor may be signed in.
            let first_try = from_another_site(&parts.headers) && parts.method == "GET";
            return Err(if first_try { Failure::LoadAgain } else { Failure::SignIn { next, expired: false, caller } });
        };
        let tenant = query_value(&parts.uri, "tenant").filter(|tenant| !tenant.is_empty());
        let tenant = tenant.map(|tenant| Tenant::new(&tenant)).transpose()?;
        let client = client(shared, caller)?.token(token.clone());
        let who = match client.whoami().await {
            Ok(who) => who.into_inner(),
            Err(error) if error.kind() == Some(Kind::Unauthorized) => {
                return Err(Failure::SignIn { next, expired: true, caller });
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(tenant) = tenant.as_ref().filter(|tenant| **tenant != who.tenant && parts.method == "GET") {
            check_tenant(&client, &who, tenant, parts.uri.path()).await?;
        }
        let client = match &tenant {
            Some(tenant) => client.tenant(tenant.clone()),
            None => client,
        };
        Ok(Visit {
            client,
            who,
            tenant,
            form_token: session::form_token(&token),
            caller,
            origin: origin(&parts.headers, caller),
            now: shared.api.now(),
            // A page that loads itself again leaves the message to the page that an act leads to.
            flash: match parts.headers.contains_key("bursar-refresh") {
                true => None,
                false => session::cookie(&parts.headers, FLASH).and_then(|text| Flash::decode(&text)),
            },
            theme: session::cookie(&parts.headers, THEME).filter(|theme| theme == "light" || theme == "dark"),
            uri: parts.uri.clone(),
            api: shared.api.clone(),
            token,
        })
    }
}

fn origin(headers: &HeaderMap, caller: Caller) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    format!("{}://{host}", if caller.secure { "https" } else { "http" })
}

/// Pages on which something begins, also a tenant.
const BEGINNINGS: [&str; 2] = ["/budgets/new", "/tokens"];
/// Tenants that are named if another one does not exist.
const TENANTS_NAMED: usize = 10;

/// Fails if nothing is known of the tenant that an operator has chosen: a slip would otherwise look like a tenant without data.
async fn check_tenant(client: &Client, who: &WhoAmIAnswer, tenant: &Tenant, path: &str) -> Result<(), Failure> {
    let may = who.actions.iter().any(|action| action == "tenants.read");
    if !may || BEGINNINGS.contains(&path) {
        return Ok(());
    }
    match client.tenants().show(tenant).await {
        Err(error) if error.kind() == Some(Kind::NotFound) => {
            let known = client.tenants().list(None, TENANTS_NAMED).await?.into_inner().items;
            let known = known.into_iter().map(|tenant| tenant.name.to_string()).collect();
            Err(Failure::NoTenant { tenant: tenant.to_string(), known })
        }
        found => Ok(found.map(drop)?),
    }
}

/// Returns a client without a token that calls the routes inside this process.
pub(crate) fn client(shared: &Shared, caller: Caller) -> Result<Client, Failure> {
    let transport = InProcess { api: shared.api.clone(), caller };
    Ok(Client::over(transport, "http://dashboard")?.once())
}

/// Returns whether a request was caused by another site. Browsers say so, except over plain HTTP, where the origin of a form tells.
pub(crate) fn from_another_site(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text("sec-fetch-site") {
        return site != "same-origin" && site != "none";
    }
    let origin = text("origin").map(|origin| origin.split_once("://").map_or(origin, |(_, host)| host));
    origin.is_some_and(|origin| text("host") != Some(origin))
}

/// Returns a value of the query.
pub(crate) fn query_value(uri: &Uri, name: &str) -> Option<String> {
    let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri).ok()?;
    pairs.0.into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

/// An act: a form that a page of this session has sent.
pub(crate) struct Act {
    pub(crate) visit: Visit,
    fields: Vec<(String, String)>,
}

impl Act {
    /// Returns a field without the spaces around it; `None` if it is missing or empty.
    pub(crate) fn field<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.all(name).next()
    }

    /// Returns all values of a field, without the spaces around them, in the order of the form.
    pub(crate) fn each<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.trim())
    }

    /// Returns all values of a field that are not empty.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.each(name).filter(|value| !value.is_empty())
    }
}

impl FromRequest<Shared> for Act {
    type Rejection = Failure;

    async fn from_request(request: Request, shared: &Shared) -> Result<Act, Failure> {
        let (mut parts, body) = request.into_parts();
        let foreign = from_another_site(&parts.headers);
        let visit = Visit::from_request_parts(&mut parts, shared).await?;
        let form = Form::<Vec<(String, String)>>::from_request(Request::from_parts(parts, body), shared).await;
        let Form(fields) = form.map_err(|_| Failure::Forged)?;
        let sent = fields.iter().find(|(name, _)| name == "form").map(|(_, value)| value.as_str());
        if foreign || sent != Some(visit.form_token.as_str()) {
            return Err(Failure::Forged);
        }
        Ok(Act { visit, fields })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_a_round_trip() {
        let secret = Flash::Secret { name: "ann b".into(), token: "bak_x".into() };
        let link = Flash::Link { address: "https://a/l/x?y".into() };
        for flash in [Flash::Done("3 jobs retried".into()), Flash::Failed("no".into()), secret, link] {
            assert_eq!(Flash::decode(&flash.encode()), Some(flash));
        }
        assert_eq!(Flash::decode("<script>"), None);
    }

    #[test]
    fn requests_of_other_sites_are_recognised() {
        let headers = |pairs: &[(&'static str, &'static str)]| {
            let pairs =
                pairs.iter().map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
            pairs.collect::<HeaderMap>()
        };
        let cases: [(&[(&str, &str)], bool); 7] = [
            (&[], false),
            (&[("sec-fetch-site", "same-origin")], false),
            (&[("sec-fetch-site", "none")], false),
            (&[("sec-fetch-site", "cross-site")], true),
            (&[("sec-fetch-site", "same-site")], true),
            (&[("origin", "http://a:1"), ("host", "a:1")], false),
            (&[("origin", "http://b"), ("host", "a:1")], true),
        ];
        for (pairs, expected) in cases {
            assert_eq!(from_another_site(&headers(pairs)), expected, "{pairs:?}");
        }
    }

    #[test]
    fn values_of_the_query_are_decoded() {
        let uri: Uri = "/jobs?tenant=a%20b&x=1".parse().expect("a URI");
        assert_eq!(query_value(&uri, "tenant").as_deref(), Some("a b"));
        assert_eq!(query_value(&uri, "y"), None);
    }
}
