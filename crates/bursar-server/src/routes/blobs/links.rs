//! Links: addresses that let people without a token read one blob, or upload its bytes. A link is a credential, so it expires, can be
//! revoked, and is stored as a digest only.

use std::time::Duration;

use axum::http::{Method, header};
use bursar::{
    BlobId, BlobState, Context, CredentialClass, CredentialToken, Grant, GrantState, KeyId, Op, Payload, Subject, Time,
    page,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{bytes, reach, storage};
use crate::call::{Call, Input, NoFields, Streamed};
use crate::convert::blob_problem;
use crate::limits::PAGE_MAX;
use crate::principal::permissions::Action;
use crate::reply::{BlobBytes, Created, NoContent, Reply};
use crate::route::{RetrySafety, Route};
use crate::routes::{cursor, page_size};
use crate::wire::problem::Problem;
use crate::wire::upload::{LINK_MS_MAX, LinkAct, LinkAnswer, LinkBody, LinkInfo};
use crate::wire::{Page, stamp};
use schemars::JsonSchema;

/// How long a link is valid, unless its creator says otherwise.
const TTL: Duration = Duration::from_secs(3_600);

pub(super) fn routes() -> Vec<Route> {
    let any = "application/octet-stream";
    vec![
        Route::new(Method::POST, "/v1/blobs/{id}/link", Action::BlobsWrite, "Create a link to read a blob", link)
            .example(json!({ "expires_in_ms": 3_600_000 })),
        Route::new(Method::GET, "/v1/links", Action::BlobsWrite, "List links, without their addresses", list).pages(),
        Route::new(Method::DELETE, "/v1/links/{id}", Action::BlobsWrite, "Revoke a link", revoke),
        Route::streaming(Method::GET, "/l/{token}", Action::Public, "Download a blob by a link", any, open)
            .problems(&[412, 416]),
        Route::streaming(
            Method::PUT,
            "/l/{token}",
            Action::Public,
            "Upload the bytes of a blob by a link",
            any,
            receive,
        )
        .retry_safety(RetrySafety::Bytes),
    ]
}

/// What a link allows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Claims {
    pub(super) blob: BlobId,
    pub(super) act: LinkAct,
}

/// Returns the validity of a link.
pub(super) fn ttl(millis: Option<u64>) -> Result<Duration, Problem> {
    match millis {
        None => Ok(TTL),
        Some(millis) if (1_000..=LINK_MS_MAX).contains(&millis) => Ok(Duration::from_millis(millis)),
        Some(_) => {
            Err(Problem::invalid("expires_in_ms".into(), format!("expires_in_ms must be from 1000 to {LINK_MS_MAX}")))
        }
    }
}

/// Creates a link.
pub(super) async fn issue(call: &Call, claims: Claims, ttl: Duration) -> Result<LinkAnswer, Problem> {
    let subject = Subject::new(claims.blob.to_string())?;
    let payload = Payload::of(&claims)?;
    let bursar = call.bursar();
    let issued =
        bursar.credentials().issue(CredentialClass::Link, subject, payload, Some(ttl), call.key.clone()).await?;
    let url = issued.token.map(|token| format!("{}/l/{token}", call.origin.as_deref().unwrap_or_default()));
    Ok(LinkAnswer { id: KeyId(issued.id.0).to_string(), url, expires_at: stamp(issued.expires_at) })
}

async fn link(input: Input<BlobId, NoFields, LinkBody>) -> Result<Created<LinkAnswer>, Problem> {
    let ttl = ttl(input.body.expires_in_ms)?;
    storage(&input.call)?;
    let blob = reach::readable(&input.call, input.parameter).await?;
    if !blob.is_available() {
        return Err(Problem::unknown_blob(blob.id));
    }
    let answer = issue(&input.call, Claims { blob: blob.id, act: LinkAct::Read }, ttl).await?;
    let (replayed, location) = (answer.url.is_none(), Some(format!("/v1/links/{}", answer.id)));
    Ok(Created { answer, location, replayed })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Where the page begins: `next` of the previous page.
    #[serde(default)]
    cursor: Option<String>,
    /// Maximum number of items, from 1 to 1000. Default: 100.
    #[serde(default)]
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<usize>,
}

