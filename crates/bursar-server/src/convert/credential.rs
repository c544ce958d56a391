//! New credentials.

use bursar::{CredentialClass, Issued};

use crate::wire::credential::{IssuedAnswer, credential_id};
use crate::wire::stamp;

/// Returns a new credential with its token.
pub fn issued_answer(class: CredentialClass, issued: Issued) -> IssuedAnswer {
    IssuedAnswer { id: credential_id(class, issued.id), token: issued.token, expires_at: stamp(issued.expires_at) }
}
