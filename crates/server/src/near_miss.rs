//! Tells a misspelled name from another name.

/// The known name that `name` was most likely meant to be: one that few edits make of it, fewer for short names.
pub fn near_miss<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let distances = known.map(|known| (edits(name, known), known));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    let edits_max = (nearest.len() / 3).clamp(1, 2);
    (distance <= edits_max).then_some(nearest)
}

/// Letters to insert, remove, exchange, or swap with their neighbour, at least (optimal string alignment).
fn edits(left: &str, right: &str) -> usize {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let mut rows = vec![vec![0; right.len() + 1]; left.len() + 1];
    for i in 0..=left.len() {
        for j in 0..=right.len() {
            if i == 0 || j == 0 {
                rows[i][j] = i + j;
                continue;
            }
            let exchanged = rows[i - 1][j - 1] + usize::from(left[i - 1] != right[j - 1]);
            let mut fewest = exchanged.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                fewest = fewest.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = fewest;
        }
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] = ["data-dir", "durability", "listen", "seed", "key", "tls-cert"];

    #[test]
    fn few_edits_are_a_misspelling_and_many_another_name() {
        let meant = |name| near_miss(name, KNOWN.into_iter());
        assert_eq!(meant("datadir"), Some("data-dir"));
        assert_eq!(meant("durabilty"), Some("durability"));
        assert_eq!(meant("durabiltiy"), Some("durability"));
        assert_eq!(meant("listen-on"), None);
        assert_eq!(meant("listenon"), Some("listen"));
        assert_eq!(meant("seeds"), Some("seed"));
        for other in ["replicas", "image-tag", "home", "url", "version", "d", ""] {
            assert_eq!(meant(other), None, "{other}");
        }
        assert_eq!(edits("abc", ""), 3);
        assert_eq!(edits("", ""), 0);
    }
}
