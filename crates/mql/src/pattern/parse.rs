//! The text of a pattern to a tree.

use super::class::{Class, escaped, posix, property};

/// Letters that change how a pattern matches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    ignore_case: bool,
    multi_line: bool,
    dot_all: bool,
    extended: bool,
    /// Letters, digits and spaces of all scripts, as `(*UCP)` asks for them.
    unicode: bool,
}

impl Flags {
    pub fn set(&mut self, letter: char, on: bool) -> Result<(), String> {
        match letter {
            'i' => self.ignore_case = on,
            'm' => self.multi_line = on,
            's' => self.dot_all = on,
            'x' => self.extended = on,
            'u' | 'U' | 'J' => {}
            other => return Err(format!("unknown option {other}")),
        }
        Ok(())
    }
}

/// Groups within groups.
const DEPTH_MAX: usize = 250;
/// The greatest number in braces.
const REPEAT_MAX: u32 = 65_535;

#[derive(Debug)]
pub(super) enum Node {
    Empty,
    Char(char, bool),
    Class(Class),
    Assert(Assertion),
    Group(Box<Node>, Option<usize>),
    Look {
        inside: Box<Node>,
        behind: bool,
        negated: bool,
    },
    Atomic(Box<Node>),
    BackReference(usize, bool),
    Repeat {
        inside: Box<Node>,
        least: u32,
        most: Option<u32>,
        mode: Mode,
    },
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    /// `\K`: the match begins here.
    Restart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Greedy,
    Lazy,
    Possessive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assertion {
    Start,
    LineStart,
    End,
    LineEnd,
    TextEnd,
    Word,
    NotWord,
    UnicodeWord,
    NotUnicodeWord,
}

/// Whether the texts that a node matches have no greatest length.
fn is_unbounded(node: &Node) -> bool {
    match node {
        Node::Repeat { most: None, .. } => true,
        Node::Repeat { inside, .. } | Node::Group(inside, _) | Node::Atomic(inside) => is_unbounded(inside),
        Node::Sequence(parts) | Node::Choice(parts) => parts.iter().any(is_unbounded),
        _ => false,
    }
}

pub(super) struct Tree {
    pub root: Node,
    pub groups: usize,
}

struct Parser<'a> {
    rest: &'a str,
    flags: Flags,
    groups: usize,
    names: Vec<(String, usize)>,
    depth: usize,
    highest_reference: usize,
}

