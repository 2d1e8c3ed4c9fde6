//! What the next call carries: keys, values and ids in the lab's order of draws and increments.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use msgpath_rpc::command::{Step, Text};
use msgpath_rpc::seed::{Lfsr, increment, put_padded};

/// The shift registers of one connection. They run on for the whole run.
pub struct Draws {
    /// Letters of keys and values; with a single connection the ids as well, as in the lab.
    seed: Lfsr,
    /// With several connections: the register of ids, so that each is used once.
    ids: Option<Arc<AtomicU32>>,
}

impl Draws {
    /// The registers of each of `connections` connections.
    pub fn of(seed: u32, connections: u32) -> Vec<Draws> {
        let ids = (connections > 1).then(|| Arc::new(AtomicU32::new(Lfsr::new(seed).value())));
        (0..connections).map(|at| Draws { seed: Lfsr::new(seed.wrapping_add(at)), ids: ids.clone() }).collect()
    }

    /// The id of the next call; never 0.
    pub fn id(&mut self) -> u32 {
        let Some(ids) = &self.ids else { return self.seed.step() };
        let stepped = |value| Some(Lfsr::new(value).step());
        let before = ids.fetch_update(Ordering::Relaxed, Ordering::Relaxed, stepped).expect("always a next value");
        Lfsr::new(before).step()
    }
}

/// A key or a value that counts up.
struct Row {
    base: Vec<u8>,
    counts: bool,
    length: usize,
}

impl Row {
    fn new(text: &Text) -> Self {
        Self { base: text.base.clone().into_bytes(), counts: text.counts, length: text.length }
    }

    fn advance(&mut self, by: u64) {
        if self.counts {
            (0..by).for_each(|_| increment(&mut self.base));
        }
    }

    fn bytes(&self) -> usize {
        self.base.len().max(self.length)
    }
}

/// How a value was drawn: it can be made again to compare it with what is read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    base: Vec<u8>,
    length: usize,
    seed: Lfsr,
}

impl Drawn {
    pub fn value(&self) -> Vec<u8> {
        msgpath_rpc::seed::padded(&self.base, self.length, &mut self.seed.clone())
    }
}

/// Makes the calls of one command on one connection.
pub struct Maker {
    key: Option<Row>,
    value: Option<Row>,
    /// The value of `sink`, which is drawn once.
    sink: Option<Vec<u8>>,
    sinks: bool,
    /// Calls from one call of this connection to its next: the connections take turns.
    stride: u64,
}

impl Maker {
    /// For the connection number `at` of so many, which take turns.
    pub fn new(step: &Step, at: u32, connections: u32) -> Self {
        let row = |text: Option<&Text>| {
            text.map(|text| {
                let mut row = Row::new(text);
                row.advance(u64::from(at));
                row
            })
        };
        Self {
            key: row(step.sent_key()),
            value: row(step.sent_value()),
            sink: None,
            sinks: step.method == "sink",
            stride: u64::from(connections),
        }
    }

    /// Bytes of the next key; `None`: the call has none.
    pub fn key_bytes(&self) -> Option<usize> {
        self.key.as_ref().map(Row::bytes)
    }

    /// Bytes of the next value; `None`: the call has none.
    pub fn value_bytes(&self) -> Option<usize> {
        self.value.as_ref().map(Row::bytes)
    }

    /// Appends the next key. To be asked for before the value, as the lab draws.
    pub fn put_key(&mut self, out: &mut Vec<u8>, draws: &mut Draws) {
        if let Some(key) = &self.key {
            put_padded(out, &key.base, key.length, &mut draws.seed);
        }
    }

    /// Appends the next value.
    pub fn put_value(&mut self, out: &mut Vec<u8>, draws: &mut Draws) {
        let Some(value) = &self.value else { return };
        match &self.sink {
            Some(sink) => out.extend_from_slice(sink),
            None => {
                let start = out.len();
                put_padded(out, &value.base, value.length, &mut draws.seed);
                if self.sinks {
                    self.sink = Some(out[start..].to_vec());
                }
            }
        }
    }

