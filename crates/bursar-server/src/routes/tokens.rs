//! `/v1/whoami`, `/v1/workers` and `/v1/keys`: the caller, worker tokens and API keys.

use axum::http::Method;
use std::time::Duration;

use bursar::bounds::GRANT_TTL_MAX;
use bursar::{CredentialClass, Grant, GrantId, KeyId, Op, Payload, Span, Subject, WorkerId, WorkerName, page};
use serde_json::json;

use crate::call::{Call, Input, NoFields};
use crate::convert;
use crate::principal::permissions::{Action, Allowed, Role};
use crate::principal::{authorize, forbidden, unauthorized};
use crate::reply::{Created, NoContent, Reply};
use crate::route::Route;
use crate::routes::{PageQuery, cursor, page_size};
use crate::wire::credential::{Claims, CredentialAnswer, IssuedAnswer, KeyBody, RotateBody, WorkerBody};
use crate::wire::problem::Problem;
use crate::wire::role::WhoAmIAnswer;
use crate::wire::{Page, millis, stamp};

/// Default lifetime of a token.
const GOOD_FOR: Duration = Duration::from_secs(90 * 86_400);
/// Default time for which a rotated token stays valid.
const OVERLAP: Duration = Duration::from_secs(86_400);

const WORKER: CredentialClass = CredentialClass::Worker;
const KEY: CredentialClass = CredentialClass::Key;

pub(super) fn routes() -> Vec<Route> {
    let write = Action::TokensWrite;
    let rotate = || json!({ "overlap_ms": 3_600_000 });
    vec![
        Route::new(Method::GET, "/v1/whoami", Action::WhoAmI, "Get the caller's name, role, tenant and actions", whoami),
        Route::new(Method::POST, "/v1/workers", write, "Create a worker token; it is not shown again", make_worker).example(json!({
            "name": "encoder", "capabilities": { "queues": ["media-*"], "kinds": ["video.*"] }, "expires_in_ms": 86_400_000,
        })),
        Route::new(Method::GET, "/v1/workers", write, "List worker tokens, without their secrets", list_workers).pages(),
        Route::new(Method::GET, "/v1/workers/{id}", write, "Get a worker token, without its secret", show_worker),
        Route::new(Method::POST, "/v1/workers/{id}/rotate", write, "Rotate a worker token; the old one stays valid for the overlap", rotate_worker)
            .example(rotate()),
        Route::new(Method::DELETE, "/v1/workers/{id}", write, "Revoke a worker token immediately", revoke_worker),
        Route::new(Method::POST, "/v1/keys", write, "Create an API key; it is not shown again", make_key)
            .example(json!({ "name": "shop", "role": "user" })),
        Route::new(Method::GET, "/v1/keys", write, "List API keys, without their secrets; operators also see operator tokens", list_keys).pages(),
        Route::new(Method::GET, "/v1/keys/{id}", write, "Get an API key, without its secret", show_key),
        Route::new(Method::POST, "/v1/keys/{id}/rotate", write, "Rotate an API key; the old one stays valid for the overlap", rotate_key)
            .example(rotate()),
        Route::new(Method::DELETE, "/v1/keys/{id}", write, "Revoke an API key immediately", revoke_key),
    ]
}

async fn whoami(input: Input) -> Result<Reply<WhoAmIAnswer>, Problem> {
    let principal = &input.call.principal;
    let role = principal.role.ok_or_else(unauthorized)?;
    let may = |action: &&Action| authorize(principal, **action).is_ok();
    let actions = Action::ALL.iter().filter(may).map(|action| action.name().to_owned()).collect();
    let (name, tenant) = (principal.name.clone(), input.call.context.tenant.clone());
    Ok(Reply::new(WhoAmIAnswer { name, role, tenant, actions }))
}

async fn make_worker(input: Input<(), NoFields, WorkerBody>) -> Result<Created<IssuedAnswer>, Problem> {
    let WorkerBody { name, capabilities, expires_in_ms } = input.body;
    // The name is also the worker name in leases, which has stricter rules.
    WorkerName::new(&name)?;
    capabilities.check()?;
    check_mutations(&capabilities.mutations)?;
    issue(&input.call, WORKER, Claims { name, role: None, capabilities, first: None }, expires_in_ms).await
}

