//! Storage backends: a local directory, or a bucket of an S3-compatible service.

mod http;
mod probe;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path as FilePath, PathBuf};
use std::sync::Arc;

use bursar_core::name::Backend as BackendName;
use object_store::ObjectStore;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;

pub use self::probe::Abilities;
use crate::error::BackendError;

/// The backends that a server knows. New blobs go to the first one; the others serve what they have.
#[derive(Clone, Debug)]
pub struct Backends {
    primary: Backend,
    others: BTreeMap<BackendName, Backend>,
}

/// A storage backend.
#[derive(Clone)]
pub struct Backend {
    name: BackendName,
    place: String,
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The service that signs requests and has parts, if the backend is one.
    pub(crate) s3: Option<Signing>,
    /// The directory, if the backend is a local one.
    pub(crate) directory: Option<PathBuf>,
}

/// What signs requests to a bucket.
#[derive(Clone)]
pub(crate) struct Signing {
    pub(crate) service: Arc<AmazonS3>,
    prefix: Option<String>,
}

impl Signing {
    /// Returns the path of an object in the bucket.
    pub(crate) fn path(&self, object: &Path) -> Path {
        match &self.prefix {
            Some(prefix) => Path::from(format!("{prefix}/{object}")),
            None => object.clone(),
        }
    }
}

/// The settings of an S3-compatible service.
#[derive(Clone, Default)]
pub struct S3Settings {
    /// The bucket.
    pub bucket: String,
    /// The region; `us-east-1` if it is not set, which most services other than AWS accept.
    pub region: Option<String>,
    /// The address of the service; the one of AWS if it is not set.
    pub endpoint: Option<String>,
    /// The id of the access key.
    pub access_key_id: String,
    /// The secret of the access key.
    pub secret_access_key: String,
    /// What the names of all objects begin with, so that several servers can share a bucket.
    pub prefix: Option<String>,
}

impl fmt::Debug for S3Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Settings")
            .field("bucket", &self.bucket)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

/// Why a backend cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadBackend {
    /// The directory has no absolute path.
    #[error("the directory {place} cannot be used for blobs: {source}")]
    Directory {
        /// The directory.
        place: String,
        /// What went wrong.
        source: std::io::Error,
    },
    /// A setting is invalid.
    #[error("the storage backend cannot be used: {0}")]
    Settings(#[from] object_store::Error),
}

/// The name of the backend with a local directory.
pub(crate) const LOCAL: &str = "local";
/// The name of the backend with an S3-compatible service.
pub(crate) const S3: &str = "s3";

impl Backends {
    /// Stores all blobs in a local directory, which the first upload creates.
    pub fn local(directory: impl AsRef<FilePath>) -> Result<Backends, BadBackend> {
        Ok(Backends::of(Backend::local(directory)?))
    }

    /// Stores all blobs in one backend.
    pub fn of(primary: Backend) -> Backends {
        Backends { primary, others: BTreeMap::new() }
    }

    /// Serves and moves blobs that another backend has.
    pub fn and(mut self, other: Backend) -> Backends {
        self.others.insert(other.name.clone(), other);
        self
    }

    /// Returns the backend that gets new blobs.
    pub fn primary(&self) -> &Backend {
        &self.primary
    }

    /// Returns the backend of this name.
    pub fn named(&self, name: &str) -> Option<&Backend> {
        self.all().find(|backend| backend.name.as_str() == name)
    }

    /// Returns all backends, the one for new blobs first.
    pub fn all(&self) -> impl Iterator<Item = &Backend> {
        std::iter::once(&self.primary).chain(self.others.values())
    }
}

