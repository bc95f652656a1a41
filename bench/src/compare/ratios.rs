//! Statistics over the ratios of many rounds.

/// Ratios of one case, later build by base, one for each round.
#[derive(Debug, Clone)]
pub struct Ratios(Vec<f64>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The median is within the limit.
    Fine,
    /// The median is above the limit, and so is the least that it may be, given its spread.
    Worse,
    /// The median is above the limit, and its spread may be the reason.
    Doubtful,
}

impl Ratios {
    pub fn new(ratios: impl IntoIterator<Item = f64>) -> Ratios {
        let mut ratios: Vec<f64> = ratios.into_iter().collect();
        ratios.sort_by(f64::total_cmp);
        Ratios(ratios)
    }

    pub fn median(&self) -> f64 {
        self.at(0.5)
    }

    pub fn least(&self) -> f64 {
        self.at(0.0)
    }

    pub fn most(&self) -> f64 {
        self.at(1.0)
    }

    pub fn verdict(&self, percent_max: f64) -> Verdict {
        let limit = 1.0 + percent_max / 100.0;
        match (self.median() > limit, self.median_at_least() > limit) {
            (false, _) => Verdict::Fine,
            (true, true) => Verdict::Worse,
            (true, false) => Verdict::Doubtful,
        }
    }

    /// The lower end of the interval that contains the true median, at a confidence of 95 %: an
    /// order statistic of the rounds, however the rounds are distributed.
    fn median_at_least(&self) -> f64 {
        let count = self.0.len() as f64;
        let place = ((count - 1.96 * count.sqrt()) / 2.0).max(0.0) as usize;
        self.0.get(place).copied().unwrap_or(1.0)
    }

    /// Between two rounds where a share falls between them.
    fn at(&self, share: f64) -> f64 {
        let Some(last) = self.0.len().checked_sub(1) else { return 1.0 };
        let place = last as f64 * share;
        let (below, above) = (self.0[place.floor() as usize], self.0[place.ceil() as usize]);
        below + (above - below) * place.fract()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_worse_beyond_its_spread_is_worse() {
        let verdict = |ratios: &[f64]| Ratios::new(ratios.iter().copied()).verdict(5.0);
        assert_eq!(verdict(&[1.2, 0.9, 1.0, 1.3, 1.01]), Verdict::Fine);
        assert_eq!(verdict(&[1.08, 1.07, 1.09, 1.06, 1.08]), Verdict::Worse);
        assert_eq!(verdict(&[1.08, 1.07, 1.09, 1.04, 1.08]), Verdict::Doubtful);
        // Two of twelve rounds may be outliers.
        let mut many = vec![1.1; 12];
        many[0] = 0.9;
        many[1] = 0.9;
        assert_eq!(verdict(&many), Verdict::Worse);
        many[2] = 0.9;
        assert_eq!(verdict(&many), Verdict::Doubtful);
        assert_eq!(verdict(&[]), Verdict::Fine);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_ones() {
        let ratios = Ratios::new([1.4, 1.0, 1.1, 1.2]);
        assert!((ratios.median() - 1.15).abs() < 1e-9);
        assert!((ratios.least() - 1.0).abs() < 1e-9 && (ratios.most() - 1.4).abs() < 1e-9);
    }
}
