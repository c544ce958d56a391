//! `bursar blob`.

use bursar::{BlobId, Namespace, Referrer};
use bursar_client::BlobQuery;
use bursar_wire::blob::BlobAnswer;
use bursar_wire::problem::Problem;
use clap::{Args, Subcommand};
use serde_json::json;

use crate::args::PageSize;
use crate::context::Context;
use crate::moment::moment;
use crate::output::{cell, table};

/// The subcommands of `bursar blob`.
#[derive(Subcommand)]
pub(crate) enum Blobs {
    /// List blobs in any state
    List(List),
    /// Show what is known about a blob
    Show {
        /// Blob id
        id: BlobId,
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
}

/// The arguments of `bursar blob list`.
#[derive(Args)]
pub(crate) struct List {
    /// Namespace of the blobs [default: all]
    #[arg(long, value_name = "NAME")]
    namespace: Option<Namespace>,
    /// List the newest blobs first
    #[arg(long)]
    newest: bool,
    /// Start after this blob
    #[arg(long, value_name = "ID")]
    after: Option<BlobId>,
    #[command(flatten)]
    most: PageSize,
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
        matches!(self, Blobs::List(_) | Blobs::Show { .. })
    }
}

/// Runs the command.
pub(crate) async fn run(args: Blobs, context: &Context) -> Result<(), Problem> {
    let blobs = context.client.blobs();
    match args {
        Blobs::List(args) => list(args, context).await,
        Blobs::Show { id } => show(&*blobs.meta(id).await?, context),
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

async fn list(args: List, context: &Context) -> Result<(), Problem> {
    let List { namespace, newest, after, most } = args;
    let query =
        BlobQuery { namespace, newest_first: newest, cursor: after.map(|id| id.to_string()), limit: Some(most.into()) };
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
