//! The memory of an engine, which can be restored to an earlier state.
//!
//! Making the built-in objects of an engine takes longer than most scripts run, and freeing them half of that
//! again. So an engine is made once, and a copy of its memory is kept, an *image*. After each order the image
//! is restored and all other blocks are freed: byte for byte the engine is in the state before any script ran
//! in it.
//!
//! The contents of an image are allocated in one region, so that it can be copied as a whole. All other
//! blocks come from the allocator of the program and are on a list. Memory of the region that is freed during
//! an order is not reused before an image is restored.
//!
//! An engine is a C library that is handed memory by address, so this module cannot do without `unsafe`.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::rc::Rc;

use rquickjs::allocator::Allocator;

/// Space for the built-in objects and the function of a script. Unused pages cost no memory.
const REGION_BYTES: usize = 2 << 20;
const ALIGN: usize = 16;
const HEADER_BYTES: usize = size_of::<Header>();

/// The header before each block.
#[repr(C, align(16))]
struct Header {
    /// The neighbours on the list; null at its ends, and in the region.
    previous: *mut Header,
    next: *mut Header,
    /// Bytes after the header.
    size: usize,
}

/// A handle: clones share the memory. The engine holds one for as long as it lives.
#[derive(Clone)]
pub(super) struct Heap(Rc<Memory>);

/// A copy of the region.
pub(super) struct Image(Box<[u8]>);

struct Memory {
    region: NonNull<u8>,
    used: Cell<usize>,
    /// Whether allocations go into the next image.
    is_open: Cell<bool>,
    /// The first of the blocks that are not in the region.
    blocks: Cell<*mut Header>,
}

impl Heap {
    pub(super) fn new() -> Option<Heap> {
        // SAFETY: the layout is not empty.
        let region = NonNull::new(unsafe { alloc(region_layout()) })?;
        let (used, is_open, blocks) = (Cell::new(0), Cell::new(true), Cell::new(ptr::null_mut()));
        Some(Heap(Rc::new(Memory { region, used, is_open, blocks })))
    }

    /// Allocations from here on are part of the next image.
    pub(super) fn open(&self) {
        self.0.is_open.set(true);
    }

    /// Copies the region into an image. Later allocations are not part of it.
    pub(super) fn keep(&self) -> Image {
        let memory = &self.0;
        memory.is_open.set(false);
        assert!(memory.used.get() <= REGION_BYTES, "an image lies in its region");
        // SAFETY: these bytes of the region have been handed out, and nothing writes to them meanwhile.
        let used = unsafe { std::slice::from_raw_parts(memory.region.as_ptr(), memory.used.get()) };
        Image(used.into())
    }

    /// Restores an image and frees all blocks outside of it.
    ///
    /// # Safety
    ///
    /// The image was made from this heap. No value of the engine may be held that was not held when the image
    /// was made: it would be used, or freed, in memory with other contents. Since then, no memory outside of
    /// this heap that the engine frees with an object may have been allocated, or it is lost; nor freed, or
    /// it is freed twice.
    pub(super) unsafe fn put_back(&self, Image(image): &Image) {
        let memory = &self.0;
        assert!(image.len() <= REGION_BYTES, "an image fits the region that it is copied to");
        memory.free_blocks();
        memory.used.set(image.len());
        memory.is_open.set(false);
        // SAFETY: the image was copied from there.
        unsafe { ptr::copy_nonoverlapping(image.as_ptr(), memory.region.as_ptr(), image.len()) };
    }
}

impl Memory {
    fn allocate(&self, size: usize) -> *mut u8 {
        self.allocate_by(size, alloc)
    }

    fn allocate_by(&self, size: usize, allocate: unsafe fn(Layout) -> *mut u8) -> *mut u8 {
        let Some(layout) = block_layout(size) else { return ptr::null_mut() };
        let header = if self.is_open.get() {
            self.carve(layout.size())
        } else {
            // SAFETY: a block has its header at least.
            let header = unsafe { allocate(layout) }.cast::<Header>();
            NonNull::new(header)
                .inspect(|header| self.link(*header, size))
                .map_or(ptr::null_mut(), NonNull::as_ptr)
        };
        if header.is_null() {
            return ptr::null_mut();
        }
        // SAFETY: the block is as large as its layout, which includes the header.
        unsafe {
            if self.is_in_region(header) {
                header.write(Header { previous: ptr::null_mut(), next: ptr::null_mut(), size });
            }
            header.cast::<u8>().add(HEADER_BYTES)
        }
    }

