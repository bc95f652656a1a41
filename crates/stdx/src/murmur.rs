//! MurmurHash3, the x86 32-bit variant with seed 0 and the x64 128-bit variant (Austin Appleby's public-domain algorithm).

/// The x86 32-bit variant.
pub fn murmur3_32(data: &[u8]) -> u32 {
    const C1: u32 = 0xcc9e_2d51;
    const C2: u32 = 0x1b87_3593;
    let scramble = |k: u32| k.wrapping_mul(C1).rotate_left(15).wrapping_mul(C2);
    let (blocks, tail) = data.as_chunks::<4>();
    let mut hash = 0u32;
    for block in blocks {
        hash ^= scramble(u32::from_le_bytes(*block));
        hash = hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    if !tail.is_empty() {
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        hash ^= scramble(u32::from_le_bytes(last));
    }
    hash ^= data.len() as u32;
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

/// The x64 128-bit variant with seed 0: its two halves.
pub fn murmur3_128(data: &[u8]) -> (u64, u64) {
    murmur3_128_seeded(data, (0, 0))
}

/// The x64 128-bit variant from any two halves of a state.
pub fn murmur3_128_seeded(data: &[u8], seed: (u64, u64)) -> (u64, u64) {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let scramble1 = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let scramble2 = |k: u64| k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let halves = |block: &[u8; 16]| {
        let half = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"));
        (half(0), half(8))
    };
    let (blocks, tail) = data.as_chunks::<16>();
    let (mut h1, mut h2) = seed;
    for block in blocks {
        let (k1, k2) = halves(block);
        h1 = (h1 ^ scramble1(k1)).rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 = (h2 ^ scramble2(k2)).rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let mut last = [0; 16];
    last[..tail.len()].copy_from_slice(tail);
    let (k1, k2) = halves(&last);
    h2 ^= scramble2(k2);
    h1 ^= scramble1(k1);
    h1 ^= data.len() as u64;
    h2 ^= data.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finish(h1);
    h2 = finish(h2);
    h1 = h1.wrapping_add(h2);
    (h1, h2.wrapping_add(h1))
}

fn finish(mut k: u64) -> u64 {
    k = (k ^ (k >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    k = (k ^ (k >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}
