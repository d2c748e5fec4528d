//! KTX2 pictures with Basis Universal textures: ETC1S and UASTC.

use basisu::{DecodeFlags, Error, SourceFormat, TargetFormat, Transcoder};
use image::RgbaImage;

/// The first bytes of a KTX2 file (section 3.1 of its specification, version 2.0).
const IDENTIFIER: &[u8] = b"\xABKTX 20\xBB\r\n\x1A\n";
/// Where the index of levels begins, and the bytes of one of its entries.
const LEVEL_INDEX: usize = 80;
const LEVEL_BYTES: usize = 24;
/// Levels of a picture with sides of 2^31 pixels.
const MAX_LEVELS: u32 = 32;
/// Bytes of a block of 4x4 pixels in UASTC.
const BLOCK_BYTES: u64 = 16;
/// The supercompression with Zstandard.
const ZSTANDARD: u32 = 2;
/// What to do with other files.
const ADVICE: &str = "convert it with `gltf-transform uastc` or `gltf-transform etc1s`, or to PNG, JPEG or WebP";

/// Returns whether this is a KTX2 file.
pub fn is_ktx2(bytes: &[u8]) -> bool {
    bytes.starts_with(IDENTIFIER)
}

/// Decodes the largest level whose sides have at most `side` pixels, or the smallest one if all are larger. A level that has more than
/// `max_bytes` when it is decoded is refused.
pub fn decode(bytes: &[u8], side: u32, max_bytes: u64) -> Result<RgbaImage, String> {
    let header = Header::read(bytes)?;
    header.check()?;
    let fits = |level: &u32| header.size(*level).0.max(header.size(*level).1) <= side;
    let level = (0..header.levels).find(fits).unwrap_or(header.levels - 1);
    let (width, height) = header.size(level);
    if u64::from(width) * u64::from(height) * 4 > max_bytes {
        return Err(format!("it has {width}x{height} pixels, which are more than fit into {max_bytes} bytes"));
    }
    let texture = Transcoder::new(bytes).map_err(|error| words(&error))?;
    let format = texture.source_format();
    if !matches!(format, SourceFormat::Etc1s | SourceFormat::UastcLdr) {
        return Err(format!("its Basis Universal format is neither ETC1S nor UASTC: {ADVICE}"));
    }
    // The library reserves what the file says before it decompresses.
    let blocks = u64::from(width.div_ceil(4)) * u64::from(height.div_ceil(4));
    if header.supercompression == ZSTANDARD && decompressed_bytes(bytes, level) != Some(blocks * BLOCK_BYTES) {
        return Err("it is damaged: a level has another length than its size".into());
    }
    let pixels = texture.transcode(level, TargetFormat::Rgba32, DecodeFlags::NONE).map_err(|error| words(&error))?;
    RgbaImage::from_raw(width, height, pixels).ok_or_else(|| "it is damaged: it has too few pixels".into())
}

fn words(error: &Error) -> String {
    match error {
        Error::InvalidData | Error::Truncated | Error::InvalidImageOrLevel => "it is damaged".into(),
        Error::VideoRequiresState => "it is a video".into(),
        other => format!("its Basis Universal texture cannot be decoded: {other:?}"),
    }
}

/// The fields of a KTX2 header that matter.
struct Header {
    /// A format of Vulkan, or 0 for Basis Universal.
    format: u32,
    width: u32,
    height: u32,
    depth: u32,
    layers: u32,
    faces: u32,
    levels: u32,
    supercompression: u32,
}

impl Header {
    fn read(bytes: &[u8]) -> Result<Self, String> {
        let field = |number: usize| {
            let at = IDENTIFIER.len() + 4 * number;
            let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
            word.map(u32::from_le_bytes).ok_or("it ends within its header")
        };
        Ok(Self {
            format: field(0)?,
            width: field(2)?,
            height: field(3)?,
            depth: field(4)?,
            layers: field(5)?,
            faces: field(6)?,
            levels: field(7)?.max(1),
            supercompression: field(8)?,
        })
    }

    fn check(&self) -> Result<(), String> {
        if self.format != 0 {
            return Err(format!(
                "it is a KTX2 file in Vulkan's format {}, not in Basis Universal: {ADVICE}",
                self.format
            ));
        }
        if self.depth > 1 || self.layers > 1 || self.faces != 1 {
            return Err(format!("it is a KTX2 file with several pictures: {ADVICE}"));
        }
        if self.width == 0 || self.height == 0 || self.levels > MAX_LEVELS {
            return Err("it is damaged: its header has impossible sizes".into());
        }
        Ok(())
    }

    /// Returns the size of a level in pixels.
    fn size(&self, level: u32) -> (u32, u32) {
        let side = |side: u32| side.checked_shr(level).unwrap_or(0).max(1);
        (side(self.width), side(self.height))
    }
}