async fn make_key(input: Input<(), NoFields, KeyBody>) -> Result<Created<IssuedAnswer>, Problem> {
    let KeyBody { name, role, expires_in_ms } = input.body;
    if !role.is_of_keys() {
        return Err(Problem::invalid("role".into(), format!("role must be one of {}", Role::names_of_keys())));
    }
    may_mint(&input.call, KEY, Some(role))?;
    let claims = Claims { name, role: Some(role), capabilities: bursar::Capabilities::default(), first: None };
    issue(&input.call, KEY, claims, expires_in_ms).await
}

/// Fails if the caller may not create, rotate or revoke tokens of a role. Operator and monitor tokens reach beyond one tenant, so
/// only operators may.
fn may_mint(call: &Call, class: CredentialClass, role: Option<Role>) -> Result<(), Problem> {
    let reserved = class == CredentialClass::Operator || role == Some(Role::Monitor);
    match reserved && !call.principal.is_operator() {
        true => Err(forbidden("only an operator may create, rotate or revoke operator and monitor keys")),
        false => Ok(()),
    }
}

/// Refuses mutations that match no action which a worker can be granted.
fn check_mutations(mutations: &[bursar::Pattern]) -> Result<(), Problem> {
    let grantable = || Action::ALL.iter().filter(|action| action.allows(Role::Worker) == Allowed::Granted);
    let useless = mutations.iter().find(|pattern| !grantable().any(|action| pattern.admits(action.name())));
    useless.map_or(Ok(()), |pattern| {
        let names: Vec<&str> = grantable().map(|action| action.name()).collect();
        let detail = format!("{pattern} is no action that a worker can be granted; these are: {}", names.join(", "));
        Err(Problem::invalid("capabilities.mutations".into(), detail))
    })
}

async fn issue(
    call: &Call,
    class: CredentialClass,
    claims: Claims,
    expires_in_ms: Option<i64>,
) -> Result<Created<IssuedAnswer>, Problem> {
    let subject = Subject::new(&claims.name).map_err(|invalid| Problem::invalid("name".into(), invalid.to_string()))?;
    let ttl = good_for(expires_in_ms)?;
    let claims = Payload::of(&claims)?;
    let issued = call.bursar().credentials().issue(class, subject, claims, Some(ttl), call.key.clone()).await?;
    Ok(created(class, issued))
}

fn created(class: CredentialClass, issued: bursar::Issued) -> Created<IssuedAnswer> {
    let replayed = issued.token.is_none();
    let answer = convert::issued_answer(class, issued);
    let folder = if class == WORKER { "workers" } else { "keys" };
    Created { location: Some(format!("/v1/{folder}/{}", answer.id)), answer, replayed }
}

fn good_for(expires_in_ms: Option<i64>) -> Result<Duration, Problem> {
    let Some(given) = expires_in_ms else { return Ok(GOOD_FOR) };
    match millis("expires_in_ms", given)? {
        span if span == Span::ZERO || span > GRANT_TTL_MAX => {
            let detail = format!("expires_in_ms must be from 1 to {}", GRANT_TTL_MAX.millis());
            Err(Problem::invalid("expires_in_ms".into(), detail))
        }
        span => Ok(span.into()),
    }
}

/// Returns a token of one of these classes, with its class; 404 if there is none.
async fn find(
    call: &Call,
    classes: &[CredentialClass],
    id: GrantId,
    shown: impl std::fmt::Display,
) -> Result<(CredentialClass, Grant), Problem> {
    let bursar = call.bursar();
    for class in classes {
        if let Some(grant) = bursar.credentials().find(*class, id).await? {
            return Ok((*class, grant));
        }
    }
    Err(Problem::not_found(format_args!("token {shown}")))
}

/// Returns the classes of tokens that `/v1/keys` shows to a caller.
fn keys_for(call: &Call) -> &'static [CredentialClass] {
    if call.principal.is_operator() { &[KEY, CredentialClass::Operator] } else { &[KEY] }
}

