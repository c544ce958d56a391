//! How a browser gets a blob: as a file or shown in the page, and under which name.
//!
//! Bytes of other people must not run in the name of the server. So types that a browser would run are offered as files, and every
//! answer has headers that keep a browser from guessing another type or running a script.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// The headers of every answer with the bytes of a blob, beside its type, length and name.
pub const SAFE_HEADERS: [(&str, &str); 3] = [
    ("x-content-type-options", "nosniff"),
    (
        "content-security-policy",
        "sandbox; default-src 'none'; style-src 'unsafe-inline'; media-src 'self'; img-src 'self'",
    ),
    ("cross-origin-resource-policy", "same-origin"),
];

/// The types that a browser shows and does not run.
const SHOWN: [&str; 14] = [
    "application/pdf",
    "audio/mpeg",
    "audio/ogg",
    "audio/wav",
    "audio/webm",
    "image/avif",
    "image/gif",
    "image/jpeg",
    "image/png",
    "image/webp",
    "text/plain",
    "video/mp4",
    "video/ogg",
    "video/webm",
];

/// The characters of a file name that `filename*` encodes: all but those of `attr-char` in RFC 8187.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'%')
    .add(b'\'')
    .add(b'(')
    .add(b')')
    .add(b'*')
    .add(b',')
    .add(b'/')
    .add(b':')
    .add(b';')
    .add(b'<')
    .add(b'=')
    .add(b'>')
    .add(b'?')
    .add(b'@')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'{')
    .add(b'}');

/// Returns the value of `Content-Disposition` (RFC 6266) for a blob.
pub fn content_disposition(content_type: &str, filename: Option<&str>) -> String {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let shown = if SHOWN.contains(&essence.as_str()) { "inline" } else { "attachment" };
    let Some(name) = filename else { return shown.to_owned() };
    let plain: String = name.chars().map(|sign| if is_plain(sign) { sign } else { '_' }).collect();
    if plain == name {
        return format!("{shown}; filename=\"{plain}\"");
    }
    format!("{shown}; filename=\"{plain}\"; filename*=UTF-8''{}", utf8_percent_encode(name, ENCODED))
}

/// Returns whether a character can stand in a quoted file name that every client reads alike.
fn is_plain(sign: char) -> bool {
    (' '..='~').contains(&sign) && !matches!(sign, '"' | '\\' | '%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_a_browser_would_run_are_files() {
        for shown in ["image/png", "IMAGE/PNG", "text/plain; charset=utf-8", "video/mp4"] {
            assert_eq!(content_disposition(shown, None), "inline", "{shown}");
        }
        for file in [
            "text/html",
            "image/svg+xml",
            "application/xml",
            "text/xml",
            "application/xhtml+xml",
            "text/javascript",
            "",
        ] {
            assert_eq!(content_disposition(file, None), "attachment", "{file}");
        }
    }

    #[test]
    fn names_are_quoted_and_encoded() {
        let named = |name: &str| content_disposition("application/zip", Some(name));
        assert_eq!(named("a b.zip"), "attachment; filename=\"a b.zip\"");
        assert_eq!(
            named("Résumé \"1\".zip"),
            "attachment; filename=\"R_sum_ _1_.zip\"; filename*=UTF-8''R%C3%A9sum%C3%A9%20%221%22.zip"
        );
        assert_eq!(named("100%.zip"), "attachment; filename=\"100_.zip\"; filename*=UTF-8''100%25.zip");
        let injected = named("a\r\nset-cookie: x.zip");
        assert!(!injected.contains('\r') && !injected.contains('\n'), "{injected}");
    }
}
