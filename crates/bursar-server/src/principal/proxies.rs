//! Trusted proxies: `X-Forwarded-For` is used only if the connection comes from one of them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use axum::http::{HeaderMap, HeaderName};

const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// A network such as `10.0.0.0/8`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// The error for text that is not a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an address such as 10.0.0.7, or a network such as 10.0.0.0/8")]
pub struct BadNetwork;

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Network, BadNetwork> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| BadNetwork)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| BadNetwork)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most { Err(BadNetwork) } else { Ok(Network { address, bits }) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Network {
    fn contains(&self, other: IpAddr) -> bool {
        let same = |one: u128, other: u128, width: u32| {
            let rest = width - u32::from(self.bits);
            rest == width || one >> rest == other >> rest
        };
        match (self.address, other.to_canonical()) {
            (IpAddr::V4(one), IpAddr::V4(other)) => same(one.to_bits().into(), other.to_bits().into(), 32),
            (IpAddr::V6(one), IpAddr::V6(other)) => same(one.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

/// The trusted proxies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proxies(pub(crate) Vec<Network>);

impl Proxies {
    /// Returns the address of the caller: the peer, or the address that a trusted proxy forwards. Of several addresses in the header
    /// it is the last one that is not a trusted proxy; the caller itself may have written those before it.
    pub(crate) fn caller(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.trusts(peer) {
            return peer;
        }
        let values: Vec<&str> = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok()).collect();
        let mut last = peer;
        for name in values.iter().rev().flat_map(|value| value.rsplit(',')) {
            let Some(address) = address(name.trim()) else { return last };
            last = address;
            if !self.trusts(address) {
                break;
            }
        }
        last
    }

    /// Returns whether the caller uses HTTPS, which only a trusted proxy may say.
    pub(crate) fn says_https(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        self.trusts(peer) && headers.get(FORWARDED_PROTO).is_some_and(|scheme| scheme == "https")
    }

    /// Returns whether an address is that of a trusted proxy.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }
}

/// Parses an address with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let inner = text.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(inner, _)| inner);
    let plain = || text.parse().or_else(|_| text.rsplit_once(':').map_or("", |(address, _)| address).parse());
    inner.map_or_else(plain, str::parse).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_parsed() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", "10.200.3.4", "11.0.0.1"),
            ("10.0.0.7", "10.0.0.7", "10.0.0.8"),
            ("0.0.0.0/0", "200.1.1.1", "::1"),
            ("fd00::/8", "fd12::1", "fe80::1"),
            ("::1", "::1", "127.0.0.1"),
            ("127.0.0.0/8", "::ffff:127.0.0.1", "::1"),
        ] {
            let network: Network = text.parse().unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{text} {inside}");
            assert!(!network.contains(outside.parse().unwrap()), "{text} {outside}");
        }
        for bad in ["", "proxy", "10.0.0.0/33", "10.0.0.0/", "::/129", "10.0.0/8"] {
            assert_eq!(bad.parse::<Network>(), Err(BadNetwork), "{bad}");
        }
    }

    #[test]
    fn only_a_trusted_proxy_may_forward_an_address() {
        let proxies = Proxies(vec!["10.0.0.0/8".parse().unwrap()]);
        let caller = |peer: &str, forwarded: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in forwarded {
                headers.append(FORWARDED_FOR, value.parse().unwrap());
            }
            proxies.caller(peer.parse().unwrap(), &headers).to_string()
        };
        assert_eq!(caller("192.0.2.1", &["198.51.100.7"]), "192.0.2.1", "the peer is not trusted");
        assert_eq!(caller("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(caller("10.0.0.1", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(
            caller("10.0.0.1", &["6.6.6.6, 198.51.100.7"]),
            "198.51.100.7",
            "the caller may have written the first address"
        );
        assert_eq!(caller("10.0.0.1", &["6.6.6.6", "198.51.100.7, 10.0.0.2"]), "198.51.100.7");
        assert_eq!(caller("10.0.0.1", &["198.51.100.7:4711"]), "198.51.100.7");
        assert_eq!(caller("10.0.0.1", &["[2001:db8::7]:4711"]), "2001:db8::7");
        assert_eq!(caller("10.0.0.1", &["nonsense"]), "10.0.0.1");
        assert_eq!(caller("10.0.0.1", &["198.51.100.7, nonsense"]), "10.0.0.1");
    }
}
