//! Texts as people count: runs of digits compare by value, so that `day-9` is below `day-10`.

use std::cmp::Ordering;

pub fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while let (Some(first_a), Some(first_b)) = (a.first(), b.first()) {
        let (digits_a, digits_b) = (digits(a), digits(b));
        let ordering = match (digits_a, digits_b) {
            (0, _) | (_, 0) => first_a.cmp(first_b),
            _ => {
                let (number_a, number_b) = (significant(&a[..digits_a]), significant(&b[..digits_b]));
                number_a.len().cmp(&number_b.len()).then(number_a.cmp(number_b))
            }
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
        (a, b) = (&a[digits_a.max(1)..], &b[digits_b.max(1)..]);
    }
    a.len().cmp(&b.len())
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn significant(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|digit| **digit == b'0').count();
    &number[zeros..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_compare_as_people_count() {
        for (low, high) in
            [("a9", "a10"), ("a", "b"), ("2026-09", "2026-10"), ("x", "x1"), ("007", "8"), ("", "a")]
        {
            assert_eq!(natural_order(low, high), Ordering::Less, "{low} {high}");
            assert_eq!(natural_order(high, low), Ordering::Greater, "{low} {high}");
        }
        assert_eq!(natural_order("a07", "a7"), Ordering::Equal);
    }
}
