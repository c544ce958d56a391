//! Names that resemble one that does not exist.

/// Formats the suggestion to add to a sentence.
pub fn question(similar: Option<&str>) -> String {
    similar.map(|similar| format!("; did you mean {similar}?")).unwrap_or_default()
}

/// Returns the most similar name, if one is similar enough: a few letters differ, or only the part before the last `:` or `/` is missing.
pub fn to<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let differing_max = match name.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        6..=9 => 2,
        _ => 3,
    };
    let lower = name.to_lowercase();
    let distance = |known: &str| match known.rsplit_once([':', '/']) {
        Some((_, last)) if last.eq_ignore_ascii_case(name) => 0,
        _ => strsim::osa_distance(&lower, &known.to_lowercase()),
    };
    let near = known.filter(|known| *known != name).map(|known| (distance(known), known));
    near.filter(|(distance, _)| *distance <= differing_max).min().map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::to;

    #[test]
    fn only_similar_names_are_suggested() {
        let known = ["agent:scout", "media", "org:acme", "red", "Reports", "Europe/Berlin"];
        for (name, expected) in [
            ("medai", Some("media")),
            ("medi", Some("media")),
            ("MEDIA", Some("media")),
            ("reports", Some("Reports")),
            ("org:acm", Some("org:acme")),
            ("agent:scuot", Some("agent:scout")),
            ("scout", Some("agent:scout")),
            ("berlin", Some("Europe/Berlin")),
            ("Europe/Berln", Some("Europe/Berlin")),
            ("rd", None),
            ("nope", None),
            ("media", None),
        ] {
            assert_eq!(to(name, known.into_iter()), expected, "{name}");
        }
    }
}
