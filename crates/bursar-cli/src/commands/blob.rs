//! `bursar blob`.

mod transfer;

use bursar::{Backend, BlobId, KeyId, Namespace, Referrer, Sha256Digest, Span};
use bursar_client::BlobQuery;
use bursar_wire::blob::{BlobAnswer, BlobListWord};
use bursar_wire::problem::Problem;
use bursar_wire::upload::{
    GcAnswer, GcBody, LinkAct, LinkBody, OrphansAnswer, OrphansBody, RelocateAnswer, RelocateBody,
};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use self::transfer::size;
use crate::args::{PageSize, PastMoment, duration};
use crate::context::Context;
use crate::moment::moment;
use crate::output::{cell, counted, table};
use crate::progress::with_progress;

/// The subcommands of `bursar blob`.
#[derive(Subcommand)]
pub(crate) enum Blobs {
    /// Upload a file, or standard input for `-`
    Put(Put),
    /// Download a blob to a file, or to standard output for `-`
    Get(Get),
    /// List blobs
    List(List),
    /// Show what is known about a blob
    Show {
        /// Blob id
        id: BlobId,
        #[command(flatten)]
        moment: PastMoment,
    },
    /// Delete a blob; it can be restored for the grace period of its namespace
    Delete {
        /// Blob id
        id: BlobId,
        /// Reason, recorded in the journal
        #[arg(long)]
        reason: Option<String>,
    },
    /// Restore a deleted blob
    Restore {
        /// Blob id
        id: BlobId,
        /// Reason, recorded in the journal
        #[arg(long)]
        reason: Option<String>,
    },
    /// Keep a blob for something of the application, by name
    Reference(NamedReferenceArgs),
    /// End a reference of the application to a blob
    Release(NamedReferenceArgs),
    /// Create a link that reads a blob without a token, list links, or revoke one
    Link(Link),
    /// Collect blobs that nothing needs any more; without --yes it only tells what is due
    Gc {
        /// Delete what is due
        #[arg(long)]
        yes: bool,
        /// Collect at most this many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000))]
        limit: Option<u64>,
    },
    /// Look for objects that no blob names, and for blobs whose bytes are missing
    Orphans {
        /// Delete the objects that no blob names and that are older than an hour
        #[arg(long)]
        remove: bool,
    },
    /// Move the bytes of all blobs to another backend; can be stopped and begun again
    Move {
        /// The backend that gets the bytes: local or s3
        #[arg(long, value_name = "BACKEND")]
        to: Backend,
    },
}

/// The arguments of `bursar blob put`.
#[derive(Args)]
pub(crate) struct Put {
    /// File to upload; `-` for standard input
    file: String,
    /// Namespace [default: default]
    #[arg(long, value_name = "NAME")]
    namespace: Option<Namespace>,
    /// File name to offer it under [default: the name of the file]
    #[arg(long, value_name = "NAME")]
    filename: Option<String>,
    /// Media type, such as image/png [default: by the ending of the file name]
    #[arg(long = "type", value_name = "TYPE")]
    content_type: Option<String>,
    /// JSON to store with it
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
    /// SHA-256 of the bytes in hexadecimal; other bytes are refused
    #[arg(long, value_name = "HEX")]
    sha256: Option<Sha256Digest>,
}

/// The arguments of `bursar blob get`.
#[derive(Args)]
pub(crate) struct Get {
    /// Blob id
    id: BlobId,
    /// File to write; `-` for standard output [default: the blob's file name, or its id]
    #[arg(long, short, value_name = "FILE")]
    out: Option<String>,
    /// Position of the first byte
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
    /// Number of bytes [default: all]
    #[arg(long, value_name = "N")]
    length: Option<u64>,
}

/// The arguments of `bursar blob link`.
#[derive(Args)]
pub(crate) struct Link {
    /// Blob id
    #[arg(required_unless_present_any = ["list", "revoke"])]
    id: Option<BlobId>,
    /// Time until the link expires, at most 7d [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires_in: Option<Span>,
    /// List links instead, without their addresses
    #[arg(long)]
    list: bool,
    /// Revoke this link instead
    #[arg(long, value_name = "LINK")]
    revoke: Option<KeyId>,
}

/// The arguments of `bursar blob list`.
#[derive(Args)]
pub(crate) struct List {
    /// Namespace of the blobs [default: all]
    #[arg(long, value_name = "NAME")]
    namespace: Option<Namespace>,
    /// Which blobs to list
    #[arg(long, value_enum, default_value_t)]
    state: ListedState,
    /// List the newest blobs first
    #[arg(long)]
    newest: bool,
    /// Start after this blob
    #[arg(long, value_name = "ID")]
    after: Option<BlobId>,
    #[command(flatten)]
    most: PageSize,
}

