//! What tools would have said, for tests.

use crate::TURNS;
use crate::log::ToolRun;

/// What a tool prints of a round trip of so many ns.
fn says(name: &str, ns: f64) -> String {
    match name {
        "sockperf" => {
            let half = ns / 2e3;
            format!(
                "sockperf: Summary: Latency is {half:.3} usec\n---> percentile 99.000 = {half:.3}\n---> percentile 50.000 = {half:.3}\n"
            )
        }
        "qperf" => format!("tcp_lat:\n    latency  =  {:.0} ns\n", ns / 2.0),
        _ => format!("MEAN_LATENCY={:.2}\nP50_LATENCY={:.0}\nP99_LATENCY={:.0}\n", ns / 1e3, ns / 1e3, ns / 5e2),
    }
}

/// In each of the turns of a run of so many passes these tools say that a round trip of a case takes `factor` times 20 µs; two more
/// say nothing.
pub fn said(passes: u32, tools: &[(&str, u32, f64)]) -> Vec<ToolRun> {
    let each = |turn: u32| {
        tools.iter().map(move |(name, case, factor)| {
            // One percent of noise, so that there is an interval.
            let ns = 20e3 * factor * (1.0 + 0.01 * f64::from(turn % 3));
            let pass = turn * passes / TURNS;
            let output = says(name, ns);
            ToolRun { turn, pass, case: *case, tool: (*name).into(), output, ..ToolRun::default() }
        })
    };
    let mut said: Vec<ToolRun> = (0..TURNS).flat_map(each).collect();
    let (why, hint) = ("not installed".into(), "sudo apt install iperf3".into());
    said.push(ToolRun { tool: "neper".into(), why, hint, ..ToolRun::default() });
    said.push(ToolRun { tool: "of a later version".into(), ..ToolRun::default() });
    said
}
