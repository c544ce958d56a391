//! New grants.

use bursar::Minted;

use crate::wire::grant::MintedAnswer;
use crate::wire::stamp;

/// Returns a new grant with its token.
pub fn minted_answer(minted: &Minted) -> MintedAnswer {
    MintedAnswer { id: minted.id, token: minted.token.clone(), expires_at: stamp(minted.expires_at) }
}
