//! Names of members that occurred before on this thread: documents of one kind share them.

use std::cell::RefCell;

use super::Str;

/// Names that a thread keeps.
const SLOTS: usize = 128;
const NAME_BYTES_MAX: usize = 32;

thread_local! {
    static NAMES: RefCell<[Option<Str>; SLOTS]> = const { RefCell::new([const { None }; SLOTS]) };
}

/// The name, without a copy if it is the latest one in its slot.
pub(super) fn shared(name: &str) -> Str {
    if name.len() > NAME_BYTES_MAX {
        return Str::from(name);
    }
    NAMES.with_borrow_mut(|names| {
        let slot = &mut names[slot_of(name)];
        match slot {
            Some(known) if **known == *name => known.clone(),
            _ => slot.insert(Str::from(name)).clone(),
        }
    })
}

/// By a hash of the bytes (FNV-1a).
fn slot_of(name: &str) -> usize {
    let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = name.bytes().fold(0x811C_9DC5, hash);
    (hash ^ (hash >> 16)) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_comes_again_is_shared_and_a_thread_keeps_few() {
        let first = shared("a name");
        assert!(std::ptr::eq(&*first, &*shared("a name")));
        let names: Vec<String> = (0..10 * SLOTS).map(|number| format!("name {number}")).collect();
        for name in &names {
            assert_eq!(*shared(name), **name);
        }
        NAMES.with_borrow(|kept| assert_eq!(kept.iter().flatten().count(), SLOTS));
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert!(!std::ptr::eq(&*shared(&long), &*shared(&long)));
    }
}
