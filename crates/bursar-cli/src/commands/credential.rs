//! `bursar worker` and `bursar token`.

use bursar::{BlobCapabilities, Capabilities, IdempotencyKey, KeyId, Pattern, WorkerId};
use bursar_client::Credentials;
use bursar_wire::credential::{CredentialAnswer, IssuedAnswer, KeyBody, RotateBody, WorkerBody};
use bursar_wire::problem::Problem;
use bursar_wire::role::Role;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::json;
use std::fmt::Display;

use crate::args::PageSize;
use crate::context::Context;
use crate::output::{cell, table};

/// The subcommands of `bursar worker`.
#[derive(Subcommand)]
pub(crate) enum Workers {
    /// Create a worker and print its token, which is shown only once
    Create(CreateWorker),
    /// List workers, without their tokens
    List(ListArgs),
    /// Show a worker, without its token
    Show {
        /// Worker id
        id: WorkerId,
    },
    /// Replace a worker's token; the old one stays valid for the overlap
    Rotate {
        /// Worker id
        id: WorkerId,
        #[command(flatten)]
        how: Rotation,
    },
    /// Revoke a worker's token immediately
    Revoke {
        /// Worker id
        id: WorkerId,
    },
}

/// The subcommands of `bursar token`.
#[derive(Subcommand)]
pub(crate) enum Tokens {
    /// Create an API key and print it; it is shown only once
    Create(CreateToken),
    /// List API keys and operator tokens, without their secrets
    List(ListArgs),
    /// Show an API key or operator token, without its secret
    Show {
        /// Key id
        id: KeyId,
    },
    /// Replace an API key or operator token; the old one stays valid for the overlap
    Rotate {
        /// Key id
        id: KeyId,
        #[command(flatten)]
        how: Rotation,
    },
    /// Revoke an API key or operator token immediately
    Revoke {
        /// Key id
        id: KeyId,
    },
}

/// The worker to create. Everything that no pattern allows is forbidden.
#[derive(Args)]
pub(crate) struct CreateWorker {
    /// Worker name, recorded with its leases
    name: String,
    /// Queues the worker may lease from, such as media-*; repeatable
    #[arg(long = "queue", value_name = "PATTERN", value_parser = pattern)]
    queues: Vec<Pattern>,
    /// Kinds of jobs the worker may run, such as video.*; repeatable
    #[arg(long = "kind", value_name = "PATTERN", value_parser = pattern)]
    kinds: Vec<Pattern>,
    /// Further operations the worker may call, such as jobs.enqueue (docs/server.md lists them); repeatable
    #[arg(long = "mutation", value_name = "PATTERN", value_parser = pattern)]
    mutations: Vec<Pattern>,
    /// Time until the token expires [default: 90 days]
    #[arg(long, value_name = "MS")]
    expires_in_ms: Option<i64>,
    /// Idempotency key: repeating the request with it returns the first answer
    #[arg(long)]
    key: Option<IdempotencyKey>,
}

/// The API key to create.
#[derive(Args)]
pub(crate) struct CreateToken {
    /// Name of the program or person that uses the key
    name: String,
    /// Role: what the key permits
    #[arg(long, value_parser = key_role())]
    role: Role,
    /// Time until the key expires [default: 90 days]
    #[arg(long, value_name = "MS")]
    expires_in_ms: Option<i64>,
    /// Idempotency key: repeating the request with it returns the first answer
    #[arg(long)]
    key: Option<IdempotencyKey>,
}

/// Parses a role that an API key can have.
fn key_role() -> impl TypedValueParser<Value = Role> {
    let by_name = |name: String| Role::of_keys().find(|role| role.name() == name).ok_or("not a role of an API key");
    PossibleValuesParser::new(Role::of_keys().map(Role::name)).try_map(by_name)
}

/// The options of a rotation.
#[derive(Args)]
pub(crate) struct Rotation {
    /// Time that the old token stays valid [default: 1 day]
    #[arg(long, value_name = "MS")]
    overlap_ms: Option<i64>,
    /// Time until the new token expires [default: 90 days]
    #[arg(long, value_name = "MS")]
    expires_in_ms: Option<i64>,
    /// Idempotency key: repeating the request with it returns the first answer
    #[arg(long)]
    key: Option<IdempotencyKey>,
}

