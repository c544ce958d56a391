//! The caller that a request is charged to, and the ways to identify it.

use std::fmt;
use std::net::IpAddr;

use bursar_core::name::Scope;
use http::header::{self, HeaderMap, HeaderName};
use http::request::Parts;
use sha2::{Digest, Sha256};

/// The prefix of callers' scopes.
pub const SCOPE_PREFIX: &str = "agent:";

/// Identifies the caller of a request.
///
/// Implemented for functions of the request's head, and for [`AgentId`], [`ApiKey`], [`ClientIp`], [`FromHeader`] and
/// [`FromExtension`].
pub trait Identify: Send + Sync + 'static {
    /// Returns the caller; `None` if the request is anonymous. Fails if what identifies the caller is malformed.
    fn identify(&self, head: &Parts) -> Result<Option<Caller>, BadCaller>;
}

impl<F> Identify for F
where
    F: Fn(&Parts) -> Result<Option<Caller>, BadCaller> + Send + Sync + 'static,
{
    fn identify(&self, head: &Parts) -> Result<Option<Caller>, BadCaller> {
        self(head)
    }
}

/// The caller that is charged: a name, and with it the scope of a quota, `agent:NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller(Scope);

impl Caller {
    /// Creates a caller with a name of 1 to 249 bytes without control characters.
    pub fn new(name: &str) -> Result<Caller, BadCaller> {
        let bad = |problem: &str| BadCaller::new("caller", problem);
        if name.is_empty() {
            return Err(bad("must not be empty"));
        }
        let scope = Scope::new(format!("{SCOPE_PREFIX}{name}"));
        scope.map(Caller).map_err(|_| bad("is too long, or holds control characters"))
    }

    /// Returns the caller that all anonymous requests share.
    pub fn anonymous() -> Caller {
        Caller::new("anonymous").expect("the name is valid")
    }

    /// Returns the name of the caller.
    pub fn name(&self) -> &str {
        &self.0.as_str()[SCOPE_PREFIX.len()..]
    }

    /// Returns the scope of the caller's quota.
    pub fn scope(&self) -> &Scope {
        &self.0
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error of a request whose caller cannot be identified because a header is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct BadCaller {
    /// The header or field.
    pub field: String,
    /// What is wrong with it, as a phrase that follows the name of the field.
    pub problem: String,
}

impl BadCaller {
    /// Creates an error from a field and what is wrong with it.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> BadCaller {
        BadCaller { field: field.into(), problem: problem.into() }
    }
}

/// Identifies callers by the header `X-Agent-Id`: an Ed25519 public key of 32 bytes in hexadecimal. This does not verify
/// that the caller owns the key.
#[derive(Clone, Copy, Debug, Default)]
pub struct AgentId;

/// The header with the public key of an agent.
pub const AGENT_ID: HeaderName = HeaderName::from_static("x-agent-id");

impl Identify for AgentId {
    fn identify(&self, head: &Parts) -> Result<Option<Caller>, BadCaller> {
        single_value(&head.headers, &AGENT_ID)?.map(AgentId::caller).transpose()
    }
}

impl AgentId {
    /// Returns the caller with a public key in hexadecimal, in either case.
    pub fn caller(text: &str) -> Result<Caller, BadCaller> {
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(BadCaller::new(AGENT_ID.as_str(), "must be 32 bytes as 64 hexadecimal digits"));
        }
        // The same key in upper and lower case is the same caller.
        Caller::new(&text.to_ascii_lowercase())
    }
}

/// Identifies callers by an API key, in a header of its own or as a bearer token. The caller's name is a digest of the key;
/// the key itself is not stored. This does not verify that the key was issued.
#[derive(Clone, Debug)]
pub struct ApiKey(HeaderName);

impl Default for ApiKey {
    fn default() -> ApiKey {
        ApiKey::header(HeaderName::from_static("x-api-key"))
    }
}

impl ApiKey {
    /// Uses the whole value of a header.
    pub fn header(name: HeaderName) -> ApiKey {
        ApiKey(name)
    }

