//! Calls of a key-value server, in words: which way they went, whose clock, how many a second, the estimate.

use std::borrow::Cow;

use crate::analyse::{PairClock, RpcConnections, RpcKind, RpcStage, WireEstimate};
use crate::record::{RpcFacts, Wire};
use msgpath_core::foreign::shown;
use msgpath_core::schema::DeviceKind;
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second, signed, three_digits};
use msgpath_record::Run;
use msgpath_stats::quantile::Quantile;

use msgpath_present::words::{chosen, counted, percent};

/// Which way the calls went: addresses, device, and whether there was a wire at all.
pub(crate) fn path_of_calls(run: &Run) -> String {
    let facts = run.header.parts.get::<RpcFacts>();
    let route = run.header.floors.as_ref().and_then(|floors| floors.route.as_ref());
    let mut parts = Vec::new();
    match (route, facts.and_then(|facts| facts.pairs.first())) {
        (Some(route), _) => {
            parts.push(format!("{} → {} over {}", route.from, route.to, route.device));
            parts.extend(route.mtu.map(|mtu| format!("MTU {mtu}")));
        }
        (None, Some(pair)) => parts.push(format!("{} → {}", pair.client, pair.server)),
        (None, None) => parts.push("not known".into()),
    }
    if let Some(more) = facts.map(|facts| facts.pairs.len()).filter(|pairs| *pairs > 1) {
        parts.push(format!("and {} of machines", counted(more as u64 - 1, "other pair")));
    }
    let same = facts.and_then(|facts| facts.pairs.iter().find_map(|pair| pair.same_machine.clone()));
    let every = facts.is_some_and(|facts| facts.pairs.iter().all(|pair| pair.same_machine.is_some()));
    let link = run.header.plan.options.between.as_ref().map_or("", |between| &between.properties);
    parts.push(match (same, route.map(|route| route.kind)) {
        (Some(why), _) if every && !link.is_empty() => {
            format!("same machine ({why}), over a shaped link: {}", shown(link))
        }
        (Some(why), _) if every => format!("same machine ({why}): no wire, no network was measured"),
        (_, Some(DeviceKind::Loopback)) => "same machine (loopback): no wire, no network was measured".into(),
        (_, Some(DeviceKind::Veth)) => "a pair between namespaces of this machine".into(),
        _ => match facts.and_then(wire_of) {
            Some(wire) => format!("a wire {wire}"),
            None => "speed of the wire not known".into(),
        },
    });
    parts.join(", ")
}

/// `TLS 1.3, TLS_AES_128_GCM_SHA256, h2; 8 handshakes: p50 1.20 ms, p99 2.00 ms, behind connecting (p50 0.1 ms)`.
pub(crate) fn connections(connections: &RpcConnections, glyphs: Glyphs) -> String {
    let RpcConnections { tls, cipher, alpn, full, resumed, connect, handshake, streams, .. } = connections;
    let at = |times: &[Quantile], p: f64| {
        let found = times.iter().find(|quantile| quantile.p == p).and_then(|quantile| quantile.ns);
        found.map_or_else(|| "n/a".into(), |ns| glyphs.time(ns as f64))
    };
    let mut names: Vec<Cow<'_, str>> =
        [tls, cipher, alpn].into_iter().filter(|text| !text.is_empty()).map(|text| shown(text)).collect();
    if tls.is_empty() {
        names.push("HTTP/2 without TLS".into());
    }
    let mut parts = vec![names.join(", ")];
    if full + resumed > 0 {
        let resumed = match resumed {
            0 => String::new(),
            resumed => format!(" ({resumed} resumed a session)"),
        };
        let p99 = match full + connections.resumed {
            0..100 => String::new(),
            _ => format!(", p99 {}", at(handshake, 0.99)),
        };
        parts.push(format!(
            "{}{resumed}: p50 {}{p99}, each after connecting (p50 {})",
            counted(full + connections.resumed, "handshake"),
            at(handshake, 0.5),
            at(connect, 0.5)
        ));
    }
    // 2^31 and more: no limit is named.
    if let Some(streams) = streams.filter(|streams| *streams < 1 << 31) {
        parts.push(format!("the server allows {streams} streams at a time"));
    }
    parts.join("; ")
}

/// `at 1.00 Gbit/s (link speed of eth0)`; `None` where no speed is known.
pub(crate) fn wire_of(facts: &RpcFacts) -> Option<String> {
    let Wire { bits_per_s, from } = facts.wire.as_ref()?;
    let speed = chosen(&bits_per_second(*bits_per_s as f64, BitUnits::Si));
    Some(if from.is_empty() { format!("at {speed}") } else { format!("at {speed} ({from})") })
}

