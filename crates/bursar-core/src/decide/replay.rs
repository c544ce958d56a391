//! Replays: a request that is retried under its idempotency key gets the first answer again.

use std::borrow::Cow;

use crate::answer::{Answer, Outcome};
use crate::decide::{Rules, submit};
use crate::event::{Acted, Entry, KeyUse};
use crate::id::GrantId;
use crate::mutant::Mutant;
use crate::refusal::Refusal;
use crate::request::CheckedRequest;
use crate::state::{KeyRow, Workspace};

/// The result of looking up the idempotency key of a request.
pub(super) enum KeyLookup {
    /// The request has no key, or its key is not in use. The value is the key to record with the entry.
    Unused(Option<KeyUse>),
    /// The request was executed under the key before, with this outcome.
    Used(Outcome),
}

/// Looks up the key of a request. Refuses if the key was used for a different request.
pub(super) fn look_up(ws: &Workspace, request: &CheckedRequest, rules: &Rules) -> Result<KeyLookup, Refusal> {
    let Some(key) = request.key().map(Cow::into_owned) else { return Ok(KeyLookup::Unused(None)) };
    let fingerprint = request.fingerprint();
    let used = ws.keys.get(&(request.context.tenant.clone(), key.clone()));
    let Some(row) = used.filter(|row| row.until > ws.now) else {
        return Ok(KeyLookup::Unused(Some(KeyUse {
            key,
            fingerprint,
            until: ws.now.after(rules.key_kept),
            acted: None,
        })));
    };
    if fingerprint != row.fingerprint && !Mutant::DropFingerprint.on() {
        let key = request.idempotency_key.clone().expect("the request has a key");
        return Err(Refusal::KeyReused { key });
    }
    Ok(KeyLookup::Used(first_outcome(ws, row)))
}

fn first_outcome(ws: &Workspace, row: &KeyRow) -> Outcome {
    let in_batch = ws.entries.iter().find(|entry| entry.id == row.command);
    let entry = in_batch.or_else(|| ws.replays.get(&row.command)).expect("the entry of a key is loaded with the key");
    let acted = entry.key.as_ref().and_then(|key| key.acted.as_ref());
    let answer = acted.map_or_else(|| render(ws, entry), Acted::answer);
    Outcome { command: row.command, replayed: true, answer, entry: None }
}

/// Renders the answer to a request from its events.
pub(super) fn render(ws: &Workspace, entry: &Entry) -> Answer {
    let payload =
        |id: GrantId| ws.grants.is_loaded(&id).then(|| ws.grants.get(&id)).flatten().map(|row| row.payload.clone());
    let mut answer = Answer::render(entry, payload);
    if let Answer::Submitted(submitted) = &mut answer {
        submitted.hold = submitted.hold.take().or_else(|| submit::hold_found(ws, entry));
    }
    answer
}