async fn rotate(
    call: &Call,
    (class, old): (CredentialClass, Grant),
    body: RotateBody,
) -> Result<Created<IssuedAnswer>, Problem> {
    let claims = Claims::of(&old);
    may_mint(call, class, claims.as_ref().and_then(|claims| claims.role))?;
    let overlap = body.overlap_ms.map(|overlap| millis("overlap_ms", overlap)).transpose()?;
    let overlap = overlap.map_or(OVERLAP, Duration::from);
    // Operator tokens do not expire by default, so that an operator is not locked out.
    let for_ever = class == CredentialClass::Operator && body.expires_in_ms.is_none();
    let ttl = if for_ever { None } else { Some(good_for(body.expires_in_ms)?) };
    // The id of the first token is the lease owner, so the new token keeps the leases of the old one.
    let claims = match claims {
        Some(claims) => Payload::of(&Claims { first: claims.first.or(Some(old.id)), ..claims })?,
        None => old.payload.clone(),
    };
    let issued = call.bursar().credentials().rotate(&old, class, claims, ttl, overlap, call.key.clone()).await?;
    call.app.revocations.note();
    Ok(created(class, issued))
}

async fn list(
    call: &Call,
    classes: &[CredentialClass],
    after: Option<GrantId>,
    limit: Option<usize>,
) -> Result<Reply<Page<CredentialAnswer>>, Problem> {
    let limit = page_size(limit)?;
    let bursar = call.bursar();
    let found = bursar.credentials().list_of(classes, after, limit).await?;
    let now = bursar.now().await?;
    let items = found.iter().map(|grant| {
        let class = CredentialClass::of(&grant.purpose).unwrap_or(KEY);
        CredentialAnswer::at(class, grant, now)
    });
    let full = page::is_full(&found, limit);
    Ok(Reply::new(Page::of(items.collect(), full, |item| item.id.clone())))
}

async fn show(call: &Call, (class, grant): (CredentialClass, Grant)) -> Result<Reply<CredentialAnswer>, Problem> {
    let bursar = call.bursar();
    let last_used_at = bursar.credentials().last_used(grant.id).await?.and_then(stamp);
    let answer = CredentialAnswer::at(class, &grant, bursar.now().await?);
    Ok(Reply::new(CredentialAnswer { last_used_at, ..answer }))
}

async fn revoke(call: &Call, (class, grant): (CredentialClass, Grant)) -> Result<NoContent, Problem> {
    may_mint(call, class, Claims::of(&grant).and_then(|claims| claims.role))?;
    let outcome = call.run(Op::Revoke { grant: grant.id }).await?;
    call.app.revocations.note();
    Ok(NoContent { replayed: outcome.replayed })
}

async fn list_workers(input: Input<(), PageQuery>) -> Result<Reply<Page<CredentialAnswer>>, Problem> {
    let after: Option<WorkerId> = cursor(input.query.cursor.as_deref())?;
    list(&input.call, &[WORKER], after.map(|id| GrantId(id.0)), input.query.limit).await
}

async fn show_worker(input: Input<WorkerId>) -> Result<Reply<CredentialAnswer>, Problem> {
    show(&input.call, find(&input.call, &[WORKER], GrantId(input.parameter.0), input.parameter).await?).await
}

async fn rotate_worker(input: Input<WorkerId, NoFields, RotateBody>) -> Result<Created<IssuedAnswer>, Problem> {
    let old = find(&input.call, &[WORKER], GrantId(input.parameter.0), input.parameter).await?;
    rotate(&input.call, old, input.body).await
}

async fn revoke_worker(input: Input<WorkerId>) -> Result<NoContent, Problem> {
    revoke(&input.call, find(&input.call, &[WORKER], GrantId(input.parameter.0), input.parameter).await?).await
}

async fn list_keys(input: Input<(), PageQuery>) -> Result<Reply<Page<CredentialAnswer>>, Problem> {
    let after: Option<KeyId> = cursor(input.query.cursor.as_deref())?;
    list(&input.call, keys_for(&input.call), after.map(|id| GrantId(id.0)), input.query.limit).await
}

async fn show_key(input: Input<KeyId>) -> Result<Reply<CredentialAnswer>, Problem> {
    show(&input.call, find(&input.call, keys_for(&input.call), GrantId(input.parameter.0), input.parameter).await?)
        .await
}

async fn rotate_key(input: Input<KeyId, NoFields, RotateBody>) -> Result<Created<IssuedAnswer>, Problem> {
    let old = find(&input.call, keys_for(&input.call), GrantId(input.parameter.0), input.parameter).await?;
    rotate(&input.call, old, input.body).await
}

async fn revoke_key(input: Input<KeyId>) -> Result<NoContent, Problem> {
    revoke(&input.call, find(&input.call, keys_for(&input.call), GrantId(input.parameter.0), input.parameter).await?)
        .await
}
