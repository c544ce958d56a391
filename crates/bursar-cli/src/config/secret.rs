//! Values that are never printed, or not as a whole.

use std::fmt;

use super::kind::without_password;

/// A value that is never printed: it has no text form but the one that is asked for by name.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: &str) -> Secret {
        Secret(text.to_owned())
    }

    /// The value, for whoever needs it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The address of a database, which may have a password in it.
#[derive(Clone)]
pub(crate) struct Database(String);

impl Database {
    pub(crate) fn new(url: &str) -> Database {
        Database(url.to_owned())
    }

    /// The whole address, for whoever connects.
    pub(crate) fn url(&self) -> &str {
        &self.0
    }
}

/// Without its password.
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
