//! The hashes by which other tools name the picture that another was made from: A1111 MD5 of its raw pixels, InvokeAI
//! SHA-256 of its file. Only ever compared with theirs; ours is BLAKE3. Written out here, as two crates would be more.

use std::fs;
use std::io;
use std::path::Path;

use super::blobs::{ImageUnavailable, Images};

impl Images {
    /// MD5 of the pixels of an image file as A1111 takes it: RGB, row by row. In hexadecimal digits.
    pub fn pixels_md5(&self, path: &Path) -> Result<String, ImageUnavailable> {
        self.with_file(path, |picture| hex(&md5(picture.pixels().to_rgb8().as_raw())))
    }
}

/// SHA-256 of a file, in hexadecimal digits.
pub fn file_sha256(path: &Path) -> io::Result<String> {
    Ok(hex(&sha256(&fs::read(path)?)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The blocks of a message as both hash it: a one bit, zeros, and its length in bits.
fn blocks(message: &[u8], length: [u8; 8]) -> Vec<[u8; 64]> {
    let tail_from = message.len() / 64 * 64;
    let (whole, rest) = message.split_at_checked(tail_from).unwrap_or((message, &[]));
    let mut tail = rest.to_vec();
    tail.push(0x80);
    while tail.len() % 64 != 56 {
        tail.push(0);
    }
    tail.extend_from_slice(&length);
    let (whole, _) = whole.as_chunks();
    let (tail, _) = tail.as_chunks();
    [whole, tail].concat()
}

fn md5(message: &[u8]) -> Vec<u8> {
    const TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let bits = (message.len() as u64).wrapping_mul(8);
    for block in blocks(message, bits.to_le_bytes()) {
        let (words, _) = block.as_chunks::<4>();
        let word = |at: usize| words.get(at % 16).copied().map(u32::from_le_bytes).unwrap_or_default();
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64_usize {
            let (mixed, at) = match step / 16 {
                0 => (b & c | !b & d, step),
                1 => (d & b | !d & c, 5 * step + 1),
                2 => (b ^ c ^ d, 3 * step + 5),
                _ => (c ^ (b | !d), 7 * step),
            };
            let turn = TURNS.get(step / 16).and_then(|turns| turns.get(step % 4)).copied().unwrap_or_default();
            let sum = a.wrapping_add(mixed).wrapping_add(sine(step)).wrapping_add(word(at));
            (a, d, c, b) = (d, c, b, b.wrapping_add(sum.rotate_left(turn)));
        }
        for (old, new) in state.iter_mut().zip([a, b, c, d]) {
            *old = old.wrapping_add(new);
        }
    }
    state.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The whole part of 2^32 times the sine of one more than the step.
fn sine(step: usize) -> u32 {
    let angle = f64::from(u32::try_from(step).unwrap_or_default() + 1);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2^32 and not negative")]
    let whole = (angle.sin().abs() * 4_294_967_296.0) as u32;
    whole
}

fn sha256(message: &[u8]) -> Vec<u8> {
    let mut state: [u32; 8] =
        [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];
    let rounds: Vec<u32> = primes().map(|prime| fraction(f64::from(prime).cbrt())).collect();
    let bits = (message.len() as u64).wrapping_mul(8);
    for block in blocks(message, bits.to_be_bytes()) {
        let (words, _) = block.as_chunks::<4>();
        let mut schedule: Vec<u32> = words.iter().copied().map(u32::from_be_bytes).collect();
        for at in 16..64_usize {
            let word = |back: usize| schedule.get(at - back).copied().unwrap_or_default();
            let (near, far) = (word(2), word(15));
            let one = far.rotate_right(7) ^ far.rotate_right(18) ^ far >> 3;
            let two = near.rotate_right(17) ^ near.rotate_right(19) ^ near >> 10;
            schedule.push(word(16).wrapping_add(one).wrapping_add(word(7)).wrapping_add(two));
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
        for (round, word) in rounds.iter().zip(&schedule) {
            let one = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let chosen = e & f ^ !e & g;
            let first = h.wrapping_add(one).wrapping_add(chosen).wrapping_add(*round).wrapping_add(*word);
            let two = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let second = two.wrapping_add(a & b ^ a & c ^ b & c);
            (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(first), c, b, a, first.wrapping_add(second));
        }
        for (old, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *old = old.wrapping_add(new);
        }
    }
    state.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// The first 64 primes.
fn primes() -> impl Iterator<Item = u32> {
    (2_u32..).filter(|number| (2..*number).all(|divisor| number % divisor != 0)).take(64)
}

/// The first 32 bits behind the point.
fn fraction(number: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2^32 and not negative")]
    let bits = (number.fract() * 4_294_967_296.0) as u32;
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hashes_are_those_of_everybody_else() {
        assert_eq!(hex(&md5(b"")), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(&md5(b"abc")), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(hex(&md5(&[b'a'; 1000])), "cabe45dcc9ae5b66ba86600cca6b8ba8");
        assert_eq!(hex(&sha256(b"")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(hex(&sha256(b"abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(hex(&sha256(&[b'a'; 1000])), "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3");
    }
}
