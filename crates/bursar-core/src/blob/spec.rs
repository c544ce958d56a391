//! The description of a blob to upload.

use serde::{Deserialize, Serialize};

use crate::blob::Sha256Digest;
use crate::bounds::{BLOB_BYTES_MAX, NAME_BYTES_MAX, PAYLOAD_INLINE_BYTES};
use crate::name::{Backend, Namespace, check_visible};
use crate::payload::Payload;
use crate::refusal::Invalid;

/// A blob to be uploaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlobSpec {
    /// Its namespace.
    pub namespace: Namespace,
    /// The backend that gets its bytes.
    pub backend: Backend,
    /// The file name to offer it under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// Its content type.
    pub content_type: String,
    /// Data of the caller that Bursar stores and does not read.
    #[serde(default, skip_serializing_if = "is_null")]
    pub metadata: Payload,
    /// Its length in bytes, if known. An upload of another length is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The SHA-256 of its bytes, if known. An upload with another digest is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Sha256Digest>,
    /// Whether the caller uploads it by a signed link, to a staging object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub staged: bool,
}

fn is_null(payload: &Payload) -> bool {
    *payload == Payload::default()
}

/// The content type of blobs whose type is not given.
const BYTES: &str = "application/octet-stream";

impl BlobSpec {
    /// Creates a blob of bytes whose type, length and digest are not known.
    pub fn new(namespace: Namespace, backend: Backend) -> BlobSpec {
        BlobSpec {
            namespace,
            backend,
            filename: None,
            content_type: BYTES.to_owned(),
            metadata: Payload::default(),
            size: None,
            digest: None,
            staged: false,
        }
    }

    /// Refuses values that are invalid in any state.
    pub fn check(&self) -> Result<(), Invalid> {
        self.filename.as_deref().map_or(Ok(()), check_filename)?;
        check_content_type(&self.content_type)?;
        if self.metadata.is_large() {
            return Err(Invalid::new("metadata", format!("has more than {PAYLOAD_INLINE_BYTES} bytes")));
        }
        match self.size {
            Some(size) if size > BLOB_BYTES_MAX => {
                Err(Invalid::new("size", format!("is {size}; at most {BLOB_BYTES_MAX} are allowed")))
            }
            None if self.staged => Err(Invalid::new("size", "is needed for an upload by a signed link")),
            _ if self.staged && self.digest.is_none() => {
                Err(Invalid::new("sha256", "is needed for an upload by a signed link"))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses a file name that is a path, or that a terminal or a browser would show as something else.
fn check_filename(name: &str) -> Result<(), Invalid> {
    let refuse = |problem: &str| Err(Invalid::new("filename", problem));
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return refuse(&format!("must have from 1 to {NAME_BYTES_MAX} bytes"));
    }
    if name.contains(['/', '\\']) || matches!(name, "." | "..") {
        return refuse("must be a name, not a path");
    }
    if name.chars().any(char::is_control) {
        return refuse("must not contain control characters");
    }
    check_visible("filename", name)
}

/// Refuses a text that is not a media type: `type/subtype`, with parameters or without.
fn check_content_type(text: &str) -> Result<(), Invalid> {
    let refuse = || Err(Invalid::new("content_type", "must be a media type, such as image/png"));
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if !plain || text.len() > NAME_BYTES_MAX {
        return refuse();
    }
    let essence = text.split(';').next().unwrap_or_default().trim();
    let is_token = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    match essence.split_once('/') {
        Some((kind, subtype)) if is_token(kind) && is_token(subtype) => Ok(()),
        _ => refuse(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> BlobSpec {
        BlobSpec::new(Namespace::new("media").unwrap(), Backend::new("local").unwrap())
    }

    #[test]
    fn file_names_that_are_paths_or_unreadable_are_refused() {
        for name in ["", ".", "..", "../a", "a/b", "a\\b", "a\nb", "a\u{202e}gpj.exe", &"x".repeat(256)] {
            let named = BlobSpec { filename: Some(name.to_owned()), ..spec() };
            assert_eq!(named.check().unwrap_err().field, "filename", "{name:?}");
        }
        for name in ["a.png", "Résumé (1).pdf", "..a", "報告.txt"] {
            assert_eq!(BlobSpec { filename: Some(name.to_owned()), ..spec() }.check(), Ok(()), "{name:?}");
        }
    }

    #[test]
    fn content_types_have_a_type_and_a_subtype() {
        for text in ["", "png", "image/", "/png", "image/p ng", "image/png\r\nx: y", "imagé/png"] {
            let typed = BlobSpec { content_type: text.to_owned(), ..spec() };
            assert_eq!(typed.check().unwrap_err().field, "content_type", "{text:?}");
        }
        for text in ["image/png", "text/plain; charset=utf-8", "application/vnd.api+json"] {
            assert_eq!(BlobSpec { content_type: text.to_owned(), ..spec() }.check(), Ok(()), "{text:?}");
        }
    }

    #[test]
    fn an_upload_by_a_signed_link_needs_length_and_digest() {
        let staged = BlobSpec { staged: true, ..spec() };
        assert_eq!(staged.check().unwrap_err().field, "size");
        assert_eq!(BlobSpec { size: Some(1), ..staged.clone() }.check().unwrap_err().field, "sha256");
        assert_eq!(BlobSpec { size: Some(1), digest: Some(Sha256Digest([0; 32])), ..staged }.check(), Ok(()));
    }
}