async fn list(input: Input<(), ListQuery>) -> Result<Reply<Page<LinkInfo>>, Problem> {
    let limit = page_size(input.query.limit)?;
    let after: Option<KeyId> = cursor(input.query.cursor.as_deref())?;
    // A link tells the id of its blob, so a worker must reach them all.
    reach::check_listed(&input.call, None)?;
    let bursar = input.call.bursar();
    let after = after.map(|id| bursar::GrantId(id.0));
    let found = bursar.credentials().list(CredentialClass::Link, after, limit).await?;
    let (full, now) = (page::is_full(&found, limit), bursar.now().await?);
    let items: Vec<LinkInfo> = found.iter().filter_map(|grant| info(grant, now)).collect();
    Ok(Reply::new(Page::of(items, full, |link| link.id.clone())))
}

fn info(grant: &Grant, now: Time) -> Option<LinkInfo> {
    let Claims { blob, act } = claims(grant)?;
    let state = match grant.state {
        GrantState::Open if grant.expires_at > now => "good",
        GrantState::Open => "expired",
        GrantState::Revoked | GrantState::Redeemed => "revoked",
    };
    let id = KeyId(grant.id.0).to_string();
    Some(LinkInfo { id, blob, act, state: state.into(), expires_at: stamp(grant.expires_at) })
}

fn claims(grant: &Grant) -> Option<Claims> {
    serde_json::from_str(grant.payload.as_str()).ok()
}

async fn revoke(input: Input<KeyId>) -> Result<NoContent, Problem> {
    let (id, bursar) = (bursar::GrantId(input.parameter.0), input.call.bursar());
    let unknown = || Problem::not_found(format_args!("link {}", input.parameter));
    let grant = bursar.credentials().find(CredentialClass::Link, id).await?.ok_or_else(unknown)?;
    let claims = claims(&grant).ok_or_else(unknown)?;
    reach::check_writable(&input.call, claims.blob).await.map_err(|_| unknown())?;
    let outcome = input.call.run(Op::Revoke { grant: id }).await?;
    Ok(NoContent { replayed: outcome.replayed })
}

/// Returns the call of a link's owner, and what the link allows. Every fault of a token gets the same answer.
async fn admit(call: &Call, text: &str, act: LinkAct) -> Result<(Call, Claims), Problem> {
    let unknown = || Problem::not_found("such link, or it has expired");
    let token = CredentialToken::parse(text).map_err(|_| unknown())?;
    if token.class() != CredentialClass::Link {
        return Err(unknown());
    }
    let grant = call.app.bursar.credentials().admit(&token).await?.map_err(|_| unknown())?;
    let claims = claims(&grant).filter(|claims| claims.act == act).ok_or_else(unknown)?;
    let context = Context { tenant: grant.tenant, ..call.context.clone() };
    Ok((Call { context, ..call.clone() }, claims))
}

async fn open(input: Streamed<String, NoFields>) -> Result<BlobBytes, Problem> {
    let (call, claims) = admit(&input.call, &input.parameter, LinkAct::Read).await?;
    let blob = call.bursar().blob_records().find(claims.blob).await?;
    let blob = blob.filter(|blob| blob.is_available());
    let blob = blob.ok_or_else(|| Problem::not_found("such link, or it has expired"))?;
    let mut answered = bytes::answer(&call, &input.method, &input.headers, blob).await?;
    // The address contains the secret, so pages that a blob opens must not learn it.
    answered.0.headers_mut().insert(header::REFERRER_POLICY, axum::http::HeaderValue::from_static("no-referrer"));
    Ok(answered)
}

async fn receive(input: Streamed<String, NoFields>) -> Result<NoContent, Problem> {
    let (call, claims) = admit(&input.call, &input.parameter, LinkAct::Upload).await?;
    let blob = call.bursar().blob_records().find(claims.blob).await?;
    let blob = blob.filter(|blob| blob.state == BlobState::Pending);
    let blob = blob.ok_or_else(|| Problem::not_found("such upload: it was committed, or its time is over"))?;
    let stream = Streamed::<()>::stream(input.body, &input.headers, &call);
    storage(&call)?.receive_staged(&blob, stream).await.map_err(blob_problem)?;
    Ok(NoContent { replayed: false })
}
