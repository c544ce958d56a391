//! Packages from `cargo metadata`, and the rules for them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::Problem;
use crate::deps::problem;

/// A package of the lock file.
#[derive(Clone, Debug, Default)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) licence: Option<String>,
    /// The registry or repository; `None` for a path.
    pub(super) source: Option<String>,
    /// The folder of a workspace member, relative to the root.
    pub(super) folder: Option<String>,
    pub(super) dependencies: Vec<Dependency>,
}

/// A dependency of a package.
#[derive(Clone, Debug)]
pub(super) struct Dependency {
    /// Its name in code.
    pub(super) name: String,
    /// The name of its package.
    pub(super) package: String,
    /// Whether only tests and examples need it.
    pub(super) dev: bool,
}

const CRATES_IO: [&str; 2] =
    ["registry+https://github.com/rust-lang/crates.io-index", "sparse+https://index.crates.io/"];

/// Banned packages and the reasons.
const BANNED: [(&str, &str); 5] = [
    ("openssl", "TLS is rustls: there is no C library to install or patch"),
    ("openssl-sys", "TLS is rustls: there is no C library to install or patch"),
    ("native-tls", "TLS is rustls on every platform"),
    ("aws-lc-sys", "rustls uses ring here: the build needs no cmake"),
    ("async-std", "the runtime is tokio"),
];

/// Packages that other packages may use, and this workspace may not.
const NOT_OURS: [(&str, &str); 1] = [("chrono", "jiff is the library for time; object_store brings it")];

/// Crates with several incompatible versions, and the reasons.
const DUPLICATES: [(&str, &str); 14] = [
    ("atoi", "s3s, which only tests use, has 3, and sqlx 2"),
    ("base64", "object_store uses 0.23"),
    ("bitflags", BITS),
    ("embedded-io", BITS),
    ("block-buffer", SHA2),
    ("cpufeatures", SHA2),
    ("crypto-common", SHA2),
    ("digest", SHA2),
    ("sha2", SHA2),
    ("getrandom", "ring still uses 0.2"),
    ("hashbrown", "hashlink, a dependency of sqlx and rusqlite, still uses 0.16"),
    ("spin", "a dependency of object_store uses 0.10, and one of sqlx 0.9"),
    ("syn", "derive macros are moving from 2 to 3; none of it is in the binary"),
    ("windows-sys", "ring still uses 0.52; it is not built on Linux"),
];

const BITS: &str = "postcard names it for embedded devices: it is in the lock file but never built";
const SHA2: &str = "sqlx still uses sha2 0.10 and its dependencies";

pub(super) fn read(metadata: &Value) -> Result<Vec<Package>, String> {
    let root = format!("{}/", text(metadata, "workspace_root")?);
    let members: BTreeSet<&str> =
        metadata["workspace_members"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no packages")?;
    packages
        .iter()
        .map(|package| {
            let manifest = text(package, "manifest_path")?;
            let folder = manifest.trim_end_matches("/Cargo.toml");
            let own = members.contains(text(package, "id")?);
            Ok(Package {
                name: text(package, "name")?.to_owned(),
                version: text(package, "version")?.to_owned(),
                licence: package["license"].as_str().map(str::to_owned),
                source: package["source"].as_str().map(str::to_owned),
                folder: own.then(|| folder.trim_start_matches(&root).to_owned()),
                dependencies: package["dependencies"].as_array().into_iter().flatten().filter_map(dependency).collect(),
            })
        })
        .collect()
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str, String> {
    value[field].as_str().ok_or_else(|| format!("cargo metadata has no {field}"))
}

fn dependency(value: &Value) -> Option<Dependency> {
    let package = value["name"].as_str()?;
    let name = value["rename"].as_str().unwrap_or(package);
    Some(Dependency { name: name.replace('-', "_"), package: package.to_owned(), dev: value["kind"] == "dev" })
}

/// Reports packages that are neither from crates.io nor from this workspace.
pub(super) fn sources(packages: &[Package]) -> Vec<Problem> {
    let known = |package: &&Package| match &package.source {
        None => package.folder.is_some(),
        Some(source) => CRATES_IO.contains(&source.as_str()),
    };
    let others = packages.iter().filter(|package| !known(package));
    others
        .map(|package| problem(package, format!("comes from {}", package.source.as_deref().unwrap_or("a path"))))
        .collect()
}

/// Reports banned packages.
pub(super) fn banned(packages: &[Package]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in packages {
        let reasons = BANNED.iter().filter(|(name, _)| *name == package.name);
        problems.extend(reasons.map(|(_, reason)| problem(package, format!("is banned: {reason}"))));
        let own = package.dependencies.iter().filter(|_| package.folder.is_some());
        for dependency in own {
            let reasons = NOT_OURS.iter().filter(|(name, _)| *name == dependency.package);
            problems.extend(reasons.map(|(name, reason)| problem(package, format!("must not use {name}: {reason}"))));
        }
    }
    problems
}

/// Reports crates with several incompatible versions.
pub(super) fn duplicates(packages: &[Package]) -> Vec<Problem> {
    duplicates_except(packages, &DUPLICATES)
}

fn duplicates_except(packages: &[Package], accepted: &[(&str, &str)]) -> Vec<Problem> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().insert(compatible(&package.version));
    }
    versions.retain(|_, versions| versions.len() > 1);
    let mut problems = Vec::new();
    for (name, versions) in &versions {
        if !accepted.iter().any(|(known, _)| known == name) {
            let versions: Vec<&str> = versions.iter().copied().collect();
            problems.push(Problem::of(
                name,
                format!("has the versions {}: use one, or add it to DUPLICATES with a reason", versions.join(" and ")),
            ));
        }
    }
    let stale = accepted.iter().filter(|(name, _)| !versions.contains_key(name));
    problems.extend(stale.map(|(name, _)| Problem::of(name, "has one version now: remove it from DUPLICATES")));
    problems
}