pub(super) fn parse(pattern: &str, flags: Flags) -> Result<Tree, String> {
    let (mut rest, mut flags) = (pattern, flags);
    while let Some((name, behind)) = rest.strip_prefix("(*").and_then(|rest| rest.split_once(')')) {
        match name {
            "UTF8" | "UTF" => {}
            "UCP" => flags.unicode = true,
            _ => break,
        }
        rest = behind;
    }
    let mut parser = Parser { rest, flags, groups: 0, names: Vec::new(), depth: 0, highest_reference: 0 };
    let root = parser.choice()?;
    if !parser.rest.is_empty() {
        return Err("unmatched closing parenthesis".into());
    }
    if parser.highest_reference > parser.groups {
        return Err("reference to non-existent subpattern".into());
    }
    Ok(Tree { root, groups: parser.groups })
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn until(&mut self, end: char) -> Result<String, String> {
        let (text, rest) = self.rest.split_once(end).ok_or_else(|| format!("missing {end}"))?;
        self.rest = rest;
        Ok(text.to_owned())
    }

    fn choice(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("parentheses are too deeply nested".into());
        }
        let flags = self.flags;
        let mut branches = vec![self.sequence()?];
        while self.eat("|") {
            branches.push(self.sequence()?);
        }
        self.flags = flags;
        self.depth -= 1;
        Ok(if branches.len() == 1 { branches.swap_remove(0) } else { Node::Choice(branches) })
    }

    fn sequence(&mut self) -> Result<Node, String> {
        let mut nodes = Vec::new();
        while let Some(c) = self.peek() {
            if matches!(c, '|' | ')') {
                break;
            }
            if self.flags.extended && (c.is_ascii_whitespace() || c == '#') {
                self.next();
                if c == '#' {
                    let end = self.rest.find('\n').map_or(self.rest.len(), |at| at + 1);
                    self.rest = &self.rest[end..];
                }
                continue;
            }
            let node = self.atom()?;
            nodes.push(self.repeated(node)?);
        }
        Ok(Node::Sequence(nodes))
    }

    fn repeated(&mut self, mut node: Node) -> Result<Node, String> {
        loop {
            let (least, most) = match self.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => match braces(self.rest) {
                    Some((least, most, length)) => {
                        if least > REPEAT_MAX || most.is_some_and(|most| most > REPEAT_MAX) {
                            return Err("number too big in {} quantifier".into());
                        }
                        if most.is_some_and(|most| most < least) {
                            return Err("numbers out of order in {} quantifier".into());
                        }
                        self.rest = &self.rest[length - 1..];
                        (least, most)
                    }
                    None => return Ok(node),
                },
                _ => return Ok(node),
            };
            self.next();
            let mode = if self.eat("?") {
                Mode::Lazy
            } else if self.eat("+") {
                Mode::Possessive
            } else {
                Mode::Greedy
            };
            node = Node::Repeat { inside: Box::new(node), least, most, mode };
        }
    }

    fn atom(&mut self) -> Result<Node, String> {
        let c = self.next().ok_or("unexpected end")?;
        Ok(match c {
            '(' => self.group()?,
            '[' => Node::Class(self.class()?),
            '\\' => self.escape()?,
            '.' => {
                let excluded: &[(char, char)] = if self.flags.dot_all { &[] } else { &[('\n', '\n')] };
                Node::Class(Class::of(excluded, true))
            }
            '^' if self.flags.multi_line => Node::Assert(Assertion::LineStart),
            '^' => Node::Assert(Assertion::Start),
            '$' if self.flags.multi_line => Node::Assert(Assertion::LineEnd),
            '$' => Node::Assert(Assertion::End),
            '*' | '+' | '?' => return Err("quantifier does not follow a repeatable item".into()),
            other => Node::Char(other, self.flags.ignore_case),
        })
    }

    fn group(&mut self) -> Result<Node, String> {
        if !self.eat("?") {
            return self.capture(None);
        }
        if self.eat("#") {
            self.until(')')?;
            return Ok(Node::Empty);
        }
        for (opening, behind, negated) in
            [("=", false, false), ("!", false, true), ("<=", true, false), ("<!", true, true)]
        {
            if self.eat(opening) {
                let inside = Box::new(self.closed()?);
                if behind && is_unbounded(&inside) {
                    return Err("lookbehind assertion is not fixed length".into());
                }
                return Ok(Node::Look { inside, behind, negated });
            }
        }
        if self.eat(":") {
            return self.closed();
        }
        if self.eat(">") {
            return Ok(Node::Atomic(Box::new(self.closed()?)));
        }
        if self.eat("P<") || self.eat("<") {
            let name = self.until('>')?;
            return self.capture(Some(name));
        }
        if self.eat("'") {
            let name = self.until('\'')?;
            return self.capture(Some(name));
        }
        if self.eat("P=") {
            let name = self.until(')')?;
            return self.named_reference(&name);
        }
        self.flag_group()
    }

    fn closed(&mut self) -> Result<Node, String> {
        let node = self.choice()?;
        if self.eat(")") { Ok(node) } else { Err("missing closing parenthesis".into()) }
    }

    fn capture(&mut self, name: Option<String>) -> Result<Node, String> {
        self.groups += 1;
        let index = self.groups;
        if let Some(name) = name {
            let starts_well = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
            if !starts_well || self.names.iter().any(|(known, _)| *known == name) {
                return Err(format!("bad or repeated name of a group: {name}"));
            }
            self.names.push((name, index));
        }
        let inside = self.closed()?;
        Ok(Node::Group(Box::new(inside), Some(index)))
    }

    fn flag_group(&mut self) -> Result<Node, String> {
        let mut on = true;
        let before = self.flags;
        loop {
            match self.next().ok_or("missing closing parenthesis")? {
                '-' => on = false,
                ')' => return Ok(Node::Empty),
                ':' => {
                    let inside = self.closed()?;
                    self.flags = before;
                    return Ok(inside);
                }
                letter => {
                    self.flags
                        .set(letter, on)
                        .map_err(|_| "unrecognized character after (? or (?-".to_owned())?;
                }
            }
        }
    }

    fn named_reference(&self, name: &str) -> Result<Node, String> {
        let found = self.names.iter().find(|(known, _)| known == name);
        let (_, index) = found.ok_or("reference to non-existent subpattern")?;
        Ok(Node::BackReference(*index, self.flags.ignore_case))
    }

    fn escape(&mut self) -> Result<Node, String> {
        let c = self.next().ok_or("\\ at end of pattern")?;
        let fold = self.flags.ignore_case;
        if let Some(class) = escaped(c, self.flags.unicode) {
            return Ok(Node::Class(class));
        }
        Ok(match c {
            'b' if self.flags.unicode => Node::Assert(Assertion::UnicodeWord),
            'B' if self.flags.unicode => Node::Assert(Assertion::NotUnicodeWord),
            'b' => Node::Assert(Assertion::Word),
            'B' => Node::Assert(Assertion::NotWord),
            'A' | 'G' => Node::Assert(Assertion::Start),
            'Z' => Node::Assert(Assertion::End),
            'z' => Node::Assert(Assertion::TextEnd),
            'K' => Node::Restart,
            'R' => {
                let pair = Node::Sequence(vec![Node::Char('\r', false), Node::Char('\n', false)]);
                Node::Choice(vec![pair, Node::Class(escaped('v', false).unwrap_or_default())])
            }
            'p' | 'P' => Node::Class(self.property_class(c == 'P')?),
            'Q' => {
                let end = self.rest.find("\\E").unwrap_or(self.rest.len());
                let literal = self.rest[..end].chars().map(|c| Node::Char(c, fold)).collect();
                self.rest = self.rest[end..].strip_prefix("\\E").unwrap_or("");
                Node::Sequence(literal)
            }
            'E' => Node::Empty,
            'k' | 'g' if self.rest.starts_with(['<', '{', '\'']) => self.reference_in_brackets()?,
            '1'..='9' => {
                let digits: String = self.rest.chars().take_while(char::is_ascii_digit).collect();
                self.rest = &self.rest[digits.len()..];
                let index: usize = format!("{c}{digits}").parse().map_err(|_| "bad reference")?;
                self.highest_reference = self.highest_reference.max(index);
                Node::BackReference(index, fold)
            }
            other => Node::Char(self.escaped_char(other)?, fold),
        })
    }

    fn reference_in_brackets(&mut self) -> Result<Node, String> {
        let end = match self.next() {
            Some('{') => '}',
            Some('<') => '>',
            _ => '\'',
        };
        let name = self.until(end)?;
        match name.parse::<i64>() {
            Ok(number) => {
                let index = if number < 0 { self.groups as i64 + 1 + number } else { number };
                let index = usize::try_from(index).map_err(|_| "reference to non-existent subpattern")?;
                self.highest_reference = self.highest_reference.max(index);
                Ok(Node::BackReference(index, self.flags.ignore_case))
            }
            Err(_) => self.named_reference(&name),
        }
    }

    fn property_class(&mut self, negated: bool) -> Result<Class, String> {
        let name =
            if self.eat("{") { self.until('}')? } else { self.next().ok_or("missing property")?.to_string() };
        let mut class =
            property(&name).ok_or_else(|| format!("unknown property name after \\P or \\p: {name}"))?;
        class.negated ^= negated;
        Ok(class)
    }

    fn escaped_char(&mut self, c: char) -> Result<char, String> {
        Ok(match c {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'f' => '\u{c}',
            'a' => '\u{7}',
            'e' => '\u{1b}',
            '0' => self.number(8, 2)?,
            'x' if self.eat("{") => {
                let digits = self.until('}')?;
                let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                code.ok_or("character code point value in \\x{} is too large")?
            }
            'x' => self.number(16, 2)?,
            'c' => {
                let c = self.next().ok_or("\\c at end of pattern")?.to_ascii_uppercase();
                char::from_u32(u32::from(c) ^ 64).unwrap_or(c)
            }
            other if other.is_ascii_alphanumeric() => {
                return Err(format!("unrecognized character follows \\: {other}"));
            }
            other => other,
        })
    }

    fn number(&mut self, radix: u32, most: usize) -> Result<char, String> {
        let digits: String = self.rest.chars().take(most).take_while(|c| c.is_digit(radix)).collect();
        self.rest = &self.rest[digits.len()..];
        let code = u32::from_str_radix(if digits.is_empty() { "0" } else { &digits }, radix);
        code.ok().and_then(char::from_u32).ok_or_else(|| "bad character code".into())
    }

    fn class(&mut self) -> Result<Class, String> {
        let mut class =
            Class { negated: self.eat("^"), ignore_case: self.flags.ignore_case, ..Class::default() };
        let mut first = true;
        loop {
            let c = self.next().ok_or("missing terminating ] for character class")?;
            if c == ']' && !first {
                return Ok(class);
            }
            first = false;
            if c == '[' && self.rest.starts_with(':') && self.rest[1..].contains(":]") {
                self.next();
                let name = self.until(':')?;
                self.next();
                let (name, negated) = name.strip_prefix('^').map_or((&*name, false), |name| (name, true));
                let mut part = posix(name).ok_or_else(|| format!("unknown POSIX class name: {name}"))?;
                part.negated = negated;
                class.parts.push(part);
                continue;
            }
            let Some(low) = self.class_char(c, &mut class)? else { continue };
            let is_range =
                self.rest.starts_with('-') && !self.rest[1..].starts_with(']') && self.rest.len() > 1;
            if !is_range {
                class.ranges.push((low, low));
                continue;
            }
            self.next();
            let c = self.next().ok_or("missing terminating ] for character class")?;
            match self.class_char(c, &mut class)? {
                Some(high) if high < low => return Err("range out of order in character class".into()),
                Some(high) => class.ranges.push((low, high)),
                None => class.ranges.extend([(low, low), ('-', '-')]),
            }
        }
    }

    /// A character of a class; `None` where an escape added a whole set.
    fn class_char(&mut self, c: char, class: &mut Class) -> Result<Option<char>, String> {
        if c != '\\' {
            return Ok(Some(c));
        }
        let c = self.next().ok_or("\\ at end of pattern")?;
        if let Some(part) = escaped(c, self.flags.unicode) {
            class.parts.push(part);
            return Ok(None);
        }
        match c {
            'p' | 'P' => {
                let part = self.property_class(c == 'P')?;
                class.parts.push(part);
                Ok(None)
            }
            'b' => Ok(Some('\u{8}')),
            'Q' | 'E' => Ok(None),
            '1'..='7' => {
                let value = c.to_digit(8).and_then(char::from_u32).unwrap_or(c);
                Ok(Some(value))
            }
            other => self.escaped_char(other).map(Some),
        }
    }
}

/// Numbers of a quantifier such as `{2,5}`, and its length.
fn braces(text: &str) -> Option<(u32, Option<u32>, usize)> {
    let (inside, _) = text.strip_prefix('{')?.split_once('}')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().unwrap_or(u32::MAX))
    };
    let length = inside.len() + 2;
    match inside.split_once(',') {
        None => number(inside).map(|count| (count, Some(count), length)),
        Some((least, "")) => number(least).map(|least| (least, None, length)),
        Some((least, most)) => Some((number(least)?, Some(number(most)?), length)),
    }
}
