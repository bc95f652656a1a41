//! Images of an engine with the compiled functions of a script, for scripts that run repeatedly.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::ManuallyDrop;

use rquickjs::{Ctx, Function, Persistent, Result};

use super::heap::Image;
use super::source::FunctionText;

/// Limit on images; each is as large as the built-in objects and its functions.
const IMAGES_MAX: usize = 8;
/// Longer texts are compiled for each order: their functions may not fit together with the built-in objects.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// The texts of an order: one script, or the functions of a query.
pub(super) type Texts<'t> = [FunctionText<'t>];

#[derive(Default)]
pub(super) struct Images {
    /// The most recently used image is first.
    kept: Vec<Compiled>,
    /// Hashes of texts that ran lately without an image: texts that run again get one.
    recent: VecDeque<u64>,
    /// Hashes of texts of which no image could be made.
    given_up: VecDeque<u64>,
    made: u64,
}

pub(super) struct Compiled {
    number: u64,
    /// Names and texts.
    texts: Vec<(String, String)>,
    pub(super) image: Image,
    /// Never released one by one: they are dropped with the image.
    functions: Vec<ManuallyDrop<Persistent<Function<'static>>>>,
}

impl Images {
    /// The number of the image for these texts, if there is one.
    pub(super) fn find(&mut self, texts: &Texts<'_>) -> Option<u64> {
        let place = self.kept.iter().position(|compiled| compiled.is_of(texts))?;
        self.kept[..=place].rotate_right(1);
        Some(self.kept[0].number)
    }

    pub(super) fn get(&self, number: u64) -> Option<&Compiled> {
        self.kept.iter().find(|compiled| compiled.number == number)
    }

    /// The number of the new image. The least recently used image is dropped.
    pub(super) fn add(
        &mut self,
        texts: &Texts<'_>,
        image: Image,
        functions: Vec<Persistent<Function<'static>>>,
    ) -> u64 {
        self.made += 1;
        let number = self.made;
        let texts = texts.iter().map(|text| (text.name.to_owned(), text.source.to_owned())).collect();
        let functions = functions.into_iter().map(ManuallyDrop::new).collect();
        self.kept.truncate(IMAGES_MAX - 1);
        self.kept.insert(0, Compiled { number, texts, image, functions });
        number
    }

    /// Notes functions that were compiled without an image.
    pub(super) fn note(&mut self, texts: &Texts<'_>) {
        if texts.iter().map(|text| text.source.len()).sum::<usize>() > TEXT_BYTES_MAX {
            return;
        }
        let hash = hash(texts);
        if !self.given_up.contains(&hash) {
            push(&mut self.recent, hash);
        }
    }

    /// Notes that the texts do not fit into an image.
    pub(super) fn give_up(&mut self, texts: &Texts<'_>) {
        push(&mut self.given_up, hash(texts));
    }

    /// Whether the texts ran lately, and forgets them: afterwards they have an image, or never will.
    pub(super) fn is_worth(&mut self, texts: &Texts<'_>) -> bool {
        let hash = hash(texts);
        let place = self.recent.iter().position(|recent| *recent == hash);
        place.is_some_and(|place| self.recent.remove(place).is_some())
    }
}

impl Compiled {
    fn is_of(&self, texts: &Texts<'_>) -> bool {
        let is_same = |((name, source), text): (&(String, String), &FunctionText<'_>)| {
            name == text.name && source == text.source
        };
        self.texts.len() == texts.len() && self.texts.iter().zip(texts).all(is_same)
    }

    /// The functions of the image, which must be in memory.
    pub(super) fn functions<'js>(&self, ctx: &Ctx<'js>) -> Result<Vec<Function<'js>>> {
        self.functions.iter().map(|function| Persistent::clone(function).restore(ctx)).collect()
    }
}

fn push(hashes: &mut VecDeque<u64>, hash: u64) {
    hashes.truncate(IMAGES_MAX - 1);
    hashes.push_front(hash);
}

fn hash(texts: &Texts<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    texts.iter().for_each(|text| (text.name, text.source).hash(&mut hasher));
    hasher.finish()
}
