//! What sources and documents must keep to.

mod bounds;
mod commands;
mod dead;
mod errors;
mod guarantees;
mod links;
mod snippets;
mod source;

use crate::Problem;
use crate::tree::Tree;

/// Every rule, in the order in which a reader would look for it.
const RULES: [fn(&Tree) -> Vec<Problem>; 13] = [
    source::long_files,
    source::long_functions,
    source::leftovers,
    source::silenced,
    source::machine_paths,
    source::stray_blanks,
    dead::unnamed_files,
    links::broken_links,
    snippets::untrue_snippets,
    commands::unreasoned,
    guarantees::unproven,
    bounds::untold,
    errors::untold,
];

/// Everything that is not as it should be.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    RULES.iter().flat_map(|rule| rule(tree)).collect()
}
