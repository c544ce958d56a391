//! Who a request is charged to.

use std::fmt;
use std::net::IpAddr;

use bursar_core::name::Scope;
use http::header::{self, HeaderMap, HeaderName};
use http::request::Parts;
use sha2::{Digest, Sha256};

/// What the scopes of callers begin with.
pub const SCOPE_PREFIX: &str = "agent:";

/// Says who makes a request.
///
/// Any function from the head of a request will do; see also [`AgentId`], [`ApiKey`], [`ClientIp`], [`FromHeader`] and
/// [`FromExtension`].
pub trait Identify: Send + Sync + 'static {
    /// The caller; `None` for one that does not say who it is.
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

/// Who is charged: a name, and by it the scope of a quota.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller(Scope);

impl Caller {
    /// The caller of a name, which must not be empty, hold control characters or be longer than a scope may be.
    pub fn new(name: &str) -> Result<Caller, BadCaller> {
        let bad = |problem: &str| BadCaller::new("caller", problem);
        if name.is_empty() {
            return Err(bad("must not be empty"));
        }
        let scope = Scope::new(format!("{SCOPE_PREFIX}{name}"));
        scope.map(Caller).map_err(|_| bad("is too long, or holds control characters"))
    }

    /// All that do not say who they are.
    pub fn anonymous() -> Caller {
        Caller::new("anonymous").expect("it is a good name")
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.as_str()[SCOPE_PREFIX.len()..]
    }

    /// The scope of its quota.
    pub fn scope(&self) -> &Scope {
        &self.0
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a request says of its caller makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct BadCaller {
    /// Where it stands.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl BadCaller {
    /// What is wrong, and where.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> BadCaller {
        BadCaller { field: field.into(), problem: problem.into() }
    }
}

/// The header `X-Agent-Id`: an Ed25519 public key of 32 bytes in hexadecimal. Nobody checks here that the caller has the
/// key.
#[derive(Clone, Copy, Debug, Default)]
pub struct AgentId;

/// The header that says which agent it is.
pub const AGENT_ID: HeaderName = HeaderName::from_static("x-agent-id");

impl Identify for AgentId {
    fn identify(&self, head: &Parts) -> Result<Option<Caller>, BadCaller> {
        one(&head.headers, &AGENT_ID)?.map(AgentId::caller).transpose()
    }
}

impl AgentId {
    /// The agent of a key.
    pub fn caller(text: &str) -> Result<Caller, BadCaller> {
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(BadCaller::new(AGENT_ID.as_str(), "must be 32 bytes as 64 hexadecimal digits"));
        }
        // One key is one caller, however it is written.
        Caller::new(&text.to_ascii_lowercase())
    }
}

/// An API key, in a header of its own or as a bearer token. Its digest is the caller's name: the key itself is told to nobody.
#[derive(Clone, Debug)]
pub struct ApiKey(HeaderName);

impl Default for ApiKey {
    fn default() -> ApiKey {
        ApiKey::header(HeaderName::from_static("x-api-key"))
    }
}

impl ApiKey {
    /// The whole of a header.
    pub fn header(name: HeaderName) -> ApiKey {
        ApiKey(name)
    }

    /// `Authorization: Bearer KEY`.
    pub fn bearer() -> ApiKey {
        ApiKey(header::AUTHORIZATION)
    }
}

