//! The signature base (RFC 9421, section 2.5): the text that is signed.

use http::header::{HOST, HeaderMap, HeaderName};
use http::{Method, Uri};

use crate::structured::{Parameters, list_text};

/// The parts of a request's head that can be signed.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The method.
    pub method: &'a Method,
    /// The target: absolute, or a path with a query.
    pub uri: &'a Uri,
    /// The headers.
    pub headers: &'a HeaderMap,
}

impl<'a> Head<'a> {
    /// Returns the parts of a head.
    pub fn of(parts: &'a http::request::Parts) -> Head<'a> {
        Head { method: &parts.method, uri: &parts.uri, headers: &parts.headers }
    }

    /// Returns the host that the request names, in lower case, with its port unless it is the default one of a known scheme.
    pub(crate) fn authority(&self) -> Option<String> {
        let authority = match self.uri.authority() {
            Some(authority) => match (authority.port_u16(), self.uri.scheme_str()) {
                (None, _) | (Some(80), Some("http")) | (Some(443), Some("https")) => authority.host().to_owned(),
                (Some(port), _) => format!("{}:{port}", authority.host()),
            },
            None => single(self.headers, &HOST)?.to_owned(),
        };
        Some(authority.to_ascii_lowercase())
    }

    /// Returns the value of a component; `None` if the request does not have it, or it is not supported.
    fn component(&self, name: &str) -> Option<String> {
        match name {
            "@method" => Some(self.method.as_str().to_owned()),
            "@authority" => self.authority(),
            "@path" => Some(match self.uri.path() {
                "" => "/".to_owned(),
                path => path.to_owned(),
            }),
            "@query" => Some(format!("?{}", self.uri.query().unwrap_or_default())),
            _ if name.starts_with('@') || name.bytes().any(|letter| letter.is_ascii_uppercase()) => None,
            _ => {
                let mut values = Vec::new();
                for value in self.headers.get_all(HeaderName::from_bytes(name.as_bytes()).ok()?) {
                    values.push(value.to_str().ok()?.trim_matches([' ', '\t']));
                }
                (!values.is_empty()).then(|| values.join(", "))
            }
        }
    }
}

/// Returns the value of a header that occurs once and is ASCII.
pub(crate) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Returns the text to sign, or the name of the first component that the request does not have.
pub(crate) fn base(head: Head<'_>, components: &[String], parameters: &Parameters) -> Result<String, String> {
    let mut text = String::new();
    for name in components {
        let value = head.component(name).ok_or_else(|| name.clone())?;
        text.push_str(&format!("\"{name}\": {value}\n"));
    }
    text.push_str("\"@signature-params\": ");
    text.push_str(&list_text(components.iter().map(String::as_str), parameters));
    Ok(text)
}

/// Returns the text that a member of `Signature-Input` signs in a request, for the comparison with other implementations. `None` if the
/// member cannot be parsed, or the request lacks a component.
pub fn signature_base(head: Head<'_>, label: &str, signature_input: &str) -> Option<String> {
    let members = crate::structured::parse_dictionary(signature_input).ok()?;
    let member = members.into_iter().find(|(name, _)| name == label)?.1;
    let components = crate::verify::components(&member).ok()?;
    base(head, &components, &member.parameters).ok()
}
