//! The files of the project.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// All files by path from the root, with forward slashes. Binary files are empty.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: BTreeMap<String, String>,
}

/// Folders created by tools.
const SKIPPED: [&str; 4] = ["target", "data", "bursar-data", "node_modules"];

impl Tree {
    /// Reads all files below `root` except hidden and generated ones. `.ci` is the only hidden folder of the project.
    pub(crate) fn load(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree::default();
        tree.read(root, "")?;
        Ok(tree)
    }

    fn read(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if (name.starts_with('.') && name != ".ci") || SKIPPED.contains(&name.as_str()) {
                continue;
            }
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                self.read(&entry.path(), &format!("{path}/"))?;
            } else {
                let bytes = std::fs::read(entry.path())?;
                self.files.insert(path, String::from_utf8(bytes).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Returns whether a file or a folder has this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let below = format!("{path}/");
        path.is_empty() || self.files.contains_key(path) || self.files.keys().any(|file| file.starts_with(&below))
    }

    /// Returns the files whose names end with `end`.
    pub(crate) fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with(end))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Returns the text of a file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }
}

/// Resolves `path`, with `.` and `..`, from the folder of `from`.
pub(crate) fn resolve(from: &str, path: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
pub(crate) fn tree<const N: usize>(files: [(&str, &str); N]) -> Tree {
    Tree { files: files.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_resolve_from_the_folder_of_the_file() {
        assert_eq!(resolve("docs/a.md", "b.md"), "docs/b.md");
        assert_eq!(resolve("docs/a.md", "../README.md"), "README.md");
        assert_eq!(resolve("README.md", "./docs/"), "docs");
    }

    #[test]
    fn a_folder_exists_if_it_has_files() {
        let tree = tree([("docs/a.md", "")]);
        assert!(tree.has("docs") && tree.has("docs/") && tree.has("docs/a.md"));
        assert!(!tree.has("doc") && !tree.has("docs/b.md"));
    }
}