impl Identify for ApiKey {
    fn identify(&self, head: &Parts) -> Result<Option<Caller>, BadCaller> {
        let Some(text) = one(&head.headers, &self.0)? else { return Ok(None) };
        let key = match self.0 == header::AUTHORIZATION {
            false => text.trim(),
            true => match text.split_once(' ') {
                Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => key.trim(),
                // Another scheme is no API key.
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

/// A header as it is. Only for headers that nobody outside can set, such as one of a proxy that knows its users.
#[derive(Clone, Debug)]
pub struct FromHeader(pub HeaderName);

impl Identify for FromHeader {
    fn identify(&self, head: &Parts) -> Result<Option<Caller>, BadCaller> {
        let Some(text) = one(&head.headers, &self.0)? else { return Ok(None) };
        Caller::new(text).map(Some).map_err(|bad| BadCaller { field: self.0.to_string(), ..bad })
    }
}

/// A [`Caller`] among the extensions of the request: put there by who authenticates.
#[derive(Clone, Copy, Debug, Default)]
pub struct FromExtension;

impl Identify for FromExtension {
    fn identify(&self, head: &Parts) -> Result<Option<Caller>, BadCaller> {
        Ok(head.extensions.get::<Caller>().cloned())
    }
}

/// The address of the client. IPv6 callers are told apart by their networks of 64 bits: whoever has one address has all of those.
#[derive(Clone, Copy, Debug)]
pub struct ClientIp(Address);

#[derive(Clone, Copy, Debug)]
enum Address {
    Extension(fn(&http::Extensions) -> Option<IpAddr>),
    Forwarded(usize),
}

impl ClientIp {
    /// What an extension of the request says, such as the peer of its connection.
    pub fn of_connection(read: fn(&http::Extensions) -> Option<IpAddr>) -> ClientIp {
        ClientIp(Address::Extension(read))
    }

    /// `X-Forwarded-For`, behind so many proxies that each add one address. What stands left of those is anybody's claim.
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

/// The address that the outermost of so many proxies has seen.
fn forwarded(headers: &HeaderMap, proxies: usize) -> Result<Option<IpAddr>, BadCaller> {
    let bad = || BadCaller::new(FORWARDED_FOR.as_str(), "must be a list of IP addresses");
    let mut hops = Vec::new();
    for value in headers.get_all(FORWARDED_FOR) {
        hops.extend(value.to_str().map_err(|_| bad())?.split(',').map(str::trim));
    }
    let Some(place) = hops.len().checked_sub(proxies) else { return Ok(None) };
    let address = hops[place].parse::<IpAddr>();
    let address = address.or_else(|_| hops[place].parse::<std::net::SocketAddr>().map(|address| address.ip()));
    address.map(Some).map_err(|_| bad())
}

/// The one value of a header.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, BadCaller> {
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

    /// Who `identify` finds in a request with these headers.
    fn found(identify: &dyn Identify, headers: &[(&str, &str)]) -> String {
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        match identify.identify(&head) {
            Ok(Some(caller)) => caller.scope().to_string(),
            Ok(None) => "nobody".into(),
            Err(bad) => format!("bad: {bad}"),
        }
    }

    #[test]
    fn an_agent_is_its_public_key_however_it_is_written() {
        let (lower, upper) = ("0a".repeat(32), "0A".repeat(32));
        let shown = |header: &str| found(&AgentId, &[("x-agent-id", header)]);
        assert_eq!(shown(&lower), format!("agent:{lower}"));
        assert_eq!(shown(&upper), format!("agent:{lower}"));
        assert_eq!(found(&AgentId, &[]), "nobody");
        let bad = "bad: x-agent-id must be 32 bytes as 64 hexadecimal digits";
        for text in ["", "0a", &"0a".repeat(33), &"zz".repeat(32), &format!(" {}", "0a".repeat(31)), &"é".repeat(32)] {
            let told = shown(text);
            assert!(told == bad || told == "bad: x-agent-id is not ASCII", "{text:?}: {told}");
        }
        assert_eq!(
            found(&AgentId, &[("x-agent-id", &lower), ("x-agent-id", &lower)]),
            "bad: x-agent-id is given twice"
        );
    }

    #[test]
    fn an_api_key_is_known_by_its_digest_alone() {
        let own = found(&ApiKey::default(), &[("x-api-key", "secret")]);
        assert_eq!(own, "agent:key:2bb80d537b1da3e38bd30361aa855686");
        assert_eq!(found(&ApiKey::bearer(), &[("authorization", "Bearer secret")]), own);
        assert_eq!(found(&ApiKey::bearer(), &[("authorization", "Basic secret")]), "nobody");
        assert_eq!(found(&ApiKey::default(), &[("x-api-key", " ")]), "bad: x-api-key must not be empty");
    }

    #[test]
    fn a_client_is_its_address_and_ipv6_its_network() {
        let behind = |hops: &str, proxies| found(&ClientIp::behind_proxies(proxies), &[("x-forwarded-for", hops)]);
        assert_eq!(behind("10.0.0.1", 1), "agent:ip:10.0.0.1");
        assert_eq!(behind("6.6.6.6, 10.0.0.1", 1), "agent:ip:10.0.0.1");
        assert_eq!(behind("6.6.6.6, 10.0.0.1, 10.0.0.2", 2), "agent:ip:10.0.0.1");
        assert_eq!(behind("10.0.0.1", 2), "nobody");
        assert_eq!(behind("2001:db8:1:2:3:4:5:6", 1), "agent:ip:2001:db8:1:2::/64");
        assert_eq!(behind("[2001:db8:1:2::9]:443", 1), "agent:ip:2001:db8:1:2::/64");
        assert_eq!(behind("::ffff:10.0.0.1", 1), "agent:ip:10.0.0.1");
        assert_eq!(behind("unknown", 1), "bad: x-forwarded-for must be a list of IP addresses");
    }

    #[test]
    fn names_are_bounded() {
        let header = FromHeader(HeaderName::from_static("x-user"));
        assert_eq!(found(&header, &[("x-user", "alice")]), "agent:alice");
        let long = "x".repeat(250);
        assert_eq!(found(&header, &[("x-user", &long)]), "bad: x-user is too long, or holds control characters");
        assert_eq!(found(&header, &[("x-user", "")]), "bad: x-user must not be empty");
        assert_eq!(found(&FromExtension, &[]), "nobody");
        let by_hand = |_: &Parts| Ok(Some(Caller::new("me").unwrap()));
        assert_eq!(found(&by_hand, &[]), "agent:me");
    }
}