/// Which blobs `bursar blob list` shows.
#[derive(Clone, Copy, Default, ValueEnum)]
enum ListedState {
    /// Those that can be read
    #[default]
    Live,
    /// Those that were deleted and can be restored
    Deleted,
    /// Those that are being uploaded
    Pending,
    /// All, also those whose bytes are being deleted
    All,
}

impl From<ListedState> for BlobListWord {
    fn from(state: ListedState) -> BlobListWord {
        match state {
            ListedState::Live => BlobListWord::Live,
            ListedState::Deleted => BlobListWord::Deleted,
            ListedState::Pending => BlobListWord::Pending,
            ListedState::All => BlobListWord::All,
        }
    }
}

/// A reference of the application.
#[derive(Args)]
pub(crate) struct NamedReferenceArgs {
    /// Blob id
    id: BlobId,
    /// Name of what refers to the blob, such as post:42
    by: Referrer,
    /// Reason, recorded in the journal
    #[arg(long)]
    reason: Option<String>,
}

impl Blobs {
    /// Returns whether the command only reads.
    pub(crate) fn reads(&self) -> bool {
        matches!(self, Blobs::List(_) | Blobs::Show { .. } | Blobs::Get(_))
    }
}

/// Runs the command.
pub(crate) async fn run(args: Blobs, context: &Context) -> Result<(), Problem> {
    let blobs = context.client.blobs();
    match args {
        Blobs::Put(args) => transfer::put(args, context).await,
        Blobs::Get(args) => transfer::get(args, context).await,
        Blobs::Link(args) => link(args, context).await,
        Blobs::Gc { yes, limit } => {
            let limit = limit.and_then(|limit| usize::try_from(limit).ok());
            let run = GcBody { dry_run: !yes, limit };
            let report = with_progress("collecting", blobs.gc(&run)).await?;
            context.out.data(&*report, || collected(&report))
        }
        Blobs::Orphans { remove } => {
            let report = with_progress("scanning", blobs.orphans(&OrphansBody { remove })).await?;
            context.out.data(&*report, || scanned(&report))
        }
        Blobs::Move { to } => relocate(to, context).await,
        Blobs::List(args) => list(args, context).await,
        Blobs::Show { id, moment } => show(&*blobs.meta_at(id, moment.get()).await?, context),
        Blobs::Delete { id, reason } => {
            blobs.delete(id, reason.as_deref()).await?;
            context.out.data(&json!({ "id": id, "state": "deleted" }), || format!("{id} is deleted"))
        }
        Blobs::Restore { id, reason } => show(&*blobs.restore(id, reason.as_deref()).await?, context),
        Blobs::Reference(NamedReferenceArgs { id, by, reason }) => {
            blobs.reference(id, &by, reason.as_deref()).await?;
            context.out.data(&json!({ "blob": id, "by": by }), || format!("{by} refers to {id}"))
        }
        Blobs::Release(NamedReferenceArgs { id, by, reason }) => {
            blobs.release(id, &by, reason.as_deref()).await?;
            context.out.data(&json!({ "blob": id, "by": by }), || format!("{by} no longer refers to {id}"))
        }
    }
}

async fn link(args: Link, context: &Context) -> Result<(), Problem> {
    let blobs = context.client.blobs();
    if let Some(link) = args.revoke {
        blobs.revoke_link(link).await?;
        return context.out.data(&json!({ "id": link, "state": "revoked" }), || format!("{link} is revoked"));
    }
    if let Some(id) = args.id.filter(|_| !args.list) {
        let body = LinkBody { expires_in_ms: args.expires_in.and_then(|span| u64::try_from(span.millis()).ok()) };
        let link = blobs.link(id, &body).await?;
        return context.out.data(&*link, || {
            let until = moment(link.expires_at.as_ref());
            format!(
                "{}\nvalid until {until}; revoke it with `bursar blob link --revoke {}`",
                cell(link.url.as_ref()),
                link.id
            )
        });
    }
    let page = blobs.links(None, 1_000).await?;
    context.out.data(&*page, || {
        let rows = page.items.iter().map(|link| {
            let act = match link.act {
                LinkAct::Read => "read",
                LinkAct::Upload => "upload",
            };
            let until = moment(link.expires_at.as_ref());
            vec![link.id.clone(), link.blob.to_string(), act.to_owned(), link.state.clone(), until]
        });
        table(&["LINK", "BLOB", "ALLOWS", "STATE", "UNTIL"], &rows.collect::<Vec<_>>())
    })
}

