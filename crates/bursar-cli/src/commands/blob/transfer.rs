//! Uploads and downloads, with a progress bar for what takes longer than a second.

use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bursar_client::{Bytes, Upload};
use bursar_wire::problem::{Kind, Problem};
use futures_util::TryStreamExt;
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use tokio::sync::mpsc;

use super::{Get, Put};
use crate::context::Context;

/// The bytes of a file that are read at once.
const STEP: usize = 256 << 10;
/// How long a transfer goes on without a progress bar.
const QUIET: Duration = Duration::from_secs(1);

/// Returns a number of bytes as people read it.
pub(super) fn size(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

/// Returns a bar for a transfer, which is shown on a terminal only, and only after a second.
fn bar(total: Option<u64>) -> ProgressBar {
    let bar = match total {
        Some(total) => ProgressBar::new(total),
        None => ProgressBar::no_length(),
    };
    bar.set_draw_target(ProgressDrawTarget::hidden());
    let template = match total {
        Some(_) => "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
        None => "{spinner} {bytes}, {bytes_per_sec}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Returns a line for work whose end is not known.
pub(super) fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    show(&bar);
    bar
}

fn show(bar: &ProgressBar) {
    if std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
    }
}

/// Counts bytes, and shows the bar once a second has passed.
struct Meter {
    bar: ProgressBar,
    shown: bool,
}

impl Meter {
    fn new(total: Option<u64>) -> Meter {
        Meter { bar: bar(total), shown: false }
    }

    fn add(&mut self, bytes: usize) {
        if !self.shown && self.bar.elapsed() > QUIET {
            show(&self.bar);
            self.shown = true;
        }
        self.bar.inc(bytes as u64);
    }
}

pub(super) async fn put(args: Put, context: &Context) -> Result<(), Problem> {
    let Put { file, namespace, filename, content_type, metadata, sha256 } = args;
    let failed = |error: std::io::Error| Problem::invalid("file".into(), format!("{file} cannot be read: {error}"));
    let piped = file == "-";
    let (input, length): (Box<dyn Read + Send>, Option<u64>) = match piped {
        true => (Box::new(std::io::stdin()), None),
        false => {
            let open = std::fs::File::open(&file).map_err(failed)?;
            let about = open.metadata().map_err(failed)?;
            if about.is_dir() {
                return Err(Problem::invalid("file".into(), format!("{file} is a directory; upload its files")));
            }
            (Box::new(open), about.is_file().then_some(about.len()))
        }
    };
    let own_name = Path::new(&file).file_name().filter(|_| !piped).map(|name| name.to_string_lossy().into_owned());
    let filename = filename.or(own_name);
    let content_type = content_type.or_else(|| filename.as_deref().and_then(type_of).map(str::to_owned));
    let upload = Upload { namespace, filename, content_type, metadata, size: length, sha256 };
    let mut meter = Meter::new(length);
    let bar = meter.bar.clone();
    let pieces = futures_util::stream::unfold(read_ahead(input), |mut pieces| async move {
        pieces.recv().await.map(|piece| (piece, pieces))
    });
    let counted = pieces.inspect_ok(move |piece: &Bytes| meter.add(piece.len()));
    let stored = context.client.blobs().put(&upload, counted).await;
    bar.finish_and_clear();
    super::show(&stored?, context)
}

/// Reads a file on a thread of its own, a few pieces ahead of the upload.
fn read_ahead(mut input: Box<dyn Read + Send>) -> mpsc::Receiver<std::io::Result<Bytes>> {
    let (sender, receiver) = mpsc::channel(4);
    std::thread::spawn(move || {
        loop {
            let mut piece = vec![0; STEP];
            let read = input.read(&mut piece).map(|length| {
                piece.truncate(length);
                Bytes::from(piece)
            });
            let last = read.as_ref().map_or(true, Bytes::is_empty);
            let ended = read.as_ref().is_ok_and(Bytes::is_empty);
            // The upload may be over already.
            if ended || sender.blocking_send(read).is_err() || last {
                return;
            }
        }
    });
    receiver
}

pub(super) async fn get(args: Get, context: &Context) -> Result<(), Problem> {
    let Get { id, out, offset, length } = args;
    let blobs = context.client.blobs();
    let target = match out {
        Some(out) => out,
        None => {
            let name = blobs.meta(id).await?.filename.clone().unwrap_or_else(|| id.to_string());
            if Path::new(&name).exists() {
                let detail = format!("{name} exists; name another file with --out, or use --out - for standard output");
                return Err(Problem::new(Kind::Conflict, detail));
            }
            name
        }
    };
    let mut download = match (offset, length) {
        (0, None) => blobs.get(id).await?,
        (offset, length) => blobs.get_range(id, offset, length.unwrap_or(u64::MAX - offset)).await?,
    };
    let failed = |error: std::io::Error| Problem::invalid("out".into(), format!("{target} cannot be written: {error}"));
    let piped = target == "-";
    // A file appears under its name only when all its bytes are there.
    let partial = PathBuf::from(format!("{target}.part"));
    let mut file: Box<dyn Write + Send> = match piped {
        true => Box::new(std::io::stdout()),
        false => Box::new(std::fs::File::create(&partial).map_err(failed)?),
    };
    let mut meter = Meter::new(download.size);
    let mut written = 0_u64;
    let received = loop {
        match download.next().await {
            Ok(None) => break Ok(()),
            Ok(Some(bytes)) => {
                written += bytes.len() as u64;
                meter.add(bytes.len());
                if let Err(error) = file.write_all(&bytes) {
                    break Err(failed(error));
                }
            }
            Err(error) => {
                let detail = format!("the download broke off after {written} bytes: {error}; run it again");
                break Err(Problem::new(Kind::Unavailable, detail));
            }
        }
    };
    meter.bar.finish_and_clear();
    let complete = match received {
        Ok(()) => file.flush().map_err(failed),
        Err(problem) => Err(problem),
    };
    drop(file);
    if piped {
        return complete;
    }
    match complete.and_then(|()| std::fs::rename(&partial, &target).map_err(failed)) {
        Ok(()) => context
            .out
            .data(&json!({ "id": id, "file": target, "bytes": written }), || format!("{target}: {}", size(written))),
        Err(problem) => {
            let _ = std::fs::remove_file(&partial);
            Err(problem)
        }
    }
}

/// Returns the media type of a file by its ending.
fn type_of(name: &str) -> Option<&'static str> {
    const TYPES: &[(&str, &str)] = &[
        ("avif", "image/avif"),
        ("csv", "text/csv"),
        ("flac", "audio/flac"),
        ("gif", "image/gif"),
        ("gz", "application/gzip"),
        ("htm", "text/html"),
        ("html", "text/html"),
        ("jpeg", "image/jpeg"),
        ("jpg", "image/jpeg"),
        ("json", "application/json"),
        ("md", "text/markdown"),
        ("mkv", "video/x-matroska"),
        ("mov", "video/quicktime"),
        ("mp3", "audio/mpeg"),
        ("mp4", "video/mp4"),
        ("ogg", "audio/ogg"),
        ("pdf", "application/pdf"),
        ("png", "image/png"),
        ("svg", "image/svg+xml"),
        ("txt", "text/plain"),
        ("wav", "audio/wav"),
        ("webm", "video/webm"),
        ("webp", "image/webp"),
        ("zip", "application/zip"),
        ("zst", "application/zstd"),
    ];
    let ending = name.rsplit_once('.')?.1.to_ascii_lowercase();
    TYPES.iter().find(|(known, _)| *known == ending).map(|(_, media)| *media)
}
