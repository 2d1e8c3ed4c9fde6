//! The wait by signals, as a user starts it.

use crate::command::Home;

#[test]
fn signals_are_counted_on_every_transport_that_has_them() {
    for path in ["tcp:send", "udp:send", "unix:send", "pipe:write"] {
        let output = Home::new().run(&format!("echo -w 0 -o what-ifs=no --no-save --json -x {path}/sigio -c 500 -r 5"));
        let case = output.ends_with(0).json()["cases"][0].clone();
        assert_eq!(case["delivery"]["received"], 500, "{path}");
        for end in [0, 1] {
            // One message in flight: at most a signal each, but for those that find the receiver awake.
            let signals = case["ends"][end]["calls"]["signals"].as_u64().unwrap();
            assert!(signals > 0, "{path} {end}: {}", case["ends"][end]["calls"]);
            assert!(
                case["ends"][end]["calls"]["recv_empty"].as_u64().unwrap() > 0,
                "{path} {end}: nothing was looked for in vain"
            );
        }
    }
}

#[test]
fn the_table_says_what_was_merged_and_real_time_signals_are_had() {
    let home = Home::new();
    let text = home.run("echo -w 0 -o what-ifs=no --no-save -x unix:send/sigio -c 300 -r 5").ends_with(0).out.clone();
    assert!(text.contains("signals for"), "{text}");
    home.run("echo -w 0 -o what-ifs=no --no-save -x udp:send/sigio -o queued-signals=yes -c 300 -r 5").ends_with(0);
    home.run("stream -w 0 --no-save -x unixgram:send/sigio -l 64 -t 200ms -r 2").ends_with(0);
}

#[test]
fn a_transport_without_a_signal_says_why() {
    let home = Home::new();
    for (path, part) in [("mq:send/sigio", "mq_notify"), ("shm/sigio", "not a descriptor")] {
        let output = home.run(&format!("echo -x {path}")).ends_with(2);
        assert!(output.err.contains(part), "{path}: {}", output.err);
    }
}
