//! `bursar worker` and `bursar token`.

use bursar::{BlobCapabilities, Capabilities, IdempotencyKey, KeyId, Pattern, Span, WorkerId};
use bursar_client::Credentials;
use bursar_wire::credential::{CredentialAnswer, IssuedAnswer, KeyBody, RotateBody, WorkerBody};
use bursar_wire::problem::{Kind, Problem};
use bursar_wire::role::Role;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::json;
use std::fmt::Display;
use std::str::FromStr;

use crate::args::{PageSize, duration};
use crate::context::Context;
use crate::moment::{distance, moment};
use crate::output::{cell, table};
use bursar_wire::similar;

/// The subcommands of `bursar worker`.
#[derive(Subcommand)]
pub(crate) enum Workers {
    /// Create a worker and print its token, which is shown only once
    Create(CreateWorker),
    /// List workers, without their tokens
    List(ListArgs),
    /// Show a worker, without its token
    Show {
        /// Id or name of the worker
        #[arg(value_name = "WORKER")]
        named: String,
    },
    /// Replace a worker's token; the old one stays valid for the overlap
    Rotate {
        /// Id or name of the worker
        #[arg(value_name = "WORKER")]
        named: String,
        #[command(flatten)]
        how: Rotation,
    },
    /// Revoke a worker's token immediately
    Revoke {
        /// Id or name of the worker
        #[arg(value_name = "WORKER")]
        named: String,
    },
}

