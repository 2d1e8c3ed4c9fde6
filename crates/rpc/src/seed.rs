//! The lab's pseudo-random numbers, and the keys and values that it makes with them.

/// The lab's 32-bit shift register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lfsr(u32);

impl Lfsr {
    /// Starts from `seed`; 0 would stay 0, so it becomes 2^32-1.
    pub fn new(seed: u32) -> Self {
        Self(if seed == 0 { u32::MAX } else { seed })
    }

    /// The next value; never 0.
    pub fn step(&mut self) -> u32 {
        self.0 = (self.0 << 1) ^ if self.0 >> 31 == 1 { 0x04c1_1db7 } else { 0 };
        self.0
    }

    pub fn value(self) -> u32 {
        self.0
    }
}

/// Longest piece that is drawn; longer padding repeats it.
const BLOCK: usize = 256;

/// `base` padded to `length` bytes. A base that is as long already stays as it is, and nothing is drawn.
pub fn padded(base: &[u8], length: usize, seed: &mut Lfsr) -> Vec<u8> {
    let mut out = Vec::with_capacity(length.max(base.len()));
    put_padded(&mut out, base, length, seed);
    out
}

/// Appends what [`padded`] returns.
pub fn put_padded(out: &mut Vec<u8>, base: &[u8], length: usize, seed: &mut Lfsr) {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";
    let start = out.len();
    out.extend_from_slice(base);
    if base.len() >= length {
        return;
    }
    for at in 0..length.min(BLOCK).saturating_sub(base.len()) {
        if at % 5 == 0 {
            out.push(b'_');
        } else {
            out.push(LETTERS[(seed.value() & 31) as usize]);
            seed.step();
        }
    }
    out.reserve(length - (out.len() - start));
    // What is there is whole blocks, so that each copy may double it.
    while out.len() - start < length {
        let there = out.len() - start;
        out.extend_from_within(start..start + there.min(length - there));
    }
}

/// The next of a row of keys: the last character goes up by one, with carry to the left at `9`, `z`, `Z` and above
/// 0x7e. A carry out of the first is dropped.
pub fn increment(base: &mut [u8]) {
    for byte in base.iter_mut().rev() {
        *byte = match *byte {
            b'9' => b'0',
            b'z' => b'a',
            b'Z' => b'A',
            above if above > 0x7e => 0x21,
            other => {
                *byte = other + 1;
                return;
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_register_steps_as_the_labs_does() {
        let mut register = Lfsr::new(1);
        let steps: Vec<u32> = (0..40).map(|_| register.step()).collect();
        assert!(steps[..31].iter().enumerate().all(|(at, value)| *value == 2 << at));
        let rest = [
            0x04c1_1db7,
            0x0982_3b6e,
            0x1304_76dc,
            0x2608_edb8,
            0x4c11_db70,
            0x9823_b6e0,
            0x3486_7077,
            0x690c_e0ee,
            0xd219_c1dc,
        ];
        assert_eq!(steps[31..], rest);
        assert_eq!(Lfsr::new(0).value(), u32::MAX);
    }

    /// The block of 256 bytes that the reference gives.
    const BLOCK_OF_VVVVV: &str = concat!(
        "vvvvv_bcei_qaaa_aaaa_aaaa_aaaa_aaaa_aaaa_aaaa_xo2y_qaxo_2pjs_tgmy_ho2y_qaaa_xzfk_drv3_n0dg_mp42_yqaa_xzst_",
        "rctg_mpjf_ku54_lbct_g1bv_30ui_hzse_iqax_olbv_3n0d_gmyq_aaxz_f3nn_0dg1_bctg_myhz_strc_trv3_0uih_olbv_30ui_",
        "holb_v30u_iqax_zsei_qxol_wmyh_zstg_mpjs_eihz_",
    );

    #[test]
    fn long_padding_repeats_its_first_256_bytes() {
        let value = padded(b"vvvvv", 300, &mut Lfsr::new(1));
        assert_eq!(BLOCK_OF_VVVVV.len(), 256);
        assert_eq!(text(&value[..256]), BLOCK_OF_VVVVV);
        assert_eq!(text(&value[256..]), &BLOCK_OF_VVVVV[..44]);

        let mut seed = Lfsr::new(1);
        let first = padded(b"vvvvv", 100_000, &mut seed);
        let mut ids = vec![seed.step()];
        let second = padded(b"vvvvv", 100_000, &mut seed);
        ids.push(seed.step());
        for _ in 0..2 {
            padded(b"vvvvv", 100_000, &mut seed);
            ids.push(seed.step());
        }
        assert_eq!(ids, [0xe3c4_7253, 0x544a_d242, 0x7378_d807, 0x5024_f2d8]);
        assert_eq!(text(&second[..31]), "vvvvv_trv3_0uiq_aaaa_axzs_e54l_");
        let digest: String = Sha256::digest(&first).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, "48eda12b4ef4294f6857e9e9c5a5a81514255535f13e73f09918b7affde5ad18");
    }

    #[test]
    fn keys_and_values_of_a_row_of_writes() {
        let mut seed = Lfsr::new(1);
        let (mut key, mut value) = (b"kkkkk".to_vec(), b"valuekkk_0000".to_vec());
        let golden = [
            ("kkkkk_bce", "valuekkk_0000_iqaa_aaaa_aaaa_aaaa_aaaa_a", 0x0200_0000),
            ("kkkkl_aaa", "valuekkk_0001_aaaa_xo2y_qaxo_2pjs_tgmy_h", 0x0762_b21c),
            ("kkkkm_2yq", "valuekkk_0002_aaax_zfkd_rv3n_0dgm_p42y_q", 0xd940_6bc0),
            ("kkkkn_axz", "valuekkk_0003_strc_tgmp_jfku_54lb_ctg1_b", 0x1845_1bdd),
        ];
        for (padded_key, padded_value, rpcid) in golden {
            assert_eq!(text(&padded(&key, 9, &mut seed)), padded_key);
            assert_eq!(text(&padded(&value, 40, &mut seed)), padded_value);
            assert_eq!(seed.step(), rpcid);
            increment(&mut key);
            increment(&mut value);
        }
    }

    #[test]
    fn a_base_that_is_long_enough_draws_nothing() {
        let mut seed = Lfsr::new(1);
        assert_eq!(padded(b"kkk", 3, &mut seed), b"kkk");
        assert_eq!(padded(b"kkk", 0, &mut seed), b"kkk");
        let long = vec![b'v'; 300];
        assert_eq!(padded(&long, 300, &mut seed), long);
        assert_eq!(seed.value(), 1);
        // A base longer than the block, padded further: the block is its first 256 bytes.
        let longer = padded(&long, 600, &mut seed);
        assert_eq!((longer.len(), seed.value()), (600, 1));
    }

    #[test]
    fn increments_carry_to_the_left() {
        for (from, to) in [
            ("k9", "l0"),
            ("l0", "l1"),
            ("zz", "aa"),
            ("aa", "ab"),
            ("9999", "0000"),
            ("aZ", "bA"),
            ("a\x7f", "b!"),
            ("~", "\x7f"),
            ("", ""),
        ] {
            let mut bytes = from.as_bytes().to_vec();
            increment(&mut bytes);
            assert_eq!(text(&bytes), to, "{from:?}");
        }
    }
}
