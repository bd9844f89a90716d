//! Digests by which other tools identify the source of an image: A1111 stores the MD5 of its raw pixels, InvokeAI the
//! SHA-256 of its file. They are only compared with values that those tools wrote; Retake itself uses BLAKE3.

use std::fs::File;
use std::io;
use std::path::Path;

use md5::Md5;
use sha2::{Digest, Sha256};

use super::blobs::{ImageUnavailable, Images};

impl Images {
    /// Returns the MD5 of an image file's pixels as A1111 computes it (RGB, row by row), in hexadecimal digits.
    pub fn pixels_md5(&self, path: &Path) -> Result<String, ImageUnavailable> {
        self.with_file(path, |image| hex(&Md5::digest(image.pixels().to_rgb8().as_raw())))
    }
}

/// Returns the SHA-256 of a file in hexadecimal digits, reading it as a stream.
pub fn file_sha256(path: &Path) -> io::Result<String> {
    let mut hasher = HashingWriter(Sha256::new());
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(hex(&hasher.0.finalize()))
}

/// A writer that feeds a digest.
struct HashingWriter<D>(D);

impl<D: Digest> io::Write for HashingWriter<D> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::disk::Disk;

    #[test]
    fn file_digest_matches_published_test_vectors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("message");
        for (message, digest) in [
            (Vec::new(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            (b"abc".to_vec(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (vec![b'a'; 1_000_000], "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
        ] {
            fs::write(&path, message).unwrap();
            assert_eq!(file_sha256(&path).unwrap(), digest);
        }
        assert!(file_sha256(&dir.path().join("absent")).is_err());
    }

    #[test]
    fn pixel_digest_ignores_how_the_file_is_encoded() {
        let dir = tempfile::tempdir().unwrap();
        let images = Images::new(Disk::default(), dir.path());
        // One pixel of the bytes "abc", whose MD5 is a test vector of RFC 1321; an opaque alpha channel changes nothing.
        let rgb = image::RgbImage::from_raw(1, 1, b"abc".to_vec()).unwrap();
        let rgba = image::RgbaImage::from_raw(1, 1, b"abc\xff".to_vec()).unwrap();
        rgb.save(dir.path().join("rgb.png")).unwrap();
        rgba.save(dir.path().join("rgba.png")).unwrap();
        for name in ["rgb.png", "rgba.png"] {
            let digest = images.pixels_md5(&dir.path().join(name)).unwrap();
            assert_eq!(digest, "900150983cd24fb0d6963f7d28e17f72", "{name}");
        }
    }
}