    /// Reserves bytes of the region; null if they do not fit.
    fn carve(&self, bytes: usize) -> *mut Header {
        let start = self.used.get();
        assert!(start <= REGION_BYTES, "the used part of a region lies in it");
        if bytes > REGION_BYTES - start {
            return ptr::null_mut();
        }
        self.used.set(start + bytes);
        // SAFETY: this is inside the region.
        unsafe { self.region.as_ptr().add(start).cast() }
    }

    fn is_in_region(&self, header: *const Header) -> bool {
        let start = self.region.as_ptr() as usize;
        (start..start + REGION_BYTES).contains(&(header as usize))
    }

    /// Whether a block is the last one carved from the region, while the next image is still open.
    fn is_last(&self, header: *mut Header) -> bool {
        if !self.is_open.get() || !self.is_in_region(header) {
            return false;
        }
        let start = header as usize - self.region.as_ptr() as usize;
        // SAFETY: a block that is there has its header.
        let layout = block_layout(unsafe { (*header).size });
        layout.is_some_and(|layout| start + layout.size() == self.used.get())
    }

    /// Resizes the last block in place, if there is space.
    fn stretch(&self, header: *mut Header, size: usize) -> bool {
        assert!(self.is_in_region(header), "only a block of the region is resized in place");
        let start = header as usize - self.region.as_ptr() as usize;
        let Some(layout) = block_layout(size).filter(|layout| layout.size() <= REGION_BYTES - start) else {
            return false;
        };
        self.used.set(start + layout.size());
        // SAFETY: the block exists, and there is space.
        unsafe { (*header).size = size };
        true
    }

    /// Links a block into the list.
    fn link(&self, header: NonNull<Header>, size: usize) {
        let next = self.blocks.replace(header.as_ptr());
        // SAFETY: the block is not in use yet, and blocks on the list are not freed.
        unsafe {
            header.write(Header { previous: ptr::null_mut(), next, size });
            if let Some(next) = next.as_mut() {
                next.previous = header.as_ptr();
            }
        }
    }

    /// Unlinks a block from the list.
    ///
    /// # Safety
    ///
    /// The block is on the list.
    unsafe fn unlink(&self, header: *mut Header) {
        debug_assert!(!self.is_in_region(header), "only blocks outside of the region are on the list");
        // SAFETY: neighbours are on the list, too.
        unsafe {
            let Header { previous, next, .. } = header.read();
            match previous.as_mut() {
                Some(previous) => previous.next = next,
                None => self.blocks.set(next),
            }
            if let Some(next) = next.as_mut() {
                next.previous = previous;
            }
        }
    }

    fn free_blocks(&self) {
        let mut header = self.blocks.replace(ptr::null_mut());
        while !header.is_null() {
            // SAFETY: it was on the list, and is read before it is freed.
            unsafe {
                let Header { next, size, .. } = header.read();
                free(header, size);
                header = next;
            }
        }
    }

    /// # Safety
    ///
    /// The block was allocated here and is not freed.
    unsafe fn release(&self, header: *mut Header) {
        if self.is_in_region(header) {
            if self.is_last(header) {
                self.used.set(header as usize - self.region.as_ptr() as usize);
            }
            return;
        }
        // SAFETY: blocks outside of the region are on the list.
        unsafe {
            self.unlink(header);
            free(header, (*header).size);
        }
    }

