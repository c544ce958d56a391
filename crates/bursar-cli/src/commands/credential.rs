//! `bursar worker` and `bursar token`: tokens of workers, and API keys.

use bursar::{BlobCapabilities, Capabilities, IdempotencyKey, KeyId, Pattern, WorkerId};
use bursar_client::Credentials;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::json;
use std::fmt::Display;

use crate::args::Most;
use crate::output::{cell, table};
use crate::session::Session;
use bursar_server::wire::credential::{CredentialAnswer, IssuedAnswer, KeyBody, RotateBody, WorkerBody};
use bursar_server::wire::problem::Problem;
use bursar_server::wire::role::Role;

/// What can be done with workers.
#[derive(Subcommand)]
pub(crate) enum Workers {
    /// Make a worker's token; it is shown this once
    Create(CreateWorker),
    /// Tokens of workers, without their secrets
    List(Page),
    /// A worker's token, without its secret
    Show {
        /// Which one
        id: WorkerId,
    },
    /// Replace a worker's token; the old one is good for a while
    Rotate {
        /// Which one
        id: WorkerId,
        #[command(flatten)]
        how: Rotation,
    },
    /// Revoke a worker's token, at once
    Revoke {
        /// Which one
        id: WorkerId,
    },
}

/// What can be done with API keys.
#[derive(Subcommand)]
pub(crate) enum Tokens {
    /// Make an API key; it is shown this once
    Create(CreateToken),
    /// API keys, without their secrets
    List(Page),
    /// An API key, without its secret
    Show {
        /// Which one
        id: KeyId,
    },
    /// Replace an API key; the old one is good for a while
    Rotate {
        /// Which one
        id: KeyId,
        #[command(flatten)]
        how: Rotation,
    },
    /// Revoke an API key, at once
    Revoke {
        /// Which one
        id: KeyId,
    },
}

/// A worker to be known. What is not allowed by a pattern is forbidden; `media-*` is all that begins so.
#[derive(Args)]
pub(crate) struct CreateWorker {
    /// What its leases go by
    name: String,
    /// Queues it may lease from
    #[arg(long = "queue", value_name = "PATTERN", value_parser = pattern)]
    queues: Vec<Pattern>,
    /// Kinds of jobs it may work on
    #[arg(long = "kind", value_name = "PATTERN", value_parser = pattern)]
    kinds: Vec<Pattern>,
    /// What else it may do, such as jobs.enqueue; docs/server.md lists them
    #[arg(long = "mutation", value_name = "PATTERN", value_parser = pattern)]
    mutations: Vec<Pattern>,
    /// How long its token is good; 90 days unless said
    #[arg(long, value_name = "MS")]
    expires_in_ms: Option<i64>,
    /// Do it once, however often it is asked for under this key
    #[arg(long)]
    key: Option<IdempotencyKey>,
}

/// An API key to be made.
#[derive(Args)]
pub(crate) struct CreateToken {
    /// Whose it is
    name: String,
    /// What it may do
    #[arg(long, value_parser = role_of_key())]
    role: Role,
    /// How long it is good; 90 days unless said
    #[arg(long, value_name = "MS")]
    expires_in_ms: Option<i64>,
    /// Do it once, however often it is asked for under this key
    #[arg(long)]
    key: Option<IdempotencyKey>,
}

/// Reads a role that a key can have.
fn role_of_key() -> impl TypedValueParser<Value = Role> {
    let known = |name: String| Role::of_keys().find(|role| role.name() == name).ok_or("no role of a key");
    PossibleValuesParser::new(Role::of_keys().map(Role::name)).try_map(known)
}

/// How to replace a token.
#[derive(Args)]
pub(crate) struct Rotation {
    /// How long the old one is good yet; a day unless said
    #[arg(long, value_name = "MS")]
    overlap_ms: Option<i64>,
    /// How long the new one is good; 90 days unless said
    #[arg(long, value_name = "MS")]
    expires_in_ms: Option<i64>,
    /// Do it once, however often it is asked for under this key
    #[arg(long)]
    key: Option<IdempotencyKey>,
}

/// A part of a list.
#[derive(Args)]
pub(crate) struct Page {
    /// Only those after this one
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    #[command(flatten)]
    most: Most,
}