/// A page of a list.
#[derive(Args)]
pub(crate) struct ListArgs {
    /// Start after this id
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    #[command(flatten)]
    most: PageSize,
}

fn pattern(text: &str) -> Result<Pattern, bursar::Invalid> {
    Pattern::new(text)
}

/// Runs the command.
pub(crate) async fn workers(args: Workers, context: &Context) -> Result<(), Problem> {
    let workers = context.client.workers();
    match args {
        Workers::Create(CreateWorker { name, queues, kinds, mutations, expires_in_ms, key }) => {
            let blobs = BlobCapabilities::default();
            let capabilities = Capabilities { queues, kinds, mutations, blobs, ..Capabilities::default() };
            let body = WorkerBody { name, capabilities, expires_in_ms };
            issued(&*context.keyed(key).make_worker(&body).await?, context)
        }
        Workers::List(page) => list(workers, page, context).await,
        Workers::Show { id } => show(&*workers.show(id).await?, context),
        Workers::Rotate { id, how } => {
            let client = context.keyed(how.key.clone());
            issued(&*client.workers().rotate(id, &how.body()).await?, context)
        }
        Workers::Revoke { id } => revoke(workers, id, context).await,
    }
}

/// Runs the command.
pub(crate) async fn tokens(args: Tokens, context: &Context) -> Result<(), Problem> {
    let keys = context.client.keys();
    match args {
        Tokens::Create(CreateToken { name, role, expires_in_ms, key }) => {
            let body = KeyBody { name, role, expires_in_ms };
            issued(&*context.keyed(key).make_key(&body).await?, context)
        }
        Tokens::List(page) => list(keys, page, context).await,
        Tokens::Show { id } => show(&*keys.show(id).await?, context),
        Tokens::Rotate { id, how } => {
            let client = context.keyed(how.key.clone());
            issued(&*client.keys().rotate(id, &how.body()).await?, context)
        }
        Tokens::Revoke { id } => revoke(keys, id, context).await,
    }
}

impl Rotation {
    fn body(&self) -> RotateBody {
        RotateBody { overlap_ms: self.overlap_ms, expires_in_ms: self.expires_in_ms }
    }
}

fn issued(issued: &IssuedAnswer, context: &Context) -> Result<(), Problem> {
    context.out.data(issued, || {
        let (token, expires) = (cell(issued.token.as_ref()), cell(issued.expires_at.as_ref()));
        format!("id       {}\ntoken    {token}\nexpires  {expires}", issued.id)
    })?;
    context.out.note(match issued.token {
        Some(_) => "store the token now: it is not shown again, since only its digest is kept",
        None => "replay: the token was shown with the first answer to this key",
    });
    Ok(())
}

async fn list(credentials: Credentials<'_>, page: ListArgs, context: &Context) -> Result<(), Problem> {
    let page = credentials.list(page.after.as_deref(), usize::from(page.most)).await?;
    context.out.data(&*page, || listed(&page.items))?;
    context.out.next_page(page.next.as_deref());
    Ok(())
}

fn show(token: &CredentialAnswer, context: &Context) -> Result<(), Problem> {
    context.out.data(token, || {
        let mut text = listed(std::slice::from_ref(token));
        if let Some(capabilities) = &token.capabilities {
            let lists = [
                ("queues", &capabilities.queues),
                ("kinds", &capabilities.kinds),
                ("mutations", &capabilities.mutations),
            ];
            for (name, patterns) in lists {
                let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
                text.push_str(&format!(
                    "\n{name:<9}  {}",
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

async fn revoke(credentials: Credentials<'_>, id: impl Display + Clone, context: &Context) -> Result<(), Problem> {
    credentials.revoke(id.clone()).await?;
    context.out.data(&json!({ "id": id.to_string(), "state": "revoked" }), || format!("{id} is revoked"))
}

fn listed(tokens: &[CredentialAnswer]) -> String {
    let rows = tokens.iter().map(|token| {
        let role = token.role.map(Role::name);
        vec![token.id.clone(), token.name.clone(), cell(role), token.state.to_string(), cell(token.expires_at.as_ref())]
    });
    table(&["ID", "NAME", "ROLE", "STATE", "EXPIRES"], &rows.collect::<Vec<_>>())
}
