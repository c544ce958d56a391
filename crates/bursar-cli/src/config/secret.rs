//! Values that are never printed, or not in full.

use std::fmt;

use super::kind::without_password;

/// A secret value. It has no `Display`, and `Debug` hides it.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: &str) -> Secret {
        Secret(text.to_owned())
    }

    /// Returns the secret.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The URL of a database, which may contain a password.
#[derive(Clone)]
pub(crate) struct Database(String);

impl Database {
    pub(crate) fn new(url: &str) -> Database {
        Database(url.to_owned())
    }

    /// Returns the full URL, with the password.
    pub(crate) fn url(&self) -> &str {
        &self.0
    }
}

/// Shows the URL without its password.
impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_password(&self.0))
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
