//! Idempotency keys: a request that is repeated under its key gets the first answer again.

use std::borrow::Cow;

use crate::answer::{Answer, Outcome};
use crate::decide::{Rules, submit};
use crate::event::{Acted, Entry, KeyUse};
use crate::id::GrantId;
use crate::mutant::Mutant;
use crate::refusal::Refusal;
use crate::request::CheckedRequest;
use crate::state::{KeyRow, Workspace};

/// What an idempotency key tells about a request.
pub(super) enum Earlier {
    /// It has not been done. It is to be remembered under the key, if it has one.
    None(Option<KeyUse>),
    /// It has been done, with this outcome.
    Done(Outcome),
}

/// Looks for the key of a request among those that were used.
pub(super) fn look_up(ws: &Workspace, request: &CheckedRequest, rules: &Rules) -> Result<Earlier, Refusal> {
    let Some(key) = request.key().map(Cow::into_owned) else { return Ok(Earlier::None(None)) };
    let fingerprint = request.fingerprint();
    let used = ws.keys.get(&(request.context.tenant.clone(), key.clone()));
    let Some(row) = used.filter(|row| row.until > ws.now) else {
        return Ok(Earlier::None(Some(KeyUse { key, fingerprint, until: ws.now.after(rules.key_kept), acted: None })));
    };
    if fingerprint != row.fingerprint && !Mutant::DropFingerprint.on() {
        let key = request.idempotency_key.clone().expect("a request with a key");
        return Err(Refusal::KeyReused { key });
    }
    Ok(Earlier::Done(first_outcome(ws, row)))
}

fn first_outcome(ws: &Workspace, row: &KeyRow) -> Outcome {
    let in_batch = ws.entries.iter().find(|entry| entry.id == row.command);
    let entry = in_batch.or_else(|| ws.replays.get(&row.command)).expect("the entry of a key is loaded with the key");
    let acted = entry.key.as_ref().and_then(|key| key.acted.as_ref());
    let answer = acted.map_or_else(|| render(ws, entry), Acted::answer);
    Outcome { command: row.command, replayed: true, answer, entry: None }
}

/// Renders the answer of a request from its events.
pub(super) fn render(ws: &Workspace, entry: &Entry) -> Answer {
    let payload =
        |id: GrantId| ws.grants.is_loaded(&id).then(|| ws.grants.get(&id)).flatten().map(|row| row.payload.clone());
    let mut answer = Answer::render(entry, payload);
    if let Answer::Submitted(submitted) = &mut answer {
        submitted.hold = submitted.hold.take().or_else(|| submit::hold_found(ws, entry));
    }
    answer
}
