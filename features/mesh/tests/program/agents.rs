//! Forty agents in one process, and one coordinator: a small `benches/mesh_scale`.

#[path = "../../../../benches/agents/mod.rs"]
mod threads;

use std::time::Duration;

use msgpath_core::Plan;
use msgpath_core::plan::Extent;
use msgpath_mesh::schema::Pairs;

/// Longer than a wake-up takes on a busy machine.
const DELAY: Duration = Duration::from_millis(15);

#[test]
fn forty_agents_are_measured_and_the_slow_ones_stand_out() {
    let met = threads::mesh(&threads::Asked {
        agents: 40,
        pairs: Pairs::Sample { partners: 4 },
        at_once: 10,
        slow: Some(20),
        delay: DELAY,
        plan: threads::echo(|plan| Plan { rounds: 2, extent: Extent::Count(10), ..plan }),
    });
    println!("{met}");
    assert!(met.complete && met.pairs == 80, "{met}");
    assert_eq!((met.planted, met.largest), (2, 2), "{met}");
    assert_eq!(met.told, 40, "{met}");
    // Each of two rounds and their pilot is prepared, dialled, connected, started, let go and reported.
    let [frames, bytes] = met.control;
    assert!(frames > 80 * 20 && bytes > 80 * 20 * 16, "{met}");
    assert!(met.recorded.iter().all(|bytes| *bytes > 80 * 16), "{met}");
}
