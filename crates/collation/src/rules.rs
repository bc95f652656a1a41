//! Rules of a collation as clients state them, and as text that is stored.

/// Decides between texts that differ only in case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CaseFirst {
    Off,
    Upper,
    Lower,
}

/// Which characters `shifted` ignores on the first levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MaxVariable {
    Punctuation,
    Space,
}

/// Every member has a value: defaults of the locale are filled in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rules {
    /// As ICU names it, such as `de_AT@collation=phonebook`.
    pub locale: String,
    /// 1 to 5.
    pub strength: u8,
    pub case_level: bool,
    pub case_first: CaseFirst,
    pub numeric_ordering: bool,
    /// Whether spaces and punctuation are ignored on the first three levels.
    pub shifted: bool,
    pub max_variable: MaxVariable,
    /// Kept as it was stated: texts are always compared in their normalized forms.
    pub normalization: bool,
    pub backwards: bool,
}

impl Rules {
    /// The rules of a locale where a client states nothing else.
    pub fn of_locale(locale: &str) -> Rules {
        let language = locale.split(['_', '-', '@']).next().unwrap_or_default();
        Rules {
            locale: locale.to_owned(),
            strength: 3,
            case_level: false,
            case_first: if matches!(language, "da" | "mt") { CaseFirst::Upper } else { CaseFirst::Off },
            numeric_ordering: false,
            shifted: language == "th",
            max_variable: MaxVariable::Punctuation,
            normalization: false,
            backwards: is_canadian_french(locale),
        }
    }

    /// The form that is stored, one letter for each choice: `de_AT/3----p--`.
    pub fn text(&self) -> String {
        let flag = |is_on: bool, letter: char| if is_on { letter } else { '-' };
        let letters = [
            char::from(b'0' + self.strength),
            flag(self.case_level, 'l'),
            match self.case_first {
                CaseFirst::Off => '-',
                CaseFirst::Upper => 'u',
                CaseFirst::Lower => 'w',
            },
            flag(self.numeric_ordering, 'd'),
            flag(self.shifted, 'a'),
            if self.max_variable == MaxVariable::Space { 's' } else { 'p' },
            flag(self.normalization, 'n'),
            flag(self.backwards, 'b'),
        ];
        format!("{}/{}", self.locale, letters.iter().collect::<String>())
    }

    /// Reads the form that is stored.
    pub fn parse(text: &str) -> Option<Rules> {
        let (locale, letters) = text.rsplit_once('/')?;
        let &[strength, level, first, digits, shifted, variable, normal, back] = letters.as_bytes() else {
            return None;
        };
        Some(Rules {
            locale: locale.to_owned(),
            strength: strength.checked_sub(b'0').filter(|strength| (1..=5).contains(strength))?,
            case_level: level == b'l',
            case_first: match first {
                b'u' => CaseFirst::Upper,
                b'w' => CaseFirst::Lower,
                _ => CaseFirst::Off,
            },
            numeric_ordering: digits == b'd',
            shifted: shifted == b'a',
            max_variable: if variable == b's' { MaxVariable::Space } else { MaxVariable::Punctuation },
            normalization: normal == b'n',
            backwards: back == b'b',
        })
    }
}

/// The one locale whose accents are compared from the end by default.
pub(crate) fn is_canadian_french(locale: &str) -> bool {
    let base = locale.split('@').next().unwrap_or_default();
    base.replace('-', "_").eq_ignore_ascii_case("fr_CA")
}