/// The subcommands of `bursar token`.
#[derive(Subcommand)]
pub(crate) enum Tokens {
    /// Create an API key for a program or a person and print it; it is shown only once
    #[command(after_help = "\
An operator's token is not created here: it is the setting operator_token of the server, or the one that `bursar serve` \
prints at its first start.")]
    Create(CreateToken),
    /// List API keys and operator tokens, without their secrets
    List(ListArgs),
    /// Show an API key or operator token, without its secret
    Show {
        /// Id or name of the key
        #[arg(value_name = "KEY")]
        named: String,
    },
    /// Replace an API key or operator token; the old one stays valid for the overlap
    Rotate {
        /// Id or name of the key
        #[arg(value_name = "KEY")]
        named: String,
        #[command(flatten)]
        how: Rotation,
    },
    /// Revoke an API key or operator token immediately
    Revoke {
        /// Id or name of the key
        #[arg(value_name = "KEY")]
        named: String,
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
    /// Namespaces whose blobs the worker may read, such as media-*; repeatable
    #[arg(long = "blobs-read", value_name = "PATTERN", value_parser = pattern)]
    blobs_read: Vec<Pattern>,
    /// Namespaces whose blobs the worker may write, such as media-*; repeatable
    #[arg(long = "blobs-write", value_name = "PATTERN", value_parser = pattern)]
    blobs_write: Vec<Pattern>,
    /// Further operations the worker may call, such as jobs.enqueue (docs/server.md lists them); repeatable
    #[arg(long = "mutation", value_name = "PATTERN", value_parser = pattern)]
    mutations: Vec<Pattern>,
    /// Time until the token expires [default: 90d]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires_in: Option<Span>,
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
    /// Time until the key expires [default: 90d]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires_in: Option<Span>,
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
    /// Time that the old token stays valid [default: 1d]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    overlap: Option<Span>,
    /// Time until the new token expires [default: 90d]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires_in: Option<Span>,
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

/// The most tokens that are searched for a name.
const SEARCHED_MAX: usize = 1_000;

async fn worker_id(named: &str, context: &Context) -> Result<WorkerId, Problem> {
    find(named, "worker", context.client.workers()).await
}

async fn key_id(named: &str, context: &Context) -> Result<KeyId, Problem> {
    find(named, "key", context.client.keys()).await
}

/// Returns the id, or the id of the only active token with this name.
async fn find<I: FromStr>(named: &str, noun: &str, credentials: Credentials<'_>) -> Result<I, Problem> {
    if let Ok(id) = named.parse() {
        return Ok(id);
    }
    let page = credentials.list(None, SEARCHED_MAX).await?;
    let mut found: Vec<&CredentialAnswer> = page.items.iter().filter(|token| token.name == named).collect();
    // A rotated or revoked token keeps the name.
    if found.len() > 1 {
        found.retain(|token| token.state == "good");
    }
    match found.as_slice() {
        [only] => only.id.parse().map_err(|_| Problem::not_found(format!("{noun} {named}"))),
        [] => {
            let similar = similar::to(named, page.items.iter().map(|token| token.name.as_str()));
            let list = if noun == "worker" { "bursar worker list" } else { "bursar token list" };
            let detail = format!("there is no {noun} {named}{}; `{list}` lists them", similar::question(similar));
            Err(Problem::new(Kind::NotFound, detail))
        }
        several => {
            let ids: Vec<&str> = several.iter().map(|token| token.id.as_str()).collect();
            let detail = format!("several tokens have the name {named}; pass one of their ids: {}", ids.join(", "));
            Err(Problem::invalid(noun.to_owned(), detail))
        }
    }
}

/// Runs the command.
pub(crate) async fn workers(args: Workers, context: &Context) -> Result<(), Problem> {
    let workers = context.client.workers();
    match args {
        Workers::Create(CreateWorker { name, queues, kinds, blobs_read, blobs_write, mutations, expires_in, key }) => {
            let blobs = BlobCapabilities { read: blobs_read, write: blobs_write };
            let capabilities = Capabilities { queues, kinds, mutations, blobs, ..Capabilities::default() };
            let body = WorkerBody { name, capabilities, expires_in_ms: expires_in.map(Span::millis) };
            issued(&*context.keyed(key).make_worker(&body).await?, context)
        }
        Workers::List(page) => list(workers, page, context).await,
        Workers::Show { named } => show(&*workers.show(worker_id(&named, context).await?).await?, context),
        Workers::Rotate { named, how } => {
            let id = worker_id(&named, context).await?;
            let client = context.keyed(how.key.clone());
            issued(&*client.workers().rotate(id, &how.body()).await?, context)
        }
        Workers::Revoke { named } => revoke(workers, worker_id(&named, context).await?, context).await,
    }
}

/// Runs the command.
pub(crate) async fn tokens(args: Tokens, context: &Context) -> Result<(), Problem> {
    let keys = context.client.keys();
    match args {
        Tokens::Create(CreateToken { name, role, expires_in, key }) => {
            let body = KeyBody { name, role, expires_in_ms: expires_in.map(Span::millis) };
            issued(&*context.keyed(key).make_key(&body).await?, context)
        }
        Tokens::List(page) => list(keys, page, context).await,
        Tokens::Show { named } => show(&*keys.show(key_id(&named, context).await?).await?, context),
        Tokens::Rotate { named, how } => {
            let id = key_id(&named, context).await?;
            let client = context.keyed(how.key.clone());
            issued(&*client.keys().rotate(id, &how.body()).await?, context)
        }
        Tokens::Revoke { named } => revoke(keys, key_id(&named, context).await?, context).await,
    }
}

impl Rotation {
    fn body(&self) -> RotateBody {
        let Rotation { overlap, expires_in, .. } = self;
        RotateBody { overlap_ms: overlap.map(Span::millis), expires_in_ms: expires_in.map(Span::millis) }
    }
}

fn issued(issued: &IssuedAnswer, context: &Context) -> Result<(), Problem> {
    context.out.data(issued, || {
        let (token, expires) = (cell(issued.token.as_ref()), moment(issued.expires_at.as_ref()));
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
            text.push_str(&format!("\nlast used  {}", distance(Some(used))));
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
        vec![
            token.id.clone(),
            token.name.clone(),
            cell(role),
            token.state.to_string(),
            moment(token.expires_at.as_ref()),
        ]
    });
    table(&["ID", "NAME", "ROLE", "STATE", "EXPIRES"], &rows.collect::<Vec<_>>())
}
