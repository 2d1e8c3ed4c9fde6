//! A small PNG (ISO/IEC 15948): 8 bits a pixel, a palette, nothing else.

use miniz_oxide::deflate::compress_to_vec_zlib;

/// Effort of deflate, 0 to 10.
const EFFORT: u8 = 9;

/// `pixels` are indices into `palette` (red, green, blue, opacity), row by row from the top; their number is a multiple
/// of `width`.
pub fn indexed(width: usize, pixels: &[u8], palette: &[[u8; 4]]) -> Vec<u8> {
    let height = pixels.len() / width.max(1);
    let mut header = Vec::with_capacity(13);
    header.extend((width as u32).to_be_bytes());
    header.extend((height as u32).to_be_bytes());
    header.extend([8, 3, 0, 0, 0]); // bits, palette, deflate, filters, not interlaced
    // Every row starts with the number of its filter: none.
    let rows: Vec<u8> = pixels.chunks_exact(width.max(1)).flat_map(|row| [&[0], row].concat()).collect();
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut out, b"IHDR", &header);
    chunk(&mut out, b"PLTE", &palette.iter().flat_map(|colour| &colour[..3]).copied().collect::<Vec<u8>>());
    chunk(&mut out, b"tRNS", &palette.iter().map(|colour| colour[3]).collect::<Vec<u8>>());
    chunk(&mut out, b"IDAT", &compress_to_vec_zlib(&rows, EFFORT));
    chunk(&mut out, b"IEND", &[]);
    out
}

fn chunk(out: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    out.extend((data.len() as u32).to_be_bytes());
    let from = out.len();
    out.extend(kind);
    out.extend(data);
    let sum = crc32(&out[from..]);
    out.extend(sum.to_be_bytes());
}

/// CRC-32 as in annex D, bit by bit: a picture has a few kilobytes.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chunks_are_whole_and_the_pixels_come_back() {
        let pixels = [0, 1, 2, 2, 1, 0];
        let png = indexed(3, &pixels, &[[0, 0, 0, 0], [1, 2, 3, 255], [9, 8, 7, 255]]);
        assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
        let mut rest = &png[8..];
        let mut kinds = Vec::new();
        while let Some((length, tail)) = rest.split_first_chunk::<4>() {
            let length = u32::from_be_bytes(*length) as usize;
            let (body, tail) = tail.split_at(4 + length);
            assert_eq!(crc32(body).to_be_bytes(), tail[..4]);
            if &body[..4] == b"IDAT" {
                let rows = miniz_oxide::inflate::decompress_to_vec_zlib(&body[4..]).unwrap();
                assert_eq!(rows, [0, 0, 1, 2, 0, 2, 1, 0]);
            }
            kinds.push(String::from_utf8(body[..4].to_vec()).unwrap());
            rest = &tail[4..];
        }
        assert_eq!(kinds, ["IHDR", "PLTE", "tRNS", "IDAT", "IEND"]);
        // The check value of every CRC-32 table.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
