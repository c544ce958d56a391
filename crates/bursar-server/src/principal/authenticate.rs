//! Authentication: from the token of a request to its principal.

use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{HeaderName, header};
use bursar::{Bursar, Context, CredentialClass, CredentialToken, Grant, GrantFault, Tenant};
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::events::socket;
use crate::pipeline::Peer;
use crate::principal::jwks::Jwks;
use crate::principal::jwt::{JwtError, JwtKey, JwtRules, User};
use crate::principal::permissions::Role;
use crate::principal::{Principal, owner_named, unauthorized};
use crate::trace::Trace;
use crate::wire::credential::{Claims, credential_id};
use crate::wire::problem::{Kind, Problem};

const WORKER_TOKEN: HeaderName = HeaderName::from_static("x-worker-token");
/// Minimum length of a configured operator token, in bytes.
pub const OPERATOR_BYTES_MIN: usize = 32;

/// The keys for tokens that are not in the database: the configured operator token, and JWTs.
pub(crate) struct TokenKeys {
    /// SHA-256 of the operator token.
    operator: Option<[u8; 32]>,
    jwt: Vec<JwtKey>,
    rules: JwtRules,
    /// Further keys for JWTs, which an identity provider changes.
    pub(crate) jwks: Option<Arc<Jwks>>,
}

impl TokenKeys {
    pub(crate) fn new(operator: Option<&str>, jwt: Vec<JwtKey>, rules: JwtRules) -> TokenKeys {
        TokenKeys { operator: operator.map(|token| Sha256::digest(token).into()), jwt, rules, jwks: None }
    }

    /// Returns the user of a JWT.
    async fn user(&self, token: &str, now: i64) -> Result<User, JwtError> {
        let user = JwtKey::verify(&self.jwt, &self.rules, token, now);
        let (Err(JwtError::BadSignature), Some(jwks)) = (&user, &self.jwks) else { return user };
        let keys = jwks.candidates(JwtKey::id_in(token)?.as_deref()).await;
        JwtKey::verify(&keys, &self.rules, token, now)
    }
}

/// Returns the principal of a request's token.
pub(crate) async fn authenticate(app: &App, parts: &Parts) -> Result<Principal, Problem> {
    let (token, worker_only) = token(parts)?;
    let from = parts.extensions.get::<Peer>().copied().map(|Peer(ip)| ip).ok_or_else(unauthorized)?;
    match identify(app, token, worker_only).await? {
        Ok(principal) => {
            record_use(app, &principal);
            Ok(principal)
        }
        Err(fault) => {
            app.metrics.denied();
            let from = app.proxies.caller(from, &parts.headers);
            if let Err(wait) = app.failed_attempts.record(from) {
                let detail = "too many invalid tokens from this address; retry later with a valid token";
                return Err(Problem::new(Kind::TooManyAttempts, detail).retry_after(wait));
            }
            // Only the log has the reason; the response is the same for every fault.
            let request_id = parts.extensions.get::<Trace>().map(Trace::request_id);
            tracing::info!(request_id, %from, %fault, "token rejected");
            Err(unauthorized())
        }
    }
}

/// Records the time of a token's use in the database, at most once an hour, in a background task.
fn record_use(app: &App, principal: &Principal) {
    let Some(id) = principal.credential.as_ref().map(CredentialToken::id).filter(|id| app.token_uses.due(*id)) else {
        return;
    };
    let context = Context::of(principal.tenant.clone()).by(principal.actor());
    let bursar = app.bursar.in_context(context);
    tokio::spawn(async move {
        if let Err(error) = bursar.credentials().used(id).await {
            tracing::warn!(%error, "recording the use of a token failed");
        }
    });
}

/// Returns the only token of a request, and whether it must be a worker token. Two tokens are an error.
fn token(parts: &Parts) -> Result<(&str, bool), Problem> {
    let bearers = parts.headers.get_all(header::AUTHORIZATION).iter().map(|value| (value, false));
    let workers = parts.headers.get_all(&WORKER_TOKEN).iter().map(|value| (value, true));
    let mut all = bearers.chain(workers);
    let mut offered = socket::tokens(&parts.headers);
    let (value, worker) = match (all.next(), all.next(), offered.next(), offered.next()) {
        (Some(given), None, None, None) => given,
        (None, None, Some(token), None) => return Ok((token, false)),
        _ => return Err(unauthorized()),
    };
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

/// Returns the principal of a token, or for an invalid token the reason, which is for the log only.
async fn identify(app: &App, text: &str, worker_only: bool) -> Result<Result<Principal, String>, Problem> {
    if let Ok(token) = CredentialToken::parse(text) {
        if worker_only && token.class() != CredentialClass::Worker {
            return Ok(Err("not a worker token".into()));
        }
        let read = {
            let (bursar, token) = (app.bursar.clone(), token.clone());
            move || {
                let (bursar, token) = (bursar.clone(), token.clone());
                async move { credential_principal(&bursar, token).await.ok() }
            }
        };
        return match app.token_reads.read(text, read).await {
            Some(known) => Ok(known),
            // The shared read failed; a read of its own returns the error.
            None => credential_principal(&app.bursar, token).await,
        };
    }
    if worker_only {
        return Ok(Err(GrantFault::Malformed.to_string()));
    }
    // Comparing digests makes the time of the comparison independent of the token.
    if app.token_keys.operator.is_some_and(|operator| operator == <[u8; 32]>::from(Sha256::digest(text))) {
        return Ok(Ok(Principal::operator()));
    }
    if text.matches('.').count() == 2 {
        let now = app.clock.now().micros().div_euclid(1_000_000);
        let user = app.token_keys.user(text, now).await.map_err(|error| error.to_string());
        return Ok(user.map(|user| Principal {
            role: Some(user.role),
            tenant: user.tenant,
            owner: owner_named("user", &user.subject),
            name: user.subject,
            valid_until: Some(user.valid_until),
            ..Principal::anonymous()
        }));
    }
    Ok(Err(GrantFault::Malformed.to_string()))
}

/// Reads the row of a credential and returns its principal.
async fn credential_principal(bursar: &Bursar, token: CredentialToken) -> Result<Result<Principal, String>, Problem> {
    let admitted = bursar.credentials().admit(&token).await?;
    let known = admitted.and_then(|grant| principal(token.class(), &grant));
    let known = known.map(|principal| Principal { credential: Some(token), ..principal });
    Ok(known.map_err(|fault| fault.to_string()))
}

/// Returns the principal of a credential's row.
fn principal(class: CredentialClass, grant: &Grant) -> Result<Principal, GrantFault> {
    if class == CredentialClass::Operator {
        // Operators exist only in the built-in tenant; such a row in another tenant gives no rights.
        return if grant.tenant == Tenant::built_in() { Ok(Principal::operator()) } else { Err(GrantFault::Mismatch) };
    }
    let claims = Claims::of(grant).ok_or(GrantFault::Mismatch)?;
    let role = match (class, claims.role) {
        (CredentialClass::Worker, _) => Role::Worker,
        (_, Some(role)) if role.is_of_keys() => role,
        _ => return Err(GrantFault::Mismatch),
    };
    // A rotated token acts for the same principal as the token it replaced.
    let first = claims.first.unwrap_or(grant.id);
    Ok(Principal {
        role: Some(role),
        tenant: grant.tenant.clone(),
        owner: owner_named("token", &credential_id(class, first)),
        name: claims.name,
        capabilities: claims.capabilities,
        ..Principal::anonymous()
    })
}