    /// # Safety
    ///
    /// The same as for [`Memory::release`].
    unsafe fn resize(&self, header: *mut Header, size: usize) -> *mut u8 {
        // SAFETY: a block that is there has its header.
        let old_size = unsafe { (*header).size };
        if self.is_last(header) && self.stretch(header, size) {
            // SAFETY: the block follows the header.
            return unsafe { header.cast::<u8>().add(HEADER_BYTES) };
        }
        if self.is_in_region(header) {
            // SAFETY: it has at least this many bytes.
            return unsafe { self.move_out(header, size.min(old_size), size) };
        }
        let (Some(old), Some(new)) = (block_layout(old_size), block_layout(size)) else {
            return ptr::null_mut();
        };
        // SAFETY: the block has this layout. If it cannot grow it is unchanged, and returns to the list.
        unsafe {
            self.unlink(header);
            match NonNull::new(realloc(header.cast(), old, new.size()).cast::<Header>()) {
                Some(header) => {
                    self.link(header, size);
                    header.as_ptr().cast::<u8>().add(HEADER_BYTES)
                }
                None => {
                    self.link(NonNull::new_unchecked(header), old_size);
                    ptr::null_mut()
                }
            }
        }
    }

    /// Moves a block of the region to a new block, to change its size.
    ///
    /// # Safety
    ///
    /// The same as for [`Memory::release`], and the block has at least `bytes` bytes.
    unsafe fn move_out(&self, header: *mut Header, bytes: usize, size: usize) -> *mut u8 {
        let moved = self.allocate(size);
        if !moved.is_null() {
            // SAFETY: both have at least this many bytes, and one of them is new.
            unsafe { ptr::copy_nonoverlapping(header.cast::<u8>().add(HEADER_BYTES), moved, bytes) };
        }
        moved
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.free_blocks();
        // SAFETY: it was allocated with this layout, and every user of its memory held a handle.
        unsafe { dealloc(self.region.as_ptr(), region_layout()) };
    }
}

// SAFETY: every block has the requested size and is aligned to more than a word; its header holds its size.
unsafe impl Allocator for Heap {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        self.0.allocate(size)
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        let Some(size) = count.checked_mul(size) else { return ptr::null_mut() };
        let block = self.0.allocate_by(size, alloc_zeroed);
        if !block.is_null() && self.0.is_open.get() {
            // SAFETY: the block has this size; memory of the region is not zeroed.
            unsafe { block.write_bytes(0, size) };
        }
        block
    }

    unsafe fn dealloc(&mut self, block: *mut u8) {
        // SAFETY: the caller's word.
        unsafe { self.0.release(header_of(block)) };
    }

    unsafe fn realloc(&mut self, block: *mut u8, size: usize) -> *mut u8 {
        if block.is_null() {
            return self.0.allocate(size);
        }
        // SAFETY: the caller's word.
        unsafe { self.0.resize(header_of(block), size) }
    }

    unsafe fn usable_size(block: *mut u8) -> usize {
        // SAFETY: the caller's word.
        unsafe { (*header_of(block)).size }
    }
}

/// # Safety
///
/// It is the address of a block.
unsafe fn header_of(block: *mut u8) -> *mut Header {
    // SAFETY: a header is before each block.
    unsafe { block.sub(HEADER_BYTES).cast() }
}

/// # Safety
///
/// The block is not in the region, not on the list, and has this size.
unsafe fn free(header: *mut Header, size: usize) {
    let layout = block_layout(size).expect("a block that is there has a layout");
    // SAFETY: it was allocated with this layout.
    unsafe { dealloc(header.cast(), layout) };
}

fn region_layout() -> Layout {
    Layout::from_size_align(REGION_BYTES, ALIGN).expect("a power of two")
}

/// The layout of a block and its header; `None` beyond the largest allocation.
fn block_layout(size: usize) -> Option<Layout> {
    let bytes = size.checked_next_multiple_of(ALIGN)?.checked_add(HEADER_BYTES)?;
    Layout::from_size_align(bytes, ALIGN).ok()
}

#[cfg(test)]
mod tests {
    use shardlake_stdx::Random;

    use super::*;

    /// A block, and the bytes written into it.
    struct Written {
        block: *mut u8,
        bytes: Vec<u8>,
    }