fn pattern(text: &str) -> Result<Pattern, bursar::Invalid> {
    Pattern::new(text)
}

/// Does what was asked for.
pub(crate) async fn workers(args: Workers, session: &Session) -> Result<(), Problem> {
    let known = session.client.workers();
    match args {
        Workers::Create(CreateWorker { name, queues, kinds, mutations, expires_in_ms, key }) => {
            let blobs = BlobCapabilities::default();
            let capabilities = Capabilities { queues, kinds, mutations, blobs, ..Capabilities::default() };
            let body = WorkerBody { name, capabilities, expires_in_ms };
            issued(&*session.keyed(key).make_worker(&body).await?, session)
        }
        Workers::List(page) => list(known, page, session).await,
        Workers::Show { id } => show(&*known.show(id).await?, session),
        Workers::Rotate { id, how } => {
            let client = session.keyed(how.key.clone());
            issued(&*client.workers().rotate(id, &how.body()).await?, session)
        }
        Workers::Revoke { id } => revoke(known, id, session).await,
    }
}

/// Does what was asked for.
pub(crate) async fn tokens(args: Tokens, session: &Session) -> Result<(), Problem> {
    let known = session.client.keys();
    match args {
        Tokens::Create(CreateToken { name, role, expires_in_ms, key }) => {
            let body = KeyBody { name, role, expires_in_ms };
            issued(&*session.keyed(key).make_key(&body).await?, session)
        }
        Tokens::List(page) => list(known, page, session).await,
        Tokens::Show { id } => show(&*known.show(id).await?, session),
        Tokens::Rotate { id, how } => {
            let client = session.keyed(how.key.clone());
            issued(&*client.keys().rotate(id, &how.body()).await?, session)
        }
        Tokens::Revoke { id } => revoke(known, id, session).await,
    }
}

impl Rotation {
    fn body(&self) -> RotateBody {
        RotateBody { overlap_ms: self.overlap_ms, expires_in_ms: self.expires_in_ms }
    }
}

fn issued(issued: &IssuedAnswer, session: &Session) -> Result<(), Problem> {
    session.out.data(issued, || {
        let (token, expires) = (cell(issued.token.as_ref()), cell(issued.expires_at.as_ref()));
        format!("id       {}\ntoken    {token}\nexpires  {expires}", issued.id)
    })?;
    session.out.note(match issued.token {
        Some(_) => "the token is shown this once: only its digest is stored",
        None => "this key was used before: the token was shown then",
    });
    Ok(())
}

async fn list(known: Credentials<'_>, page: Page, session: &Session) -> Result<(), Problem> {
    let page = known.list(page.after.as_deref(), usize::from(page.most)).await?;
    session.out.data(&*page, || listed(&page.items))?;
    session.out.more(page.next.as_deref());
    Ok(())
}

fn show(token: &CredentialAnswer, session: &Session) -> Result<(), Problem> {
    session.out.data(token, || {
        let mut text = listed(std::slice::from_ref(token));
        if let Some(capabilities) = &token.capabilities {
            let lists = [
                ("queues", &capabilities.queues),
                ("kinds", &capabilities.kinds),
                ("mutations", &capabilities.mutations),
            ];
            for (what, patterns) in lists {
                let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
                text.push_str(&format!(
                    "\n{what:<9}  {}",
                    cell(Some(patterns.join(", ")).filter(|list| !list.is_empty()))
                ));
            }
        }
        if let Some(used) = &token.last_used_at {
            text.push_str(&format!("\nlast used  {used}"));
        }
        text
    })
}

async fn revoke(known: Credentials<'_>, id: impl Display + Clone, session: &Session) -> Result<(), Problem> {
    known.revoke(id.clone()).await?;
    session.out.data(&json!({ "id": id.to_string(), "state": "revoked" }), || format!("{id} is revoked"))
}

fn listed(tokens: &[CredentialAnswer]) -> String {
    let rows = tokens.iter().map(|token| {
        let role = token.role.map(Role::name);
        vec![token.id.clone(), token.name.clone(), cell(role), token.state.to_string(), cell(token.expires_at.as_ref())]
    });
    table(&["ID", "NAME", "ROLE", "STATE", "EXPIRES"], &rows.collect::<Vec<_>>())
}
