//! The presets of the primitives lab, in small.

use crate::command::Home;

#[test]
fn the_copy_ladder_leaves_its_page_its_csv_its_script_and_its_pictures() {
    let home = Home::new();
    let folder = home.path().join("out");
    let line = format!(
        "preset copy-ladder -v -o {} -- --pieces 8x8,8x64 --threads 1 --time 60ms --warmup 5ms --rounds 6",
        folder.display()
    );
    let output = home.run(&line);
    if output.err.contains("error[E40]") {
        eprintln!("skipped: the grid could not be measured between namespaces ({})", output.err.trim());
        return;
    }
    output.ends_with(0).shows(&["1. Throughput", "cannot be answered on this path, because"]);
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let course = text("course.csv");
    assert!(course.starts_with("impl,msg_size,threads,throughput_gbps,avg_latency_us,cycles,l1_misses,llc_misses,"));
    // Five methods at two sizes; every one moved bytes.
    assert_eq!(course.lines().count(), 11, "{course}");
    for line in course.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        assert!(fields[3].parse::<f64>().unwrap() > 0.0 && fields[4].parse::<f64>().unwrap() > 0.0, "{line}");
        // Whatever stays on this machine is copied after all.
        assert_eq!(fields[11], if fields[0] == "A3" { "100" } else { "" }, "{line}");
    }
    assert!(text("plots.py").contains("ROWS = [") && text("msgpath.csv").contains(",implied_in_flight,"));
    for picture in ["throughput-size", "latency-threads", "scaling-threads", "bars", "cache-misses", "cycles-per-byte"]
    {
        assert!(text(&format!("{picture}.svg")).starts_with("<svg"), "{picture}");
    }
    let page: crate::printed::Value = serde_json::from_str(&text("answers.json")).unwrap();
    assert_eq!(page["answers"].as_array().unwrap().len(), 6);
}
