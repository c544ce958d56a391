//! Sign-in. The session is the token itself, in a cookie that scripts cannot read, so that a revoked token ends the session at its next
//! request, on every node, and the server keeps no list of sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, HeaderValue, header};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sha2::{Digest, Sha256};

use crate::api::Caller;

/// The cookie with the token.
pub(crate) const SESSION: &str = "bursar_session";
/// The cookie with the message that the next page shows.
pub(crate) const FLASH: &str = "bursar_flash";
/// The cookie with the chosen theme, which the script sets.
pub(crate) const THEME: &str = "bursar_theme";
/// How long a session lasts in the browser, in seconds.
const SESSION_SECONDS: u32 = 12 * 3_600;
/// The most login codes that wait to be used.
const CODES_MAX: usize = 16;

/// One-time codes that sign a browser in, for a link that `bursar dev` prints. They are accepted from this machine only.
#[derive(Clone, Default)]
pub struct LoginCodes(Arc<Mutex<HashMap<String, String>>>);

impl LoginCodes {
    /// Returns a new code for a token; `None` if too many codes wait to be used.
    pub fn issue(&self, token: &str) -> Option<String> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the system provides random bytes");
        let code: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (codes.len() < CODES_MAX).then(|| {
            codes.insert(code.clone(), token.to_owned());
            code
        })
    }

    /// Uses up a code and returns its token.
    pub(crate) fn take(&self, code: &str, caller: &Caller) -> Option<String> {
        if !caller.ip.to_canonical().is_loopback() {
            return None;
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(code)
    }
}

/// Returns the value of a cookie.
pub(crate) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(key, _)| *key == name)?;
    percent_decode_str(value).decode_utf8().ok().map(|value| value.into_owned())
}

/// Returns the `Set-Cookie` header that signs a browser in.
pub(crate) fn sign_in(token: &str, caller: &Caller) -> HeaderValue {
    set_cookie(SESSION, token, SESSION_SECONDS, caller)
}

/// Returns the `Set-Cookie` header that signs a browser out.
pub(crate) fn sign_out(caller: &Caller) -> HeaderValue {
    set_cookie(SESSION, "", 0, caller)
}

/// Returns the `Set-Cookie` header of a cookie that only this server gets and no script can read.
pub(crate) fn set_cookie(name: &str, value: &str, seconds: u32, caller: &Caller) -> HeaderValue {
    let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
    let secure = if caller.secure { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&text).expect("percent-encoded text is a valid header")
}

/// Returns the text that every form must send back. It cannot be computed without the token, which other sites do not have.
pub(crate) fn form_token(token: &str) -> String {
    let digest = Sha256::new().chain_update(b"bursar dashboard form\0").chain_update(token).finalize();
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(ip: &str) -> Caller {
        Caller { ip: ip.parse().expect("an address"), secure: false }
    }

    #[test]
    fn a_code_signs_in_once_and_only_from_this_machine() {
        let codes = LoginCodes::default();
        let code = codes.issue("token").expect("there is room");
        assert_eq!(codes.take(&code, &caller("10.0.0.1")), None);
        assert_eq!(codes.take("other", &caller("127.0.0.1")), None);
        assert_eq!(codes.take(&code, &caller("::ffff:127.0.0.1")), Some("token".into()));
        assert_eq!(codes.take(&code, &caller("127.0.0.1")), None);
        let issued = (0..100).filter_map(|_| codes.issue("token")).count();
        assert_eq!(issued, CODES_MAX);
    }

    #[test]
    fn a_cookie_survives_a_round_trip() {
        let token = "bop_a.b-c=;\"\u{e9}";
        let set = sign_in(token, &caller("127.0.0.1"));
        let set = set.to_str().expect("ASCII");
        assert!(set.contains("; HttpOnly; SameSite=Strict") && !set.contains("Secure"), "{set}");
        let mut headers = HeaderMap::new();
        let sent = format!("x=1; {}", set.split(';').next().expect("a pair"));
        headers.insert(header::COOKIE, sent.parse().expect("a header"));
        assert_eq!(cookie(&headers, SESSION).as_deref(), Some(token));
        assert_eq!(cookie(&headers, "session"), None);
        let secure = Caller { secure: true, ..caller("127.0.0.1") };
        assert!(sign_in(token, &secure).to_str().expect("ASCII").ends_with("; Secure"));
    }

    #[test]
    fn each_token_has_its_own_form_token() {
        assert_eq!(form_token("a"), form_token("a"));
        assert_ne!(form_token("a"), form_token("b"));
    }
}