    /// Uses `Authorization: Bearer KEY`. Other schemes are treated as anonymous.
    pub fn bearer() -> ApiKey {
        ApiKey(header::AUTHORIZATION)
    }
}

impl Identify for ApiKey {
    fn identify(&self, head: &Parts) -> Result<Option<Caller>, BadCaller> {
        let Some(text) = single_value(&head.headers, &self.0)? else { return Ok(None) };
        let key = match self.0 == header::AUTHORIZATION {
            false => text.trim(),
            true => match text.split_once(' ') {
                Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => key.trim(),
                // Another scheme has no API key.
                _ => return Ok(None),
            },
        };
        if key.is_empty() {
            return Err(BadCaller::new(self.0.as_str(), "must not be empty"));
        }
        let digest = Sha256::digest(key);
        let name: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        Caller::new(&format!("key:{name}")).map(Some)
    }
}

/// Identifies callers by the value of a header. Use it only for a header that clients cannot set themselves, such as one
/// that an authenticating proxy sets.
#[derive(Clone, Debug)]
pub struct FromHeader(pub HeaderName);

impl Identify for FromHeader {
    fn identify(&self, head: &Parts) -> Result<Option<Caller>, BadCaller> {
        let Some(text) = single_value(&head.headers, &self.0)? else { return Ok(None) };
        Caller::new(text).map(Some).map_err(|bad| BadCaller { field: self.0.to_string(), ..bad })
    }
}

/// Identifies callers by a [`Caller`] in the extensions of the request, which the application's authentication adds.
#[derive(Clone, Copy, Debug, Default)]
pub struct FromExtension;

impl Identify for FromExtension {
    fn identify(&self, head: &Parts) -> Result<Option<Caller>, BadCaller> {
        Ok(head.extensions.get::<Caller>().cloned())
    }
}

/// Identifies callers by the IP address of the client. An IPv6 caller is its /64 network, because a client usually
/// controls all addresses of one.
#[derive(Clone, Copy, Debug)]
pub struct ClientIp(Address);

#[derive(Clone, Copy, Debug)]
enum Address {
    Extension(fn(&http::Extensions) -> Option<IpAddr>),
    Forwarded(usize),
}

impl ClientIp {
    /// Reads the address from an extension of the request, such as the peer address of its connection.
    pub fn of_connection(read: fn(&http::Extensions) -> Option<IpAddr>) -> ClientIp {
        ClientIp(Address::Extension(read))
    }

    /// Reads the address from `X-Forwarded-For`, behind a number of trusted proxies that each append one address.
    /// Addresses further to the left can be forged by clients and are ignored.
    pub fn behind_proxies(proxies: usize) -> ClientIp {
        ClientIp(Address::Forwarded(proxies.max(1)))
    }
}

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

impl Identify for ClientIp {
    fn identify(&self, head: &Parts) -> Result<Option<Caller>, BadCaller> {
        let address = match self.0 {
            Address::Extension(read) => read(&head.extensions),
            Address::Forwarded(proxies) => forwarded(&head.headers, proxies)?,
        };
        let Some(address) = address else { return Ok(None) };
        let name = match address.to_canonical() {
            IpAddr::V4(address) => format!("ip:{address}"),
            IpAddr::V6(address) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                format!("ip:{}/64", std::net::Ipv6Addr::from_bits(network))
            }
        };
        Caller::new(&name).map(Some)
    }
}

/// Returns the client address that the outermost of the trusted proxies appended.
fn forwarded(headers: &HeaderMap, proxies: usize) -> Result<Option<IpAddr>, BadCaller> {
    let bad = || BadCaller::new(FORWARDED_FOR.as_str(), "must be a list of IP addresses");
    let mut hops = Vec::new();
    for value in headers.get_all(FORWARDED_FOR) {
        hops.extend(value.to_str().map_err(|_| bad())?.split(',').map(str::trim));
    }
    let Some(index) = hops.len().checked_sub(proxies) else { return Ok(None) };
    let address = hops[index].parse::<IpAddr>();
    let address = address.or_else(|_| hops[index].parse::<std::net::SocketAddr>().map(|address| address.ip()));
    address.map(Some).map_err(|_| bad())
}

