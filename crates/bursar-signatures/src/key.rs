//! Public keys in hexadecimal.

use std::fmt;
use std::str::FromStr;

use crate::error::BadKey;

/// An Ed25519 public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PublicKey(pub [u8; 32]);

impl FromStr for PublicKey {
    type Err = BadKey;

    /// Parses 64 hexadecimal digits in either case.
    fn from_str(text: &str) -> Result<PublicKey, BadKey> {
        parse_hex(text).map(PublicKey)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Parses 32 bytes as 64 hexadecimal digits.
pub(crate) fn parse_hex(text: &str) -> Result<[u8; 32], BadKey> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return Err(BadKey);
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(bytes)
}

fn digit(character: u8) -> Result<u8, BadKey> {
    match character {
        b'0'..=b'9' => Ok(character - b'0'),
        b'a'..=b'f' => Ok(character - b'a' + 10),
        b'A'..=b'F' => Ok(character - b'A' + 10),
        _ => Err(BadKey),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_back_and_other_texts_are_refused() {
        let key = PublicKey(std::array::from_fn(|place| place as u8 * 7));
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!(key.to_string().to_uppercase().parse(), Ok(key));
        for text in ["", "0", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(text.parse::<PublicKey>(), Err(BadKey), "{text:?}");
        }
    }
}
