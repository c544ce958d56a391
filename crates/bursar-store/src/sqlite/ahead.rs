//! A large batch is decided beside the writer's thread, so that its first rows are written while the rest is decided.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, PoisonError, mpsc};

use bursar_core::request::Request;
use bursar_core::state::Workspace;

use crate::error::StoreError;
use crate::sqlite::rows::SqliteRows;
use crate::sqlite::scribe::{Scribe, Writing};
use crate::sqlite::write::Part;
use crate::sqlite::writer::Shared;
use crate::store::Verdict;
use crate::work::Loaded;

/// Requests that are decided before their rows are handed on.
const PART: usize = 32;

/// Requests that are worth it.
pub(super) const WORTH_IT: usize = 2 * PART;

/// A batch that is decided, of which some is written already.
pub(super) struct Decided {
    pub(super) ws: Workspace,
    pub(super) verdicts: Vec<Verdict>,
    pub(super) journal: Option<Writing>,
}

enum Told {
    Part(Box<Part>),
    All(Box<Decided>),
    Panic(Box<dyn Any + Send>),
}

/// Decides what is loaded, and writes meanwhile what is ready.
pub(super) fn decide(
    shared: &Arc<Shared>,
    scribe: &Scribe,
    rows: &SqliteRows<'_>,
    loaded: Loaded,
    requests: &Arc<[Arc<Request>]>,
) -> Result<Decided, StoreError> {
    let (tell, told) = mpsc::channel();
    let (shared, requests) = (shared.clone(), requests.clone());
    scribe.hand_over(Box::new(move || {
        let work = || {
            let (mut ws, verdicts) = in_parts(&shared, loaded, &requests, |part| {
                // Who does not listen any more has failed, and the batch with it.
                let _ = tell.send(Told::Part(Box::new(part)));
            });
            let (journal, texts) = ws.take_batch().map(Writing::begun).unzip();
            if tell.send(Told::All(Box::new(Decided { ws, verdicts, journal }))).is_ok() {
                texts.into_iter().for_each(|make| make());
            }
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            let _ = tell.send(Told::Panic(panic));
        }
    }));
    let mut written = Vec::new();
    let decided = loop {
        match told.recv().map_err(|_| StoreError::Closure("who decides has ended".into()))? {
            Told::Part(part) => {
                rows.write_part(&part)?;
                written.push(part);
            }
            Told::All(decided) => break *decided,
            Told::Panic(panic) => resume_unwind(panic),
        }
    };
    // Where it was made, memory is freed best.
    scribe.free(written, decided.verdicts.len());
    Ok(decided)
}

fn in_parts(
    shared: &Shared,
    loaded: Loaded,
    requests: &[Arc<Request>],
    mut hand_on: impl FnMut(Part),
) -> (Workspace, Vec<Verdict>) {
    let requests: Vec<&Request> = requests.iter().map(|request| &**request).collect();
    let mut ids = shared.setup.ids.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut ws, verdicts) = loaded.decide(&requests, &shared.setup.rules, &mut *ids, |count, ws| {
        if count.is_multiple_of(PART) {
            hand_on(Part::early(ws));
        }
    });
    hand_on(Part::early(&mut ws));
    while let Some(scopes) = Part::scopes(&mut ws, 2 * PART) {
        hand_on(scopes);
    }
    (ws, verdicts)
}
