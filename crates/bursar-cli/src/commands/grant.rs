//! `bursar grant`.

use bursar::{GrantId, IdempotencyKey, Payload, Purpose, Span, Subject};
use bursar_wire::command::{CommandBody, RedeemBody};
use bursar_wire::grant::{GrantAnswer, MintBody, RedeemedGrant};
use bursar_wire::problem::Problem;
use clap::Subcommand;
use serde_json::json;

use crate::args::{PageSize, PastMoment, duration, payload};
use crate::context::Context;
use crate::input::read_input;
use crate::moment::moment;
use crate::output::{cell, counted, table};

/// The subcommands of `bursar grant`.
#[derive(Subcommand)]
pub(crate) enum Grants {
    /// Create a grant and print its token, which is shown only once
    Mint {
        /// Purpose of the grant: what it permits
        purpose: Purpose,
        /// Subject of the grant: whom it is for
        subject: Subject,
        /// Payload, returned to the redeemer
        #[arg(long, value_name = "JSON", value_parser = payload)]
        payload: Option<Payload>,
        /// Time until the grant expires
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        ttl: Span,
        /// Idempotency key: repeating the request with it returns the first answer
        #[arg(long)]
        key: Option<IdempotencyKey>,
    },
    /// Redeem a grant and print its payload; a grant can be redeemed once
    Redeem {
        /// Purpose that the grant must have
        purpose: Purpose,
        /// Subject that the grant must have
        subject: Subject,
        /// Token; - reads it from standard input, which keeps it out of the process list
        token: String,
    },
    /// Revoke a grant
    Revoke {
        /// Grant id
        id: GrantId,
        /// Reason, recorded in the journal
        #[arg(long)]
        reason: Option<String>,
    },
    /// Erase the payload of a grant that can no longer be redeemed, also in the journal
    Erase {
        /// Grant id
        id: GrantId,
        /// Reason, recorded in the journal
        #[arg(long)]
        reason: Option<String>,
    },
    /// Show a grant, without its token
    Show {
        /// Grant id
        id: GrantId,
        #[command(flatten)]
        moment: PastMoment,
    },
    /// List grants, without their tokens
    List {
        /// Start after this grant
        #[arg(long, value_name = "ID")]
        after: Option<GrantId>,
        #[command(flatten)]
        most: PageSize,
    },
    /// Delete expired grants
    Purge,
}

/// Runs the command.
pub(crate) async fn run(args: Grants, context: &Context) -> Result<(), Problem> {
    match args {
        Grants::Mint { purpose, subject, payload, ttl, key } => {
            let body = MintBody { purpose, subject, payload: payload.unwrap_or_default(), ttl_ms: ttl.millis() };
            let minted = context.keyed(key).grants().mint(&body).await?;
            context.out.data(&*minted, || {
                let (token, expires) = (cell(minted.token.as_ref()), moment(minted.expires_at.as_ref()));
                format!("grant    {}\ntoken    {token}\nexpires  {expires}", minted.id)
            })?;
            context.out.note(match minted.token {
                Some(_) => "store the token now: it is not shown again, since only its digest is kept",
                None => "replay: the token was shown with the first answer to this key",
            });
            Ok(())
        }
        Grants::Redeem { purpose, subject, token } => redeem(purpose, subject, token, context).await,
        Grants::Revoke { id, reason } => {
            context.client.grants().revoke(id, reason.as_deref()).await?;
            context.out.data(&json!({ "id": id, "state": "revoked" }), || format!("{id} is revoked"))
        }
        Grants::Erase { id, reason } => {
            context.client.grants().erase(id, reason.as_deref()).await?;
            context.out.data(&json!({ "id": id, "erased": true }), || format!("the payload of {id} is erased"))
        }
        Grants::Show { id, moment } => {
            let grant = context.client.grants().show_at(id, moment.get()).await?;
            context.out.data(&*grant, || listed(std::slice::from_ref(&*grant)))
        }
        Grants::List { after, most } => list(after, usize::from(most), context).await,
        Grants::Purge => {
            let purged = context.bursar()?.grants().purge_expired().await?;
            context
                .out
                .data(&json!({ "purged_count": purged }), || format!("deleted {}", counted(purged, "expired grant")))
        }
    }
}

async fn redeem(purpose: Purpose, subject: Subject, token: String, context: &Context) -> Result<(), Problem> {
    let token = if token == "-" { read_input("-")? } else { token };
    let redeem = RedeemBody { purpose: purpose.clone(), subject: subject.clone(), token: token.trim().to_owned() };
    let command = CommandBody { redeem: vec![redeem], ..CommandBody::default() };
    let done = context.client.commands().submit(&command).await?.into_inner();
    let payload = done.grants.into_iter().next().and_then(|grant| grant.payload).unwrap_or_default();
    let answer = RedeemedGrant { purpose, subject, payload };
    context.out.data(&answer, || answer.payload.as_str().to_owned())
}

async fn list(after: Option<GrantId>, most: usize, context: &Context) -> Result<(), Problem> {
    let after = after.map(|id| id.to_string());
    let page = context.client.grants().list(after.as_deref(), most).await?;
    context.out.data(&*page, || listed(&page.items))?;
    context.out.next_page(page.next.as_deref());
    Ok(())
}

fn listed(grants: &[GrantAnswer]) -> String {
    let rows = grants.iter().map(|grant| {
        vec![
            grant.id.to_string(),
            grant.state.to_string(),
            grant.purpose.to_string(),
            grant.subject.to_string(),
            moment(grant.expires_at.as_ref()),
        ]
    });
    table(&["GRANT", "STATE", "PURPOSE", "SUBJECT", "EXPIRES"], &rows.collect::<Vec<_>>())
}
