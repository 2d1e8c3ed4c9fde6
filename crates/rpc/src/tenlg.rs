//! Lengths in one byte: ten times the logarithm to base 2.

/// 2^(n/10) for n = 0 to 9 in ten-thousandths, to four digits, as the lab has them.
const FRACTIONS: [u64; 10] = [10_000, 10_718, 11_487, 12_311, 13_195, 14_142, 15_157, 16_245, 17_411, 18_661];

/// `round(10 log2(x))` for `x` up to 255. Larger ones are shifted right until 8 bits remain, at 10 a bit, so their low
/// bits are cut off. 0 for 0; at most 255.
pub fn tenlg(x: u64) -> u8 {
    if x == 0 {
        return 0;
    }
    let shift = (64 - x.leading_zeros()).saturating_sub(8);
    let value = (10.0 * ((x >> shift) as f64).log2() + 0.5).floor() as u32 + 10 * shift;
    value.min(255) as u8
}

/// The length that a byte stands for, within 4.5 %: as the lab's log reader has it, cut off.
pub fn from_tenlg(n: u8) -> u64 {
    ten_thousandths(n) / 10_000
}

/// The same, rounded: as the lab's wire library has it.
pub fn from_tenlg_rounded(n: u8) -> u64 {
    (ten_thousandths(n) + 5_000) / 10_000
}

fn ten_thousandths(n: u8) -> u64 {
    FRACTIONS[usize::from(n % 10)] << (n / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_back() {
        let golden: &[(&[u64], u8, u64, u64)] = &[
            (&[0, 1], 0, 1, 1),
            (&[2], 10, 2, 2),
            (&[3], 16, 3, 3),
            (&[5], 23, 5, 4),
            (&[9], 32, 9, 9),
            (&[14], 38, 14, 13),
            (&[22], 45, 23, 22),
            (&[30], 49, 30, 29),
            (&[68], 61, 69, 68),
            (&[75], 62, 74, 73),
            (&[88], 65, 91, 90),
            (&[100], 66, 97, 97),
            (&[255, 256, 257], 80, 256, 256),
            (&[304], 82, 294, 294),
            (&[1000], 100, 1024, 1024),
            (&[4096], 120, 4096, 4096),
            (&[65_536], 160, 65_536, 65_536),
            (&[100_000, 100_004], 166, 99_333, 99_332),
            (&[1_000_000, 1_000_009], 199, 978_374, 978_373),
            (&[1_048_576], 200, 1_048_576, 1_048_576),
            (&[10_000_000], 232, 9_635_994, 9_635_994),
            (&[16_777_215], 240, 16_777_216, 16_777_216),
        ];
        for (lengths, byte, rounded, cut) in golden {
            for length in *lengths {
                assert_eq!(tenlg(*length), *byte, "{length}");
            }
            assert_eq!((from_tenlg_rounded(*byte), from_tenlg(*byte)), (*rounded, *cut), "{byte}");
        }
        assert_eq!((tenlg((175 << 18) - 1), tenlg(47_453_132), tenlg(u64::MAX)), (254, 255, 255));
    }

    #[test]
    fn no_length_is_off_by_more_than_the_reference_says() {
        for length in 1..100_000_u64 {
            let back = from_tenlg_rounded(tenlg(length)) as f64;
            let off = (back / length as f64 - 1.0).abs();
            // Below 20 bytes a whole byte is more than that.
            assert!(off < 0.045 || (back - length as f64).abs() <= 1.0, "{length} becomes {back}");
        }
    }
}