    /// How the next value is going to be drawn. To be asked for between key and value.
    pub fn drawn(&self, draws: &Draws) -> Option<Drawn> {
        let value = self.value.as_ref()?;
        Some(Drawn { base: value.base.clone(), length: value.length, seed: draws.seed })
    }

    /// Goes on to the next call.
    pub fn advance(&mut self) {
        let stride = self.stride;
        [&mut self.key, &mut self.value].into_iter().flatten().for_each(|row| row.advance(stride));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_rpc::command::parse;

    fn step(line: &str) -> Step {
        parse(&line.split_whitespace().collect::<Vec<_>>()).unwrap().steps.remove(0)
    }

    fn next(maker: &mut Maker, draws: &mut Draws) -> (String, String, u32) {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        maker.put_key(&mut key, draws);
        maker.put_value(&mut value, draws);
        let id = draws.id();
        maker.advance();
        (String::from_utf8(key).unwrap(), String::from_utf8(value).unwrap(), id)
    }

    #[test]
    fn draws_come_in_the_labs_order() {
        // What client4 sends for -seed1 -rep 2 -k 2 write -key kkkkk + 9 -value valuekkk_0000 + 40
        let step = step("write -key kkkkk + 9 -value valuekkk_0000 + 40 -rep 2 -k 2");
        let (mut maker, mut draws) = (Maker::new(&step, 0, 1), Draws::of(1, 1).remove(0));
        for (key, value, id) in [
            ("kkkkk_bce", "valuekkk_0000_iqaa_aaaa_aaaa_aaaa_aaaa_a", 0x0200_0000),
            ("kkkkl_aaa", "valuekkk_0001_aaaa_xo2y_qaxo_2pjs_tgmy_h", 0x0762_b21c),
            ("kkkkm_2yq", "valuekkk_0002_aaax_zfkd_rv3n_0dgm_p42y_q", 0xd940_6bc0),
            ("kkkkn_axz", "valuekkk_0003_strc_tgmp_jfku_54lb_ctg1_b", 0x1845_1bdd),
        ] {
            assert_eq!(next(&mut maker, &mut draws), (key.into(), value.into(), id));
        }
    }

    #[test]
    fn a_sink_is_drawn_once() {
        let step = step("sink -key kk + -value vv + 12 -k 3");
        let (mut maker, mut draws) = (Maker::new(&step, 0, 1), Draws::of(1, 1).remove(0));
        for (key, id) in [("kk", 0x200), ("kl", 0x400), ("km", 0x800)] {
            assert_eq!(next(&mut maker, &mut draws), (key.into(), "vv_bcei_qaaa".into(), id));
        }
    }

    #[test]
    fn connections_share_the_keys_and_never_an_id() {
        let step = step("read -key k0 + -k 6");
        let mut draws = Draws::of(1, 3);
        let mut keys = Vec::new();
        let mut ids = std::collections::BTreeSet::new();
        let mut makers: Vec<Maker> = (0..3).map(|at| Maker::new(&step, at, 3)).collect();
        for call in 0..6 {
            let (key, _, id) = next(&mut makers[call % 3], &mut draws[call % 3]);
            keys.push(key);
            assert!(ids.insert(id) && id != 0);
        }
        assert_eq!(keys, ["k0", "k1", "k2", "k3", "k4", "k5"]);
    }

    #[test]
    fn a_value_can_be_made_again() {
        let step = step("write -key k -value vv + 300");
        let (mut maker, mut draws) = (Maker::new(&step, 0, 1), Draws::of(7, 1).remove(0));
        for _ in 0..3 {
            let drawn = maker.drawn(&draws).unwrap();
            let (_, value, _) = next(&mut maker, &mut draws);
            assert_eq!(drawn.value(), value.as_bytes());
        }
    }
}