    fn write(block: *mut u8, size: usize, random: &Random) -> Written {
        assert!(!block.is_null() && (block as usize).is_multiple_of(ALIGN));
        let mut bytes = vec![0; size];
        random.fill(&mut bytes);
        // SAFETY: the block has this size.
        unsafe {
            assert_eq!(Heap::usable_size(block), size);
            ptr::copy_nonoverlapping(bytes.as_ptr(), block, size);
        }
        Written { block, bytes }
    }

    fn assert_written(written: &Written) {
        // SAFETY: the block has this size.
        let found = unsafe { std::slice::from_raw_parts(written.block, written.bytes.len()) };
        assert!(found == written.bytes);
    }

    fn size(random: &Random) -> usize {
        let magnitude = random.below(14);
        random.below(1 << magnitude) as usize + 1
    }

    #[test]
    fn whatever_is_done_to_blocks_the_image_comes_back() {
        let random = Random::seeded(7);
        let mut heap = Heap::new().unwrap();
        let mut kept: Vec<Written> = Vec::new();
        for _ in 0..60 {
            let size = size(&random);
            kept.push(write(heap.alloc(size), size, &random));
            if random.below(3) == 0 {
                let moved = kept.swap_remove(random.below(kept.len() as u64) as usize);
                // SAFETY: it was allocated there.
                kept.push(unsafe { resize(&mut heap, moved, &random) });
            }
        }
        let image = heap.keep();
        for round in 0..20 {
            let mut live: Vec<Written> =
                kept.iter().map(|kept| Written { block: kept.block, bytes: kept.bytes.clone() }).collect();
            // Another image may be made from this one, and discarded.
            if round % 2 == 1 {
                heap.open();
                live.push(write(heap.alloc(1_000), 1_000, &random));
                assert!(heap.keep().0.len() > image.0.len());
            }
            for _ in 0..500 {
                let index = random.below(live.len() as u64) as usize;
                match random.below(4) {
                    0 => {
                        let size = size(&random);
                        live.push(write(heap.alloc(size), size, &random));
                    }
                    1 if live.len() > 1 => {
                        let freed = live.swap_remove(index);
                        assert_written(&freed);
                        // SAFETY: it was allocated there and is not freed.
                        unsafe { heap.dealloc(freed.block) };
                    }
                    2 => {
                        let resized = live.swap_remove(index);
                        // SAFETY: it was allocated there and is not freed.
                        live.push(unsafe { resize(&mut heap, resized, &random) });
                    }
                    _ => {
                        let size = live[index].bytes.len();
                        live[index] = write(live[index].block, size, &random);
                    }
                }
            }
            live.iter().for_each(assert_written);
            // SAFETY: later allocations are not used.
            unsafe { heap.put_back(&image) };
            assert!(heap.0.blocks.get().is_null());
            kept.iter().for_each(assert_written);
        }
    }

    /// # Safety
    ///
    /// The block is of this heap and is not freed.
    unsafe fn resize(heap: &mut Heap, written: Written, random: &Random) -> Written {
        let size = size(random);
        // SAFETY: the caller's word.
        let block = unsafe { heap.realloc(written.block, size) };
        let common = size.min(written.bytes.len());
        assert_written(&Written { block, bytes: written.bytes[..common].to_vec() });
        write(block, size, random)
    }

    #[test]
    fn what_there_is_no_memory_for_is_null() {
        let mut heap = Heap::new().unwrap();
        assert!(heap.alloc(REGION_BYTES).is_null());
        assert!(heap.calloc(usize::MAX / 2, 3).is_null());
        assert!(heap.alloc(usize::MAX).is_null());
        heap.keep();
        assert!(heap.alloc(usize::MAX - 8).is_null());
        let zeros = heap.calloc(100, 3);
        // SAFETY: the block has this size.
        assert!(unsafe { std::slice::from_raw_parts(zeros, 300) }.iter().all(|byte| *byte == 0));
        // SAFETY: it is of this heap.
        assert!(unsafe { heap.realloc(zeros, usize::MAX / 2) }.is_null());
        // SAFETY: a block that could not grow is unchanged.
        unsafe { heap.dealloc(zeros) };
        assert!(heap.0.blocks.get().is_null());
    }
}