/// The clocks of a pair of machines, in a line.
pub(crate) fn clock(facts: Option<&RpcFacts>, clock: &PairClock) -> String {
    let pair = facts.and_then(|facts| facts.pairs.get(clock.pair as usize));
    let name = pair.map_or_else(String::new, |pair| format!("{} → {}: ", pair.client, pair.server));
    let text = match (clock.same, pair.and_then(|pair| pair.same_machine.as_deref())) {
        (true, Some(why)) => format!("same machine ({why}): clocks identical"),
        (true, None) => "same machine: clocks identical".into(),
        (false, _) if clock.text.is_empty() => "how the clocks stand to each other is not known".into(),
        (false, _) => clock.text.clone(),
    };
    let against = match clock.contradicting {
        0 => String::new(),
        n => format!("; {} contradict{} the bound", counted(n, "call"), if n == 1 { "s" } else { "" }),
    };
    format!("{name}{text}{against}")
}

/// RPC/s of calls that succeeded, by the wall clock and by the sum of response times, and MB/s sent and received by the wall clock; `n/a` where
/// no time passed, or where no length is known. MB are 10^6 bytes.
pub(crate) fn rates(kind: &RpcKind) -> [String; 4] {
    let replied = kind.calls.saturating_sub(kind.unanswered);
    let (answered, succeeded) = (replied as f64, replied.saturating_sub(kind.failed));
    let (succeeded, seen) = (succeeded as f64, succeeded.saturating_sub(kind.unseen) as f64);
    let over = |amount: f64, ns: u64| {
        if ns == 0 { "n/a".into() } else { three_digits(amount / (ns as f64 / 1e9)) }
    };
    [
        over(succeeded, kind.wall_ns),
        over(seen, kind.response_ns),
        kind.request_bytes.map_or("n/a".into(), |bytes| over(kind.calls as f64 * bytes / 1e6, kind.wall_ns)),
        kind.reply_bytes.map_or("n/a".into(), |bytes| over(answered * bytes / 1e6, kind.wall_ns)),
    ]
}

/// The estimate beside what was measured, and where the measured time went; `None` without an estimate.
/// `open`: the median is from the intended send, the parts are those of T4 - T1.
pub(crate) fn expected_call(kind: &RpcKind, facts: Option<&RpcFacts>, open: bool, glyphs: Glyphs) -> Option<String> {
    let expected = kind.expected?;
    let (estimate, measured) = (chosen(&glyphs.time(expected.estimate_ns)), glyphs.time(expected.measured_ns));
    let difference = expected.measured_ns - expected.estimate_ns;
    let mut text = format!(
        "estimate {estimate}   measured {measured}   factor {}   difference {}",
        three_digits(expected.factor),
        signed(difference, |ns| glyphs.time(ns))
    );
    let band = kind.bands.iter().find(|band| band.name == "p50").or_else(|| kind.bands.first());
    if let Some(band) = band.filter(|band| band.latency_ns > 0.0) {
        let mut parts: Vec<_> = band.parts.iter().filter(|part| part.ns > 0.0).collect();
        parts.sort_by(|a, b| b.ns.total_cmp(&a.ns));
        let named: Vec<String> = parts
            .iter()
            .take(3)
            .map(|part| {
                let wire = wire(kind, part.stage).map_or_else(String::new, |ns| {
                    let speed = facts.and_then(|facts| facts.wire.as_ref());
                    let speed = speed.map_or_else(String::new, |wire| {
                        format!(" at {}", chosen(&bits_per_second(wire.bits_per_s as f64, BitUnits::Si)))
                    });
                    format!(", wire estimate {}{speed}", glyphs.time(ns))
                });
                let share = percent(part.ns / band.latency_ns);
                format!("{} {} ({share}{wire})", part.stage.name(), glyphs.time(part.ns))
            })
            .collect();
        let what = if open { "T4 - T1" } else { "it" };
        text += &format!("; {what} went into {}", named.join(", "));
    }
    Some(text)
}

/// Estimated time on the wire within a part, ns.
fn wire(kind: &RpcKind, stage: RpcStage) -> Option<f64> {
    let WireEstimate { request, reply } = kind.wire_ns?;
    match stage {
        RpcStage::RequestPath => Some(request),
        RpcStage::ReplyPath => Some(reply),
        RpcStage::BothPaths => Some(request + reply),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Handshakes;
    use crate::testing::{Calls, S, shaken};

    #[test]
    fn connections_say_what_they_speak_and_cost() {
        let said = |handshakes: Handshakes| {
            let rpc = Calls::new(1, 0.0, 0.0).pings(20, S).over(handshakes).rpc();
            connections(&rpc.connections.unwrap(), Glyphs::Ascii)
        };
        let text = said(Handshakes { alpn: "h2\u{7}".into(), streams: Some(128), ..shaken(3, 1) });
        assert!(text.starts_with("TLS 1.3, h2") && !text.contains('\u{7}'), "{text}");
        let rest = "; 3 handshakes (1 resumed a session): p50 1.20 ms, each after connecting (p50 100 us); the server allows 128";
        assert!(text.contains(rest), "{text}");
        let mut clear = Handshakes::default();
        clear.note(1000, None, Some(u64::MAX));
        assert_eq!(said(clear), "HTTP/2 without TLS");
    }
}
