//! Recognizes types by their first bytes, so that an upload cannot claim to be of a type that its bytes are not.
//!
//! Only types with an unmistakable beginning are checked. Bytes that are announced as text, as `application/octet-stream` or as a type
//! that is not in the table are stored as they are; [`crate::disposition`] keeps browsers from running them.

/// The beginnings of a type: bytes at a position.
type Signature = (&'static str, &'static [(usize, &'static [u8])]);

/// The types that are recognized. A type may have several signatures.
const SIGNATURES: &[Signature] = &[
    ("image/png", &[(0, b"\x89PNG\r\n\x1a\n")]),
    ("image/jpeg", &[(0, b"\xff\xd8\xff")]),
    ("image/gif", &[(0, b"GIF87a")]),
    ("image/gif", &[(0, b"GIF89a")]),
    ("image/webp", &[(0, b"RIFF"), (8, b"WEBP")]),
    ("image/avif", &[(4, b"ftypavif")]),
    ("image/avif", &[(4, b"ftypavis")]),
    ("image/avif", &[(4, b"ftypmif1")]),
    ("image/bmp", &[(0, b"BM")]),
    ("image/tiff", &[(0, b"II*\0")]),
    ("image/tiff", &[(0, b"MM\0*")]),
    ("application/pdf", &[(0, b"%PDF-")]),
    ("application/zip", &[(0, b"PK\x03\x04")]),
    ("application/zip", &[(0, b"PK\x05\x06")]),
    ("application/gzip", &[(0, b"\x1f\x8b")]),
    ("application/zstd", &[(0, b"\x28\xb5\x2f\xfd")]),
    ("audio/wav", &[(0, b"RIFF"), (8, b"WAVE")]),
    ("audio/flac", &[(0, b"fLaC")]),
    ("audio/ogg", &[(0, b"OggS")]),
    ("video/ogg", &[(0, b"OggS")]),
    ("audio/webm", &[(0, b"\x1a\x45\xdf\xa3")]),
    ("video/webm", &[(0, b"\x1a\x45\xdf\xa3")]),
    ("video/x-matroska", &[(0, b"\x1a\x45\xdf\xa3")]),
    ("video/mp4", &[(4, b"ftyp")]),
    ("audio/mp4", &[(4, b"ftyp")]),
    ("video/quicktime", &[(4, b"ftyp")]),
    ("video/quicktime", &[(4, b"moov")]),
];

/// A type that was announced and that the bytes do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// The type that the bytes have, if it is known.
    pub(crate) found: Option<&'static str>,
}

/// Checks the first bytes of a blob against its announced type. An empty blob is of any type.
pub(crate) fn check(announced: &str, head: &[u8]) -> Result<(), Mismatch> {
    let essence = announced.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let mut known = SIGNATURES.iter().filter(|(name, _)| *name == essence).peekable();
    if head.is_empty() || known.peek().is_none() || known.any(|signature| begins_with(signature, head)) {
        return Ok(());
    }
    Err(Mismatch { found: recognize(head) })
}

/// Returns the type of bytes by their beginning.
fn recognize(head: &[u8]) -> Option<&'static str> {
    if let Some((name, _)) = SIGNATURES.iter().find(|signature| begins_with(signature, head)) {
        return Some(name);
    }
    let text = String::from_utf8_lossy(head);
    let text = text.trim_start_matches('\u{feff}').trim_start().to_ascii_lowercase();
    let markup = [
        ("<!doctype html", "text/html"),
        ("<html", "text/html"),
        ("<script", "text/html"),
        ("<svg", "image/svg+xml"),
        ("<?xml", "text/xml"),
    ];
    markup.into_iter().find(|(beginning, _)| text.starts_with(beginning)).map(|(_, name)| name)
}

fn begins_with((_, parts): &Signature, head: &[u8]) -> bool {
    parts.iter().all(|(at, bytes)| head.get(*at..at + bytes.len()) == Some(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_must_have_the_announced_type() {
        let png = b"\x89PNG\r\n\x1a\n....";
        let webp = b"RIFF\x10\0\0\0WEBPVP8 ";
        let cases: [(&str, &[u8], Result<(), Mismatch>); 12] = [
            ("image/png", png, Ok(())),
            ("IMAGE/PNG; q=1", png, Ok(())),
            ("image/webp", webp, Ok(())),
            ("image/gif", b"GIF89a..", Ok(())),
            ("image/png", b"", Ok(())),
            ("text/plain", png, Ok(())),
            ("application/octet-stream", b"<html>", Ok(())),
            ("image/jpeg", png, Err(Mismatch { found: Some("image/png") })),
            ("audio/wav", webp, Err(Mismatch { found: Some("image/webp") })),
            ("image/png", b" \n<!DOCTYPE html><script>", Err(Mismatch { found: Some("text/html") })),
            ("image/png", b"<svg onload=1>", Err(Mismatch { found: Some("image/svg+xml") })),
            ("image/png", b"hello", Err(Mismatch { found: None })),
        ];
        for (announced, head, expected) in cases {
            assert_eq!(check(announced, head), expected, "{announced} {head:?}");
        }
    }
}
