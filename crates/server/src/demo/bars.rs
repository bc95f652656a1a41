//! Shares as bars of text.

const WIDTH: usize = 30;

/// A bar that is full at `whole`.
pub fn bar(part: f64, whole: f64) -> String {
    let share = if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 };
    let full = (share * WIDTH as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "·".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share() {
        let full = |text: String| text.matches('█').count();
        assert_eq!(full(bar(0.0, 10.0)), 0);
        assert_eq!(full(bar(5.0, 10.0)), WIDTH / 2);
        assert_eq!(full(bar(50.0, 10.0)), WIDTH);
        assert_eq!(full(bar(1.0, 0.0)), 0);
        assert_eq!(bar(3.0, 10.0).chars().count(), WIDTH);
    }
}