/// Returns how long a level is after decompression, as the file says.
fn decompressed_bytes(bytes: &[u8], level: u32) -> Option<u64> {
    let at = LEVEL_INDEX + LEVEL_BYTES * level as usize + 16;
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
pub(crate) mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// A picture of 32x32 pixels with a colour in each quarter, encoded by Basis Universal 2.10 as ETC1S, and as UASTC with Zstandard.
    pub const FILES: [&str; 2] = [
        "q0tUWCAyMLsNChoKAAAAAAEAAAAgAAAAIAAAAAAAAAAAAAAAAQAAAAEAAAABAAAAaAAAACwAAACUAAAAJAAAALgAAAAAAAAAmQAAAAAAAABRAQAAAAAAABQAAAAAAAAAAAAAAAAAAAAsAAAAAAAAAAIAKACjAQIAAwMAAAgAAAAAAAAAAAA/AAAAAAAAAAAA/////x8AAABLVFh3cml0ZXIAQmFzaXMgVW5pdmVyc2FsIDIuMTAAAAQAAwAyAAAADQAAADIAAAAAAAAAAAAAAAAAAAAUAAAAAAAAAAAAAAAgQJyAAQAAQJAzAzdcAFMABAAAAEDQ7ocNwByAAAAAABBGZ2YATAAIAAAAAEGxyW6B61RVVVUFAAAAqKqqqgIUwIQAAQAAABDkhUgAmAAAAAAAAEAgAuIGEAAgCMROCUfxJSPoJgkAJgAAAAAAABBAADvP5vfbZJpMExKC0BtVRxAKCUEI",
        "q0tUWCAyMLsNChoKAAAAAAEAAAAgAAAAIAAAAAAAAAAAAAAAAQAAAAEAAAACAAAAaAAAACwAAACUAAAAJAAAAAAAAAAAAAAAAAAAAAAAAAC4AAAAAAAAAGkAAAAAAAAAAAQAAAAAAAAsAAAAAAAAAAIAKACmAQIAAwMAABAAAAAAAAAAAAB/AAAAAAAAAAAA/////x8AAABLVFh3cml0ZXIAQmFzaXMgVW5pdmVyc2FsIDIuMTAAACi1L/1gAAP9AgD4FxnF43/QxwCXAsXjP1FsAReZ2+P/vFkAl4Lb438Ueh0AAIFABACBQAQAgUAEAIFABACBQAQAgUAEDE5TcDJAIhABQCAQAUAgEAFAIBABQCAQASDQHCJQcHIzYyAAFw==",
    ];
    /// The colours of the quarters, from the left to the right and from the top down.
    const COLOURS: [[u8; 3]; 4] = [[200, 40, 30], [20, 40, 30], [200, 220, 30], [20, 220, 30]];
    const MAX_BYTES: u64 = 1 << 20;

    pub fn file(number: usize) -> Vec<u8> {
        STANDARD.decode(FILES[number]).expect("base64")
    }

    #[test]
    fn etc1s_and_uastc_have_the_colours_that_were_encoded() {
        for number in 0..FILES.len() {
            let picture = decode(&file(number), 1_024, MAX_BYTES).expect("a picture");
            assert_eq!(picture.dimensions(), (32, 32));
            for ((x, y), colour) in [(8, 8), (24, 8), (8, 24), (24, 24)].into_iter().zip(COLOURS) {
                let found = picture.get_pixel(x, y).0;
                let close = found.iter().zip(colour).all(|(found, wanted)| found.abs_diff(wanted) < 12);
                assert!(close, "{number} has {found:?} in place of {colour:?}");
            }
        }
    }

    #[test]
    fn damaged_and_other_files_are_refused_in_words() {
        for number in 0..FILES.len() {
            let whole = file(number);
            for length in 12..whole.len() {
                let refused = decode(&whole[..length], 1_024, MAX_BYTES).expect_err("it is too short");
                assert!(!refused.is_empty());
            }
            for at in 12..whole.len() {
                for bits in [1, 0x80, 0xFF] {
                    let mut damaged = whole.clone();
                    damaged[at] ^= bits;
                    // Damage may also be another picture.
                    let _ = decode(&damaged, 1_024, MAX_BYTES);
                }
            }
            for (at, value, words) in
                [(12, 37, "Vulkan's format 37"), (36, 6, "several pictures"), (20, 0, "impossible")]
            {
                let mut other = whole.clone();
                other[at] = value;
                let refused = decode(&other, 1_024, MAX_BYTES).expect_err("it is not read");
                assert!(refused.contains(words), "{refused}");
            }
            let refused = decode(&whole, 1_024, 1_000).expect_err("it is too large");
            assert!(refused.contains("32x32"), "{refused}");
        }
        let mut huge = file(1);
        huge[LEVEL_INDEX + 21] = 0x40;
        assert!(decode(&huge, 1_024, MAX_BYTES).is_err_and(|refused| refused.contains("another length")));
    }
}
