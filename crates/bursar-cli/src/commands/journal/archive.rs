//! `bursar journal archive`, `bursar journal unarchive`, `bursar journal segments` and `bursar journal verify`.

use bursar::{ArchiveStatus, Archived, Bursar, JournalProof, Segment};
use bursar_wire::problem::Problem;
use clap::Args;
use serde_json::{Value, json};

use crate::context::Context;
use crate::output::{counted, table};
use crate::progress::with_progress;

/// The arguments of `bursar journal archive`.
#[derive(Args)]
pub(crate) struct Archive {
    /// Show what the next segment would have, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// The segments that one page reads.
const PAGE: usize = 1_000;

/// Runs `bursar journal archive`.
pub(crate) async fn archive(args: Archive, context: &Context) -> Result<(), Problem> {
    let bursar = context.bursar()?;
    if args.dry_run {
        let next = bursar.journal().archive_preview().await?;
        let answer = next.map(|(first, last, bytes)| json!({ "first": first, "last": last, "plain_bytes": bytes }));
        return context.out.data(&json!({ "next": answer }), || match next {
            Some((first, last, bytes)) => {
                format!("the next segment would have positions {first} to {last}, {bytes} bytes before compression")
            }
            None => "nothing is old enough to be archived".to_owned(),
        });
    }
    let Archived { segments, deleted } = with_progress("archiving", bursar.journal().archive()).await?;
    let answer = json!({ "segments": segments.iter().map(shape).collect::<Vec<_>>(), "deleted_rows": deleted });
    context.out.data(&answer, || match (segments.first(), segments.last()) {
        (Some(first), Some(last)) => {
            let bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
            let written = counted(segments.len(), "segment");
            format!("archived positions {} to {} in {written} ({bytes} bytes)", first.first, last.last)
        }
        _ if deleted > 0 => format!("deleted {} that were archived before", counted(deleted, "row")),
        _ => "nothing is old enough to be archived".to_owned(),
    })
}

/// Runs `bursar journal unarchive`.
pub(crate) async fn unarchive(context: &Context) -> Result<(), Problem> {
    let segments = with_progress("putting archived rows back", context.bursar()?.journal().unarchive()).await?;
    let answer = json!({ "segments": segments.iter().map(shape).collect::<Vec<_>>() });
    context.out.data(&answer, || match (segments.last(), segments.first()) {
        (Some(first), Some(last)) => format!("positions {} to {} are in the database again", first.first, last.last),
        _ => "nothing was archived".to_owned(),
    })?;
    if !segments.is_empty() {
        context.out.note("a server with journal.archive archives old rows again: remove the setting if they must stay");
    }
    Ok(())
}

/// Runs `bursar journal segments`.
pub(crate) async fn segments(context: &Context) -> Result<(), Problem> {
    let bursar = context.bursar()?;
    let segments = all_segments(bursar).await?;
    let ArchiveStatus { place, position, .. } = bursar.journal().archive_status().await?;
    let answer = json!({
        "place": place, "position": position, "items": segments.iter().map(shape).collect::<Vec<_>>(),
    });
    context.out.data(&answer, || {
        let rows = segments.iter().map(|segment| {
            let Segment { first, last, rows, times, bytes, .. } = segment;
            vec![
                first.to_string(),
                last.to_string(),
                times.0.to_string(),
                rows.to_string(),
                bytes.to_string(),
                segment.name(),
            ]
        });
        table(&["FIRST", "LAST", "FROM", "ROWS", "BYTES", "NAME"], &rows.collect::<Vec<_>>())
    })
}

/// Runs `bursar journal verify`.
pub(crate) async fn verify(context: &Context) -> Result<(), Problem> {
    let proof = with_progress("reading the journal", context.bursar()?.journal().prove()).await?;
    let JournalProof { segments, bytes, archived_rows, archived, digest, table_rows, position, unknown_files } = &proof;
    let answer = json!({
        "segments": segments, "bytes": bytes, "archived_rows": archived_rows, "archived": archived, "digest": digest,
        "table_rows": table_rows, "position": position, "unknown_files": unknown_files,
    });
    context.out.data(&answer, || {
        let mut lines = Vec::new();
        if let Some(digest) = digest {
            lines.push(format!(
                "positions 1 to {archived} are in {}, whose chain is intact and ends with {digest}",
                counted(*segments, "segment")
            ));
        }
        lines.push(format!(
            "positions {} to {position} are in the table, in {}; none is missing",
            archived + 1,
            counted(*table_rows, "row")
        ));
        lines.join("\n")
    })?;
    if !unknown_files.is_empty() {
        let names = unknown_files.iter().take(10).map(String::as_str).collect::<Vec<_>>().join(", ");
        let files = counted(unknown_files.len(), "file");
        context.out.note(&format!("{files} in the archive that the database does not know: {names}"));
    }
    Ok(())
}

async fn all_segments(bursar: &Bursar) -> Result<Vec<Segment>, Problem> {
    let mut segments: Vec<Segment> = Vec::new();
    loop {
        let after = segments.last().map_or(0, |last| last.last);
        let page = bursar.journal().segments(after, PAGE).await?;
        let is_last = page.len() < PAGE;
        segments.extend(page);
        if is_last {
            return Ok(segments);
        }
    }
}

fn shape(segment: &Segment) -> Value {
    json!({
        "first": segment.first, "last": segment.last, "rows": segment.rows,
        "from": segment.times.0.to_string(), "to": segment.times.1.to_string(),
        "bytes": segment.bytes, "plain_bytes": segment.plain_bytes,
        "digest": segment.digest.to_string(), "previous": segment.previous.to_string(), "name": segment.name(),
    })
}