fn collected(report: &GcAnswer) -> String {
    let bytes = size(report.bytes);
    if report.dry_run {
        return match report.due {
            0 => "nothing is due".to_owned(),
            due => format!("{} with {bytes} due; nothing was changed: collect with --yes", counted(due, "blob")),
        };
    }
    let mut text = format!("collected {} with {bytes}", counted(report.collected, "blob"));
    if report.failed > 0 {
        text += &format!("; the bytes of {} could not be deleted, the next run tries again", report.failed);
    }
    if report.more {
        text += "; more may be due: run it again";
    }
    text
}

fn scanned(report: &OrphansAnswer) -> String {
    let mut lines = vec![format!("{}, {}", counted(report.objects, "object"), counted(report.blobs, "live blob"))];
    lines.extend(
        report
            .orphans
            .iter()
            .map(|orphan| format!("orphan   {} {} {}", orphan.backend, orphan.path, size(orphan.bytes))),
    );
    lines.extend(report.missing.iter().map(|blob| format!("missing  {blob}")));
    lines.push(match (report.orphans_total, report.missing_total) {
        (0, 0) => "no orphans, nothing is missing".to_owned(),
        (orphans, missing) => format!(
            "{} with {}, {} deleted; {} without bytes",
            counted(orphans, "orphan"),
            size(report.orphan_bytes),
            report.deleted,
            counted(missing, "blob")
        ),
    });
    lines.join("\n")
}

/// Moves all blobs, step by step.
async fn relocate(to: Backend, context: &Context) -> Result<(), Problem> {
    let blobs = context.client.blobs();
    let mut total = RelocateAnswer::default();
    let mut after = None;
    let bar = transfer::spinner();
    loop {
        let step = blobs.relocate(&RelocateBody { to: to.clone(), after, limit: None }).await?;
        total.moved += step.moved;
        total.bytes += step.bytes;
        total.there += step.there;
        total.failed += step.failed;
        bar.set_message(format!("moved {}, {}", counted(total.moved, "blob"), size(total.bytes)));
        if step.next.is_none() {
            break;
        }
        after = step.next;
    }
    bar.finish_and_clear();
    context.out.data(&total, || {
        let RelocateAnswer { moved, bytes, there, failed, .. } = total;
        let mut text =
            format!("moved {} with {} to {to}; {there} were there already", counted(moved, "blob"), size(bytes));
        if failed > 0 {
            text += &format!("; {failed} could not be moved and stay where they are: the server's log tells why");
        }
        text
    })
}

async fn list(args: List, context: &Context) -> Result<(), Problem> {
    let List { namespace, state, newest, after, most } = args;
    let (state, cursor, limit) = (state.into(), after.map(|id| id.to_string()), Some(most.into()));
    let query = BlobQuery { namespace, state, newest_first: newest, cursor, limit };
    let page = context.client.blobs().list(&query).await?;
    context.out.data(&*page, || {
        let rows = page.items.iter().map(|blob| {
            vec![
                blob.id.to_string(),
                blob.namespace.to_string(),
                blob.state.as_str().to_owned(),
                cell(blob.size),
                blob.content_type.clone(),
                cell(blob.filename.as_ref()),
                moment(blob.created_at.as_ref()),
            ]
        });
        table(&["BLOB", "NAMESPACE", "STATE", "BYTES", "TYPE", "FILE NAME", "CREATED"], &rows.collect::<Vec<_>>())
    })?;
    context.out.next_page(page.next.as_deref());
    Ok(())
}

fn show(blob: &BlobAnswer, context: &Context) -> Result<(), Problem> {
    context.out.data(blob, || {
        let references: Vec<&str> = blob.references.iter().map(Referrer::as_str).collect();
        let references = Some(references.join(", ")).filter(|names| !names.is_empty());
        [
            format!("blob        {}", blob.id),
            format!("state       {}", blob.state.as_str()),
            format!("namespace   {}", blob.namespace),
            format!("file name   {}", cell(blob.filename.as_ref())),
            format!("type        {}", blob.content_type),
            format!("bytes       {}", cell(blob.size)),
            format!("sha256      {}", cell(blob.sha256)),
            format!("metadata    {}", blob.metadata.as_str()),
            format!("backend     {}", blob.backend),
            format!("created     {}", moment(blob.created_at.as_ref())),
            format!("deleted     {}", moment(blob.deleted_at.as_ref())),
            format!("jobs        {}", blob.jobs),
            format!("references  {}", cell(references)),
        ]
        .join("\n")
    })
}