impl Backend {
    /// Stores bytes in a local directory, which the first upload creates. Every stored file is synced, and so is its directory.
    pub fn local(directory: impl AsRef<FilePath>) -> Result<Backend, BadBackend> {
        let place = directory.as_ref().display().to_string();
        let absolute = without_parents(directory.as_ref())
            .map_err(|source| BadBackend::Directory { place: place.clone(), source })?;
        let prefix = Path::from_absolute_path(&absolute).map_err(object_store::Error::from)?;
        let files = LocalFileSystem::new().with_fsync(true).with_automatic_cleanup(false);
        let store = Arc::new(PrefixStore::new(files, prefix));
        Ok(Backend { name: name(LOCAL), place, store, s3: None, directory: Some(absolute) })
    }

    /// Opens a bucket. No request is sent yet.
    pub fn s3(settings: &S3Settings) -> Result<Backend, BadBackend> {
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&settings.bucket)
            .with_region(settings.region.as_deref().unwrap_or("us-east-1"))
            .with_access_key_id(&settings.access_key_id)
            .with_secret_access_key(&settings.secret_access_key)
            .with_retry(http::retries())
            .with_http_connector(http::Connector);
        let mut place = format!("bucket {}", settings.bucket);
        if let Some(endpoint) = &settings.endpoint {
            builder = builder.with_endpoint(endpoint).with_allow_http(true).with_virtual_hosted_style_request(false);
            place = format!("{place} at {endpoint}");
        }
        let service = Arc::new(builder.build()?);
        let store: Arc<dyn ObjectStore> = match &settings.prefix {
            Some(prefix) => Arc::new(PrefixStore::new(service.clone(), prefix.as_str())),
            None => service.clone(),
        };
        let s3 = Some(Signing { service, prefix: settings.prefix.clone() });
        Ok(Backend { name: name(S3), place, store, s3, directory: None })
    }

    /// Returns its name, which records of blobs have.
    pub fn name(&self) -> &BackendName {
        &self.name
    }

    /// Returns whether there is anything to try: a bucket, or a directory that an upload has created.
    pub fn exists(&self) -> bool {
        self.directory.as_ref().is_none_or(|directory| directory.exists())
    }

    /// Returns where the bytes are, without secrets.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns a name for the errors of this backend.
    pub(crate) fn failed(&self, source: object_store::Error) -> BackendError {
        BackendError { backend: self.name.as_str().to_owned(), source }
    }

    /// Returns the bytes of a part of an upload of `size` bytes. S3 allows 10,000 parts of at least 5 MiB.
    pub(crate) fn part_bytes(&self, size: Option<u64>) -> usize {
        const MIB: u64 = 1 << 20;
        if self.s3.is_none() {
            return MIB as usize;
        }
        let Some(size) = size else { return 8 * MIB as usize };
        let needed = size.div_ceil(9_999).div_ceil(MIB) * MIB;
        needed.clamp(5 * MIB, 64 * MIB) as usize
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("name", &self.name).field("place", &self.place).finish()
    }
}

fn name(text: &str) -> BackendName {
    BackendName::new(text).expect("the literal is a valid name")
}

/// Returns an absolute path without `..`, which the storage does not accept. A part that does not exist yet is no symbolic link, so the
/// part before it is its parent.
fn without_parents(path: &FilePath) -> std::io::Result<PathBuf> {
    let mut whole = PathBuf::new();
    for part in std::path::absolute(path)?.components() {
        if part == Component::ParentDir {
            whole = whole.canonicalize().unwrap_or(whole);
            whole.pop();
        } else {
            whole.push(part);
        }
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_directory_may_be_named_by_its_parents() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("real/inner")).unwrap();
        std::os::unix::fs::symlink(root.join("real/inner"), root.join("link")).unwrap();
        for (given, meant) in [
            ("a/../blobs", "blobs"),
            ("real/../blobs", "blobs"),
            ("link/../blobs", "real/blobs"),
            ("new/deep/../../blobs", "blobs"),
            ("blobs", "blobs"),
        ] {
            assert_eq!(without_parents(&root.join(given)).unwrap(), root.join(meant), "{given}");
            Backend::local(root.join(given)).unwrap();
        }
    }
}
