//! The shipped binary has no test code in it.

use std::collections::BTreeSet;

use crate::Problem;
use crate::deps::packages::Package;

/// The package of the shipped binary.
const SHIPPED: &str = "bursar-cli";

/// The packages that only tests may link.
const TEST_KITS: [&str; 5] = ["bursar-fuzz", "bursar-lossy-vfs", "bursar-sim", "bursar-testkit", "proptest"];

/// Reports test kits that the shipped binary links.
pub(super) fn test_kits(packages: &[Package]) -> Vec<Problem> {
    let mut linked = BTreeSet::new();
    let mut next = vec![SHIPPED.to_owned()];
    while let Some(name) = next.pop() {
        let package = packages.iter().find(|package| package.name == name);
        let dependencies = package.into_iter().flat_map(|package| &package.dependencies);
        for dependency in dependencies.filter(|dependency| !dependency.dev) {
            if linked.insert(dependency.package.clone()) {
                next.push(dependency.package.clone());
            }
        }
    }
    let kits = TEST_KITS.iter().filter(|kit| linked.contains(**kit));
    kits.map(|kit| Problem::of(SHIPPED, format!("links {kit}, which is for tests only"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deps::packages::Dependency;

    fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
        let dependency = |(name, dev): &(&str, bool)| Dependency {
            name: name.replace('-', "_"),
            package: (*name).to_owned(),
            dev: *dev,
        };
        Package {
            name: name.to_owned(),
            dependencies: dependencies.iter().map(dependency).collect(),
            ..Package::default()
        }
    }

    #[test]
    fn a_test_kit_behind_another_crate_is_found() {
        let packages = [
            package("bursar-cli", &[("bursar-bench", false), ("proptest", true)]),
            package("bursar-bench", &[("bursar-testkit", false), ("bursar-bench", false)]),
        ];
        let found: Vec<String> = test_kits(&packages).iter().map(Problem::to_string).collect();
        assert_eq!(found, ["bursar-cli: links bursar-testkit, which is for tests only"]);
        assert!(test_kits(&packages[..1]).is_empty());
    }
}
