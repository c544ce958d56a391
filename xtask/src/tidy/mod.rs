//! Rules for sources and documents.

mod bounds;
mod circles;
mod commands;
mod dead;
mod duplicates;
mod errors;
mod guarantees;
mod links;
mod snippets;
mod source;
mod wording;

use crate::Problem;
use crate::tree::Tree;

/// All rules, in the order of their reports.
const RULES: [fn(&Tree) -> Vec<Problem>; 16] = [
    source::long_files,
    source::long_functions,
    source::leftovers,
    source::silenced,
    source::machine_paths,
    source::stray_whitespace,
    dead::unnamed_files,
    duplicates::duplicate_types,
    circles::import_circles,
    wording::vague_words,
    links::broken_links,
    snippets::outdated_snippets,
    commands::untested_commands,
    guarantees::untested_guarantees,
    bounds::undocumented_bounds,
    errors::undocumented_errors,
];

/// Returns all problems.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    RULES.iter().flat_map(|rule| rule(tree)).collect()
}