/// Returns the part of a version that compatible versions share.
fn compatible(version: &str) -> &str {
    let end = |parts: usize| version.match_indices('.').nth(parts - 1).map_or(version.len(), |(place, _)| place);
    match version {
        version if version.starts_with("0.0.") => version,
        version if version.starts_with("0.") => &version[..end(2)],
        version => &version[..end(1)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, source: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            source: source.map(str::to_owned),
            ..Package::default()
        }
    }

    fn texts(problems: &[Problem]) -> Vec<String> {
        problems.iter().map(Problem::to_string).collect()
    }

    #[test]
    fn metadata_is_parsed() {
        let metadata = serde_json::json!({
            "workspace_root": "/x", "workspace_members": ["own"],
            "packages": [{
                "id": "own", "name": "own", "version": "0.1.0", "license": "MIT", "source": null,
                "manifest_path": "/x/crates/own/Cargo.toml",
                "dependencies": [
                    { "name": "serde-json", "rename": null, "kind": null },
                    { "name": "long-name", "rename": "short", "kind": "dev" }
                ]
            }, {
                "id": "needed", "name": "needed", "version": "1.0.0", "manifest_path": "/y/Cargo.toml", "source": "far"
            }]
        });
        let packages = read(&metadata).unwrap();
        assert_eq!(packages.iter().map(|package| package.name.as_str()).collect::<Vec<_>>(), ["own", "needed"]);
        assert_eq!((packages[1].folder.as_deref(), packages[1].source.as_deref()), (None, Some("far")));
        assert_eq!(packages[0].folder.as_deref(), Some("crates/own"));
        let names: Vec<(&str, bool)> = packages[0].dependencies.iter().map(|d| (d.name.as_str(), d.dev)).collect();
        assert_eq!(names, [("serde_json", false), ("short", true)]);
        assert!(read(&serde_json::json!({})).is_err());
    }

    #[test]
    fn a_package_from_another_source_is_found() {
        let own = Package { folder: Some("own".into()), ..package("own", "0.1.0", None) };
        let packages = [
            own,
            package("a", "1.0.0", Some(CRATES_IO[0])),
            package("b", "1.0.0", Some("git+https://example.org/b")),
            package("c", "1.0.0", None),
        ];
        assert_eq!(
            texts(&sources(&packages)),
            ["b 1.0.0: comes from git+https://example.org/b", "c 1.0.0: comes from a path"]
        );
    }

    #[test]
    fn a_package_that_only_others_may_use_is_found() {
        let dependency = Dependency { name: "chrono".to_owned(), package: "chrono".to_owned(), dev: false };
        let ours = Package {
            folder: Some("a".to_owned()),
            dependencies: vec![dependency.clone()],
            ..package("a", "0.1.0", None)
        };
        let other = Package { dependencies: vec![dependency], ..package("b", "0.1.0", None) };
        let found = texts(&banned(&[ours, other]));
        assert_eq!(found, ["a 0.1.0: must not use chrono: jiff is the library for time; object_store brings it"]);
    }

    #[test]
    fn a_banned_package_is_found() {
        let found = texts(&banned(&[package("openssl", "0.10.1", None), package("rustls", "0.23.0", None)]));
        assert_eq!(found, ["openssl 0.10.1: is banned: TLS is rustls: there is no C library to install or patch"]);
    }

    #[test]
    fn incompatible_versions_are_found() {
        let packages = ["1.0.0", "1.9.0", "2.0.0"].map(|version| package("a", version, None));
        assert_eq!(
            texts(&duplicates_except(&packages, &[])),
            ["a: has the versions 1 and 2: use one, or add it to DUPLICATES with a reason"]
        );
        assert!(duplicates_except(&packages, &[("a", "reason")]).is_empty());
        assert!(duplicates_except(&packages[..2], &[]).is_empty());
        assert_eq!(
            texts(&duplicates_except(&packages[..2], &[("a", "reason")])),
            ["a: has one version now: remove it from DUPLICATES"]
        );
        assert_eq!(["0.0.1", "0.1.2", "12.3.4"].map(compatible), ["0.0.1", "0.1", "12"]);
    }
}
