//! A misspelled name and the known name that was meant.

/// The known name that `name` was most likely meant to be: one within few edits, fewer for short names.
pub fn near_miss<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let distances = known.into_iter().map(|known| (strsim::osa_distance(name, known), known));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    let edits_max = (nearest.len() / 3).clamp(1, 2);
    (distance <= edits_max).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] = ["data-dir", "durability", "listen", "seed", "key", "tls-cert"];

    #[test]
    fn few_edits_are_a_misspelling_and_many_another_name() {
        let meant = |name| near_miss(name, KNOWN);
        assert_eq!(meant("datadir"), Some("data-dir"));
        assert_eq!(meant("durabilty"), Some("durability"));
        assert_eq!(meant("durabiltiy"), Some("durability"));
        assert_eq!(meant("listen-on"), None);
        assert_eq!(meant("listenon"), Some("listen"));
        assert_eq!(meant("seeds"), Some("seed"));
        for other in ["replicas", "image-tag", "home", "url", "version", "d", ""] {
            assert_eq!(meant(other), None, "{other}");
        }
    }
}
