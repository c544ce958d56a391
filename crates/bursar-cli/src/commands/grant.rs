//! `bursar grant`.

use std::time::Duration;

use bursar::{Command, GrantId, IdempotencyKey, Op, Payload, Purpose, Receipt, Redemption, Subject};
use clap::Subcommand;
use serde_json::json;

use crate::output::{cell, table};
use crate::session::Session;
use bursar_server::wire::Page;
use bursar_server::wire::grant::{GrantAnswer, MintedAnswer, RedeemedAnswer};
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
    /// Grants, without their secrets
    List {
        /// Only those after this one
        #[arg(long, value_name = "ID")]
        after: Option<GrantId>,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
        most: u16,
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
            let (payload, ttl) = (payload.unwrap_or_default(), Duration::from_millis(ttl_ms));
            let minted = session.bursar.grants().mint_with(purpose, subject, payload, ttl, key).await?;
            session.out.data(&MintedAnswer::from(&minted), || {
                let token = cell(minted.token.as_ref());
                format!("grant    {}\ntoken    {token}\nexpires  {}", minted.id, minted.expires_at)
            })?;
            session.out.note(match minted.token {
                Some(_) => "the token is shown this once: only its digest is stored",
                None => "this key was used before: the token was shown then",
            });
            Ok(())
        }
        Grants::Redeem { purpose, subject, token } => redeem(purpose, subject, token, session).await,
        Grants::Revoke { id, reason } => {
            session.because(reason.as_deref()).ask(Op::Revoke { grant: id }, None).await?;
            session.out.data(&json!({ "id": id, "state": "revoked" }), || format!("{id} is revoked"))
        }
        Grants::List { after, most } => list(after, usize::from(most), session).await,
        Grants::Purge => {
            let purged = session.bursar.grants().purge_expired().await?;
            session.out.data(&json!({ "purged_count": purged }), || format!("{purged} expired grants removed"))
        }
    }
}

async fn redeem(purpose: Purpose, subject: Subject, token: String, session: &Session) -> Result<(), Problem> {
    let token = if token == "-" { super::input("-")? } else { token };
    let redemption = Redemption::new(purpose.clone(), subject.clone(), token.trim()).map_err(bursar::Error::from)?;
    let command = Command { redeem: vec![redemption], ..Command::default() };
    let receipt = Receipt::from(session.ask(Op::Submit(command), None).await?);
    let payload = receipt.done.grants.into_iter().next().and_then(|grant| grant.payload).unwrap_or_default();
    let answer = RedeemedAnswer { purpose, subject, payload };
    session.out.data(&answer, || answer.payload.as_str().to_owned())
}

async fn list(after: Option<GrantId>, most: usize, session: &Session) -> Result<(), Problem> {
    let now = session.bursar.now().await?;
    let found = session.bursar.grants().list(after, most).await?;
    let answers = found.iter().map(|grant| GrantAnswer::at(grant, now)).collect();
    let page = Page::of(answers, most, |last: &GrantAnswer| last.id.to_string());
    session.out.data(&page, || {
        let rows = page.items.iter().map(|grant| {
            vec![
                grant.id.to_string(),
                grant.state.to_string(),
                grant.purpose.to_string(),
                grant.subject.to_string(),
                cell(grant.expires_at.as_ref()),
            ]
        });
        table(&["GRANT", "STATE", "PURPOSE", "SUBJECT", "EXPIRES"], &rows.collect::<Vec<_>>())
    })?;
    if let Some(next) = &page.next {
        session.out.note(&format!("there may be more: --after {next}"));
    }
    Ok(())
}
