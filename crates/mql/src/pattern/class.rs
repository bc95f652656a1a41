//! Sets of characters.

/// A set of characters, as ranges.
#[derive(Clone, Debug, Default)]
pub(super) struct Class {
    pub ranges: Vec<(char, char)>,
    /// Sets within the set, which may be inverted by themselves.
    pub parts: Vec<Class>,
    /// A property of Unicode, by its name.
    pub property: Option<fn(char) -> bool>,
    pub negated: bool,
    pub ignore_case: bool,
}

impl Class {
    pub fn of(ranges: &[(char, char)], negated: bool) -> Class {
        Class { ranges: ranges.to_vec(), negated, ..Class::default() }
    }

    pub fn contains(&self, c: char) -> bool {
        let has = |c: char| {
            self.ranges.iter().any(|(low, high)| (*low..=*high).contains(&c))
                || self.parts.iter().any(|part| part.contains(c))
                || self.property.is_some_and(|property| property(c))
        };
        let found = has(c) || (self.ignore_case && (has(lower(c)) || has(upper(c))));
        found != self.negated
    }
}

pub(super) fn lower(c: char) -> char {
    let mut folded = c.to_lowercase();
    match (folded.next(), folded.next()) {
        (Some(only), None) => only,
        _ => c,
    }
}

pub(super) fn upper(c: char) -> char {
    let mut folded = c.to_uppercase();
    match (folded.next(), folded.next()) {
        (Some(only), None) => only,
        _ => c,
    }
}

const DIGIT: &[(char, char)] = &[('0', '9')];
const WORD: &[(char, char)] = &[('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')];
const SPACE: &[(char, char)] = &[(' ', ' '), ('\t', '\r')];
const ACROSS: &[(char, char)] = &[(' ', ' '), ('\t', '\t'), ('\u{a0}', '\u{a0}'), ('\u{2000}', '\u{200a}')];
const DOWN: &[(char, char)] = &[('\n', '\r'), ('\u{85}', '\u{85}'), ('\u{2028}', '\u{2029}')];

/// Whether a character is part of a word in any script.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The set of an escape such as `\d`, of ASCII or of all scripts.
pub(super) fn escaped(letter: char, unicode: bool) -> Option<Class> {
    let property: Option<fn(char) -> bool> = match letter.to_ascii_lowercase() {
        'd' => Some(char::is_numeric),
        'w' => Some(is_word),
        's' => Some(char::is_whitespace),
        _ => None,
    };
    if unicode && property.is_some() {
        return Some(Class { property, negated: letter.is_ascii_uppercase(), ..Class::default() });
    }
    Some(match letter {
        'd' | 'D' => Class::of(DIGIT, letter == 'D'),
        'w' | 'W' => Class::of(WORD, letter == 'W'),
        's' | 'S' => Class::of(SPACE, letter == 'S'),
        'h' | 'H' => Class::of(ACROSS, letter == 'H'),
        'v' | 'V' => Class::of(DOWN, letter == 'V'),
        'N' => Class::of(&[('\n', '\n')], true),
        _ => return None,
    })
}

/// The set of a name in `[:name:]`.
pub(super) fn posix(name: &str) -> Option<Class> {
    let ranges: &[(char, char)] = match name {
        "alpha" => &[('a', 'z'), ('A', 'Z')],
        "digit" => DIGIT,
        "alnum" => &[('a', 'z'), ('A', 'Z'), ('0', '9')],
        "upper" => &[('A', 'Z')],
        "lower" => &[('a', 'z')],
        "space" => SPACE,
        "blank" => &[(' ', ' '), ('\t', '\t')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "cntrl" => &[('\0', '\u{1f}'), ('\u{7f}', '\u{7f}')],
        "xdigit" => &[('0', '9'), ('a', 'f'), ('A', 'F')],
        "word" => WORD,
        "graph" => &[('!', '~')],
        "print" => &[(' ', '~')],
        "ascii" => &[('\0', '\u{7f}')],
        _ => return None,
    };
    Some(Class::of(ranges, false))
}

/// The set of a property such as `\p{L}`, as far as the standard library knows it.
pub(super) fn property(name: &str) -> Option<Class> {
    let (name, negated) = name.strip_prefix('^').map_or((name, false), |name| (name, true));
    let property: fn(char) -> bool = match name {
        "L" | "L&" => char::is_alphabetic,
        "Lu" => char::is_uppercase,
        "Ll" => char::is_lowercase,
        "N" | "Nd" => char::is_numeric,
        "Z" | "Zs" => char::is_whitespace,
        "P" | "Po" => |c| c.is_ascii_punctuation() || ('\u{2010}'..='\u{205e}').contains(&c),
        "C" | "Cc" => char::is_control,
        "S" => |c| "$+<=>^`|~".contains(c) || ('\u{20a0}'..='\u{2bff}').contains(&c),
        "Any" => |_| true,
        "Han" => |c| ('\u{4e00}'..='\u{9fff}').contains(&c) || ('\u{3400}'..='\u{4dbf}').contains(&c),
        "Hiragana" => |c| ('\u{3040}'..='\u{309f}').contains(&c),
        "Katakana" => |c| ('\u{30a0}'..='\u{30ff}').contains(&c),
        "Cyrillic" => |c| ('\u{400}'..='\u{52f}').contains(&c),
        "Greek" => |c| ('\u{370}'..='\u{3ff}').contains(&c),
        "Latin" => |c| c.is_alphabetic() && c < '\u{250}',
        _ => return None,
    };
    Some(Class { property: Some(property), negated, ..Class::default() })
}