/// Returns the value of a header that may occur once.
fn single_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, BadCaller> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(BadCaller::new(name.as_str(), "is given twice"));
    }
    value.to_str().map(Some).map_err(|_| BadCaller::new(name.as_str(), "is not ASCII"))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    /// Returns the scope of the caller that `identify` finds in a request with these headers.
    fn found(identify: &dyn Identify, headers: &[(&str, &str)]) -> String {
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        match identify.identify(&head) {
            Ok(Some(caller)) => caller.scope().to_string(),
            Ok(None) => "anonymous".into(),
            Err(bad) => format!("bad: {bad}"),
        }
    }

    #[test]
    fn an_agent_is_identified_by_its_public_key_in_either_case() {
        let (lower, upper) = ("0a".repeat(32), "0A".repeat(32));
        let agent = |header: &str| found(&AgentId, &[("x-agent-id", header)]);
        assert_eq!(agent(&lower), format!("agent:{lower}"));
        assert_eq!(agent(&upper), format!("agent:{lower}"));
        assert_eq!(found(&AgentId, &[]), "anonymous");
        let bad = "bad: x-agent-id must be 32 bytes as 64 hexadecimal digits";
        for text in ["", "0a", &"0a".repeat(33), &"zz".repeat(32), &format!(" {}", "0a".repeat(31)), &"é".repeat(32)] {
            let answer = agent(text);
            assert!(answer == bad || answer == "bad: x-agent-id is not ASCII", "{text:?}: {answer}");
        }
        assert_eq!(
            found(&AgentId, &[("x-agent-id", &lower), ("x-agent-id", &lower)]),
            "bad: x-agent-id is given twice"
        );
    }

    #[test]
    fn an_api_key_is_identified_by_its_digest() {
        let caller = found(&ApiKey::default(), &[("x-api-key", "secret")]);
        assert_eq!(caller, "agent:key:2bb80d537b1da3e38bd30361aa855686");
        assert_eq!(found(&ApiKey::bearer(), &[("authorization", "Bearer secret")]), caller);
        assert_eq!(found(&ApiKey::bearer(), &[("authorization", "Basic secret")]), "anonymous");
        assert_eq!(found(&ApiKey::default(), &[("x-api-key", " ")]), "bad: x-api-key must not be empty");
    }

    #[test]
    fn a_client_is_identified_by_ipv4_address_or_ipv6_network() {
        let behind = |hops: &str, proxies| found(&ClientIp::behind_proxies(proxies), &[("x-forwarded-for", hops)]);
        assert_eq!(behind("10.0.0.1", 1), "agent:ip:10.0.0.1");
        assert_eq!(behind("6.6.6.6, 10.0.0.1", 1), "agent:ip:10.0.0.1");
        assert_eq!(behind("6.6.6.6, 10.0.0.1, 10.0.0.2", 2), "agent:ip:10.0.0.1");
        assert_eq!(behind("10.0.0.1", 2), "anonymous");
        assert_eq!(behind("2001:db8:1:2:3:4:5:6", 1), "agent:ip:2001:db8:1:2::/64");
        assert_eq!(behind("[2001:db8:1:2::9]:443", 1), "agent:ip:2001:db8:1:2::/64");
        assert_eq!(behind("::ffff:10.0.0.1", 1), "agent:ip:10.0.0.1");
        assert_eq!(behind("unknown", 1), "bad: x-forwarded-for must be a list of IP addresses");
    }

    #[test]
    fn caller_names_are_limited_to_valid_scopes() {
        let header = FromHeader(HeaderName::from_static("x-user"));
        assert_eq!(found(&header, &[("x-user", "alice")]), "agent:alice");
        let long = "x".repeat(250);
        assert_eq!(found(&header, &[("x-user", &long)]), "bad: x-user is too long, or holds control characters");
        assert_eq!(found(&header, &[("x-user", "")]), "bad: x-user must not be empty");
        assert_eq!(found(&FromExtension, &[]), "anonymous");
        let by_hand = |_: &Parts| Ok(Some(Caller::new("me").unwrap()));
        assert_eq!(found(&by_hand, &[]), "agent:me");
    }
}
