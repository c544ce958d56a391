//! Where the bytes of blobs are, from the settings.

use std::path::{Path, PathBuf};

use bursar_blobs::{Backend, Backends, Blobs, S3Settings};
use bursar_wire::problem::Problem;

use super::{BlobStorage, Secret, sqlite_path};

/// The directory for blobs of a database that is not a file.
const DIRECTORY_DEFAULT: &str = "bursar-data/blobs";

impl BlobStorage {
    /// Returns the storage for the blobs of a database. Nothing is created or contacted yet.
    pub(crate) fn open(&self, url: &str) -> Result<Blobs, Problem> {
        let failed = |error: bursar_blobs::BadBackend| Problem::invalid("blobs".into(), error.to_string());
        let local = Backend::local(self.directory_for(url)).map_err(failed)?;
        let bucket = self.bucket().map(|settings| Backend::s3(&settings?).map_err(failed)).transpose()?;
        let backends = match (self.in_bucket, bucket) {
            (true, Some(bucket)) => Backends::of(bucket).and(local),
            (false, Some(bucket)) => Backends::of(local).and(bucket),
            (false, None) => Backends::of(local),
            (true, None) => {
                let detail = "blobs.backend is s3, and blobs.s3_bucket is not set; set it, or use local";
                return Err(Problem::invalid("blobs.s3_bucket".into(), detail));
            }
        };
        Ok(Blobs::new(backends))
    }

    fn directory_for(&self, url: &str) -> PathBuf {
        if let Some(directory) = &self.directory {
            return directory.into();
        }
        match sqlite_path(url).and_then(Path::parent) {
            Some(folder) => folder.join("blobs"),
            None => DIRECTORY_DEFAULT.into(),
        }
    }

    fn bucket(&self) -> Option<Result<S3Settings, Problem>> {
        let bucket = self.bucket.clone()?;
        let missing = |name: &str| {
            let detail = format!("blobs.s3_bucket is set, and {name} is not; set it in the environment or in a file");
            Problem::invalid(name.to_owned(), detail)
        };
        let Some(access_key_id) = self.access_key_id.clone() else {
            return Some(Err(missing("blobs.s3_access_key_id")));
        };
        let Some(secret) = self.secret_access_key.as_ref().map(Secret::reveal) else {
            return Some(Err(missing("blobs.s3_secret_access_key")));
        };
        Some(Ok(S3Settings {
            bucket,
            region: self.region.clone(),
            endpoint: self.endpoint.clone(),
            access_key_id,
            secret_access_key: secret.to_owned(),
            prefix: self.prefix.clone(),
        }))
    }
}
