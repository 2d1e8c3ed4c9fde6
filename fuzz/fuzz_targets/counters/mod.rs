//! The modules of `msgpath-agent` alone, for a fuzz target.

#[path = "../../../crates/agent/src/counters/parse.rs"]
mod parse;

pub fn all(text: &str) {
    let mut count = 0;
    {
        let mut emit = |name: &str, _: u64| {
            assert!(!name.is_empty());
            count += 1;
        };
        parse::pairs(text, "TcpExt:", &mut emit);
        for each in [
            parse::snmp,
            parse::snmp6,
            parse::softnet,
            parse::devices,
            parse::stat,
            parse::interrupts,
            parse::cpu_stat,
            parse::pressure,
        ] {
            each(text, &mut emit);
        }
        parse::number(text, "rx_dropped", &mut emit);
    }
    assert!(count <= 8 * text.len() + 8, "more counters than text");
}
