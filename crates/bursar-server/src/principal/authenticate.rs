//! From what a request shows to who asks.

use axum::http::request::Parts;
use axum::http::{HeaderName, header};
use bursar::{Bursar, Context, CredentialClass, CredentialToken, Grant, GrantFault, Tenant};
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::entry::Peer;
use crate::principal::jwt::{JwtKey, JwtRules};
use crate::principal::table::Role;
use crate::principal::{Principal, owner_named, unauthorized};
use crate::trace::Trace;
use crate::wire::credential::{Claims, credential_id};
use crate::wire::problem::{Kind, Problem};

const WORKER_TOKEN: HeaderName = HeaderName::from_static("x-worker-token");
/// The shortest operator's token that may be set.
pub const OPERATOR_BYTES_MIN: usize = 32;

/// What tokens that are not in the database are checked with.
pub(crate) struct Keys {
    operator: Option<[u8; 32]>,
    jwt: Vec<JwtKey>,
    rules: JwtRules,
}

impl Keys {
    pub(crate) fn new(operator: Option<&str>, jwt: Vec<JwtKey>, rules: JwtRules) -> Keys {
        Keys { operator: operator.map(|token| Sha256::digest(token).into()), jwt, rules }
    }
}

/// Who shows a good token.
pub(crate) async fn authenticate(app: &App, parts: &Parts) -> Result<Principal, Problem> {
    let (shown, worker_only) = shown(parts)?;
    let from = parts.extensions.get::<Peer>().copied().map(|Peer(ip)| ip).ok_or_else(unauthorized)?;
    match identify(app, shown, worker_only).await? {
        Ok(principal) => {
            note_use(app, &principal);
            Ok(principal)
        }
        Err(fault) => {
            app.metrics.denied();
            let from = app.proxies.caller(from, &parts.headers);
            if let Err(wait) = app.attempts.failed(from) {
                let detail = "too many failed attempts from this address; try again later with a good token";
                return Err(Problem::new(Kind::TooManyAttempts, detail).retry_after(wait));
            }
            // To an outsider all faults are one.
            let request_id = parts.extensions.get::<Trace>().map(Trace::request_id);
            tracing::info!(request_id, %from, %fault, "a token was not taken");
            Err(unauthorized())
        }
    }
}

/// Has the use of a token written down, once in a while. Nobody waits for it, and nothing depends on it.
fn note_use(app: &App, principal: &Principal) {
    let Some(id) = principal.credential.as_ref().map(CredentialToken::id).filter(|id| app.uses.due(*id)) else {
        return;
    };
    let context = Context::of(principal.tenant.clone()).by(principal.actor());
    let bursar = app.bursar.in_context(context);
    tokio::spawn(async move {
        if let Err(error) = bursar.credentials().used(id).await {
            tracing::warn!(%error, "the use of a token could not be written down");
        }
    });
}

/// The one token of a request, and whether it must be a worker's.
fn shown(parts: &Parts) -> Result<(&str, bool), Problem> {
    let bearers = parts.headers.get_all(header::AUTHORIZATION).iter().map(|value| (value, false));
    let workers = parts.headers.get_all(&WORKER_TOKEN).iter().map(|value| (value, true));
    let mut all = bearers.chain(workers);
    let (Some((value, worker)), None) = (all.next(), all.next()) else { return Err(unauthorized()) };
    let text = value.to_str().map_err(|_| unauthorized())?;
    if worker {
        return Ok((text.trim(), true));
    }
    let (scheme, token) = text.split_once(' ').ok_or_else(unauthorized)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(unauthorized());
    }
    Ok((token.trim(), false))
}

async fn identify(app: &App, shown: &str, worker_only: bool) -> Result<Result<Principal, String>, Problem> {
    if let Ok(token) = CredentialToken::parse(shown) {
        if worker_only && token.class() != CredentialClass::Worker {
            return Ok(Err("it is no worker's".into()));
        }
        let reading = {
            let (bursar, token) = (app.bursar.clone(), token.clone());
            move || {
                let (bursar, token) = (bursar.clone(), token.clone());
                async move { admitted(&bursar, token).await.ok() }
            }
        };
        return match app.readings.read(shown, reading).await {
            Some(known) => Ok(known),
            // Whoever shared a reading that failed learns why by one of its own.
            None => admitted(&app.bursar, token).await,
        };
    }
    if worker_only {
        return Ok(Err(GrantFault::Malformed.to_string()));
    }
    // Digests are compared, so that how long it takes says nothing about the token.
    if app.keys.operator.is_some_and(|operator| operator == <[u8; 32]>::from(Sha256::digest(shown))) {
        return Ok(Ok(Principal::operator()));
    }
    if shown.matches('.').count() == 2 {
        let now = app.clock.now().micros().div_euclid(1_000_000);
        let user = JwtKey::verify(&app.keys.jwt, &app.keys.rules, shown, now).map_err(|error| error.to_string());
        return Ok(user.map(|user| Principal {
            role: Some(user.role),
            tenant: user.tenant,
            owner: owner_named("user", &user.subject),
            name: user.subject,
            good_until: Some(user.good_until),
            ..Principal::nobody()
        }));
    }
    Ok(Err(GrantFault::Malformed.to_string()))
}

/// Whom a token lets in, by its row.
async fn admitted(bursar: &Bursar, token: CredentialToken) -> Result<Result<Principal, String>, Problem> {
    let admitted = bursar.credentials().admit(&token).await?;
    let known = admitted.and_then(|grant| principal(token.class(), &grant));
    let known = known.map(|principal| Principal { credential: Some(token), ..principal });
    Ok(known.map_err(|fault| fault.to_string()))
}

/// Who a row of the database stands for.
fn principal(class: CredentialClass, grant: &Grant) -> Result<Principal, GrantFault> {
    if class == CredentialClass::Operator {
        // Only the built-in tenant has operators: another's row would be a mistake, and no power.
        return if grant.tenant == Tenant::built_in() { Ok(Principal::operator()) } else { Err(GrantFault::Mismatch) };
    }
    let claims = Claims::of(grant).ok_or(GrantFault::Mismatch)?;
    let role = match (class, claims.role) {
        (CredentialClass::Worker, _) => Role::Worker,
        (_, Some(role)) if role.is_of_keys() => role,
        _ => return Err(GrantFault::Mismatch),
    };
    // A token that took the place of another acts for the same principal.
    let first = claims.first.unwrap_or(grant.id);
    Ok(Principal {
        role: Some(role),
        tenant: grant.tenant.clone(),
        owner: owner_named("token", &credential_id(class, first)),
        name: claims.name,
        capabilities: claims.capabilities,
        ..Principal::nobody()
    })
}
