//! A misspelled name and the known name that was meant.

const EDITS_MAX: usize = 2;

/// The known name that `name` was most likely meant to be: one within few edits, fewer for short names.
pub fn near_miss<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // Other lengths are further away; a very long name is not compared at all.
    let known = known.into_iter().filter(|known| known.len().abs_diff(name.len()) <= EDITS_MAX);
    let distances = known.map(|known| (strsim::osa_distance(name, known), known));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    let edits_max = (nearest.len() / 3).clamp(1, EDITS_MAX);
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
