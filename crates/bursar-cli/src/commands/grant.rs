//! `bursar grant`.

use bursar::{GrantId, IdempotencyKey, Payload, Purpose, Subject};
use clap::Subcommand;
use serde_json::json;

use crate::args::Most;
use crate::output::{cell, table};
use crate::session::Session;
use bursar_server::wire::command::{CommandBody, RedeemBody};
use bursar_server::wire::grant::{GrantAnswer, MintBody, RedeemedAnswer};
use bursar_server::wire::problem::Problem;

/// What can be done with grants.
#[derive(Subcommand)]
pub(crate) enum Grants {
    /// Make a grant; its token is shown this once
    Mint {
        /// What it permits
        purpose: Purpose,
        /// Whom
        subject: Subject,
        /// What its redeemer is told
        #[arg(long, value_name = "JSON", value_parser = payload)]
        payload: Option<Payload>,
        /// For how long
        #[arg(long, value_name = "MS")]
        ttl_ms: u64,
        /// Do it once, however often it is asked for under this key
        #[arg(long)]
        key: Option<IdempotencyKey>,
    },
    /// Use a grant up
    Redeem {
        /// What it must permit
        purpose: Purpose,
        /// Whom
        subject: Subject,
        /// The token; - reads it from standard input, where no list of processes shows it
        token: String,
    },
    /// Take a grant back
    Revoke {
        /// Which one
        id: GrantId,
        /// Why, for the journal
        #[arg(long)]
        reason: Option<String>,
    },
    /// A grant, without its secret
    Show {
        /// Which one
        id: GrantId,
    },
    /// Grants, without their secrets
    List {
        /// Only those after this one
        #[arg(long, value_name = "ID")]
        after: Option<GrantId>,
        #[command(flatten)]
        most: Most,
    },
    /// Remove the grants that have expired
    Purge,
}

fn payload(text: &str) -> Result<Payload, bursar::Invalid> {
    Payload::new(text)
}

/// Does what was asked for.
pub(crate) async fn run(args: Grants, session: &Session) -> Result<(), Problem> {
    match args {
        Grants::Mint { purpose, subject, payload, ttl_ms, key } => {
            let ttl_ms = i64::try_from(ttl_ms).unwrap_or(i64::MAX);
            let body = MintBody { purpose, subject, payload: payload.unwrap_or_default(), ttl_ms };
            let minted = session.keyed(key).grants().mint(&body).await?;
            session.out.data(&*minted, || {
                let (token, expires) = (cell(minted.token.as_ref()), cell(minted.expires_at.as_ref()));
                format!("grant    {}\ntoken    {token}\nexpires  {expires}", minted.id)
            })?;
            session.out.note(match minted.token {
                Some(_) => "the token is shown this once: only its digest is stored",
                None => "this key was used before: the token was shown then",
            });
            Ok(())
        }
        Grants::Redeem { purpose, subject, token } => redeem(purpose, subject, token, session).await,
        Grants::Revoke { id, reason } => {
            session.client.grants().revoke(id, reason.as_deref()).await?;
            session.out.data(&json!({ "id": id, "state": "revoked" }), || format!("{id} is revoked"))
        }
        Grants::Show { id } => {
            let grant = session.client.grants().show(id).await?;
            session.out.data(&*grant, || listed(std::slice::from_ref(&*grant)))
        }
        Grants::List { after, most } => list(after, usize::from(most), session).await,
        Grants::Purge => {
            let purged = session.bursar()?.grants().purge_expired().await?;
            session.out.data(&json!({ "purged_count": purged }), || format!("{purged} expired grants removed"))
        }
    }
}

async fn redeem(purpose: Purpose, subject: Subject, token: String, session: &Session) -> Result<(), Problem> {
    let token = if token == "-" { super::input("-")? } else { token };
    let redeem = RedeemBody { purpose: purpose.clone(), subject: subject.clone(), token: token.trim().to_owned() };
    let command = CommandBody { redeem: vec![redeem], ..CommandBody::default() };
    let done = session.client.commands().submit(&command).await?.into_inner();
    let payload = done.grants.into_iter().next().and_then(|grant| grant.payload).unwrap_or_default();
    let answer = RedeemedAnswer { purpose, subject, payload };
    session.out.data(&answer, || answer.payload.as_str().to_owned())
}

async fn list(after: Option<GrantId>, most: usize, session: &Session) -> Result<(), Problem> {
    let after = after.map(|id| id.to_string());
    let page = session.client.grants().list(after.as_deref(), most).await?;
    session.out.data(&*page, || listed(&page.items))?;
    session.out.more(page.next.as_deref());
    Ok(())
}

fn listed(grants: &[GrantAnswer]) -> String {
    let rows = grants.iter().map(|grant| {
        vec![
            grant.id.to_string(),
            grant.state.to_string(),
            grant.purpose.to_string(),
            grant.subject.to_string(),
            cell(grant.expires_at.as_ref()),
        ]
    });
    table(&["GRANT", "STATE", "PURPOSE", "SUBJECT", "EXPIRES"], &rows.collect::<Vec<_>>())
}
