//! What words become which plan.

use super::*;
use crate::cli::tests::typed;
use msgpath_core::Exit;
use msgpath_core::Workload;
use msgpath_core::plan::{Expectation, Metric};
use msgpath_core::schema::{FAR, NEAR};

/// Path, size, connections and threads of every measured case.
fn cases(words: &str) -> Vec<(String, u64, u32, u32)> {
    let plan = typed(words).unwrap_or_else(|problem| panic!("{words}: {problem}")).plan;
    let measured = plan.cases.iter().filter(|case| case.role == CaseRole::Measured);
    measured.map(|case| (case.path.to_string(), case.size, case.connections, case.threads)).collect()
}

fn plan(words: &str) -> Plan {
    typed(words).unwrap_or_else(|problem| panic!("{words}: {problem}")).plan
}

#[track_caller]
fn refused(words: &str, code: &str, part: &str) {
    let problem = typed(words).expect_err(words);
    assert_eq!((problem.code.as_str(), problem.exit), (code, Exit::Usage), "{words}: {problem}");
    assert!(problem.to_string().contains(part), "{words}: {problem}");
}

#[test]
fn echo_without_a_word_measures_this_machine() {
    let request = typed("echo").unwrap();
    assert_eq!(request.target, Target::Local);
    let plan = request.plan;
    assert_eq!(cases("echo"), [("tcp:send".into(), 64, 1, 1)]);
    assert_eq!((plan.rounds, plan.extent, plan.warmup_ns), (40, Extent::Time(10 * SECOND), SECOND));
    assert_eq!((plan.trim, plan.message_log, plan.cases[0].reply), (DEFAULT_TRIM, DEFAULT_MESSAGE_LOG, 64));
    assert!(request.notes.is_empty() && plan.placement.of(NEAR).is_empty());
}

#[test]
fn a_count_decides_the_rounds() {
    for (words, rounds) in [
        ("echo -c 1", 1),
        ("echo -c 1000", 1),
        ("echo -c 1001", 2),
        ("echo -c 1M", 40),
        ("echo -c 1000 -r 20", 20),
        ("stream -c 20000", 10),
        ("echo -r 7 -t 1", 7),
    ] {
        assert_eq!(plan(words).rounds, rounds, "{words}");
    }
    assert_eq!(plan("echo -c 10k").extent, Extent::Count(10_000));
    assert_eq!(plan("echo -t 250ms").extent, Extent::Time(SECOND / 4));
    refused("echo -c 10 -r 20", "E11", "cannot be spread");
    refused("echo -c 0", "E11", "must be > 0");
    refused("echo -t 0", "E11", "must be > 0");
    refused("echo -t 1 -c 5", "E11", "cannot be used with");
}

#[test]
fn threads_and_connections() {
    assert_eq!(cases("echo -P 4"), [("tcp:send".into(), 64, 4, 4)]);
    assert_eq!(cases("echo -T 2"), [("tcp:send".into(), 64, 2, 2)]);
    assert_eq!(cases("echo -P 8 -T 2"), [("tcp:send".into(), 64, 8, 2)]);
    assert_eq!(cases("echo -T 1,2").len(), 2);
    refused("echo -P 3 -T 2", "E11", "cannot be shared evenly");
    refused("echo -T 1,2,3 -P 4", "E11", "3 threads");
    refused("echo -P 0", "E11", "--connections");
    refused("echo -P 257", "E11", "limit is 256");
    refused("echo --inflight 5000", "E11", "limit is 4096");
}

#[test]
fn sizes_and_pieces() {
    assert_eq!(cases("echo -l 64..1K").iter().map(|case| case.1).collect::<Vec<_>>(), [64, 256, 1024]);
    assert_eq!(cases("echo --pieces 15x100,30x50").iter().map(|case| case.1).collect::<Vec<_>>(), [1500, 1500]);
    assert_eq!(cases("stream")[0].1, 128 << 10);
    assert_eq!(cases("stream -x udp")[0].1, 1400);
    assert!(cases("stream -x tcp,udp").iter().all(|case| case.1 == 1400), "all carry the same");
    for path in msgpath_paths::all().into_iter().map(|entry| entry.name.to_string()) {
        assert!(typed(&format!("stream -x {path}")).is_ok(), "{path} has a size by default");
    }
    assert_eq!(plan("echo -l 64 --reply 1K").cases[0].reply, 1024);
    refused("echo -l 0", "E11", "0 bytes");
    refused("echo --reply 0", "E11", "0 bytes");
    refused("echo -l 2G", "E11", "1 GiB");
    refused("echo -l 99999999999G", "E11", "64 bits");
    refused("echo --pieces 1000x4G", "E11", "1 GiB");
    refused("echo -l 1M -c 99999999999999", "E11", "not a run");
    refused("echo -l 64 --pieces 2x32", "E11", "cannot be used with");
    refused("echo --pieces 15", "E11", "15x100");
    refused("echo -x udp:send -l 1M", "E07", "65507");
    refused("echo -x udp:send -l 64 --reply 1M", "E07", "65507");
    refused("echo -x udp:send -l 65527", "E07", "65507 bytes over IPv4, 65527 over IPv6");
    refused("echo -x udp:send -l 65528 -o ip=6", "E07", "largest here: 65527 bytes");
    refused("echo -x udp:send -l 65528 [fd00::2]", "E07", "largest here: 65527 bytes");
    assert_eq!(plan("echo -x udp:send -l 65527 -o ip=6").cases[0].size, 65_527);
}

#[test]
fn paths_come_from_options_and_targets() {
    for (words, path) in [
        ("echo -o wait=spin", "tcp:send/spin"),
        ("echo udp://hostB", "udp:send"),
        ("echo shm:demo", "shm:ring/futex"),
        ("echo -x writev", "tcp:writev"),
        ("echo -x pipe", "pipe:write"),
        ("echo -x unix:send unix:/tmp/x", "unix:send"),
        ("echo -x shm:ring/futex -o wait=spin", "shm:ring/futex"),
    ] {
        assert_eq!(cases(words)[0].0, path, "{words}");
    }
    assert_eq!(cases("echo -x tcp:send,unix:send,tcp:send").len(), 2);
    refused("echo -x tcp:sned", "E09", "tcp:sned");
    refused("echo -x TCP:SEND", "E09", "tcp:send");
    refused("echo -x unix:send 10.0.0.2", "E10", "stays on one machine");
    refused("echo -x tcp:send udp://10.0.0.2", "E10", "udp");
    refused("echo -x udp:send tcp://10.0.0.2", "E10", "tcp");
    refused("compare -x tcp:send --baseline unix:send", "E11", "not among");
    refused("compare --baseline all", "E11", "one path");
    refused("echo --baseline tcp:send", "E11", "--baseline is an option of compare");
}

#[test]
fn all_paths_are_those_that_reach_the_target() {
    let here = cases("compare -x all -l 64 -r 5");
    let there = cases("compare -x all hostB -l 64 -r 5");
    let over_ip = |path: &str| ["tcp:", "udp:", "mptcp:"].iter().any(|transport| path.starts_with(transport));
    assert!(here.len() > there.len() && there.iter().all(|case| over_ip(&case.0)), "{there:?}");
    assert!(cases("compare -x all").iter().all(|case| case.1 == 64));
    let large = typed("compare -x all -l 64,1M -r 5").unwrap();
    assert!(large.notes.iter().any(|note| note.contains("left out: udp with 1 MiB")), "{:?}", large.notes);
}

#[test]
fn targets_and_ports() {
    assert_eq!(typed("echo hostB:99").unwrap().target.to_string(), "hostB:99");
    refused("echo hostB -p 99", "E11", "HOST:PORT");
    refused("echo hostB:78400", "E11", "12864");
    refused("echo http://hostB", "E11", "not a target");
    refused("stream -c hostB", "E02", "msgpath stream hostB");
    refused("echo -o bind=127.0.0.1,ip=6", "E11", "family");
    assert_eq!(plan("echo -o bind=127.0.0.1").options.bind.as_deref(), Some("127.0.0.1"));
}

#[test]
fn compare_without_a_word_fits_into_a_minute() {
    let plan = plan("compare");
    let measured: Vec<&Case> = plan.cases.iter().filter(|case| case.role == CaseRole::Measured).collect();
    assert_eq!(measured.len(), COMPARED.len() * COMPARED_SIZES.len());
    let controls: Vec<u64> =
        plan.cases.iter().filter(|case| case.role == CaseRole::Control).map(|case| case.size).collect();
    assert_eq!(controls, [64, 64 << 10]);
    assert_eq!(plan.rounds, 40);
    let wait = plan.wait_ns().unwrap();
    assert!((59 * SECOND..=60 * SECOND).contains(&wait), "{wait}");
    assert!(plan.cases.iter().enumerate().all(|(id, case)| case.id == id as u32));
    assert_eq!(plan.baseline.to_string(), "tcp:send");
}

#[test]
fn quick_is_rough_and_says_so() {
    for words in ["echo --quick", "stream --quick", "compare --quick", "compare -x tcp:send,unix:send -l 64 --quick"] {
        let request = typed(words).unwrap();
        let plan = &request.plan;
        let wait = plan.wait_ns().unwrap();
        assert!((2 * SECOND..=3 * SECOND).contains(&wait), "{words}: {wait}");
        assert_eq!((plan.rounds, plan.fewest_rounds), (8, 0), "{words}");
        assert!(!plan.try_causes && !plan.extend && !plan.refine && !plan.events, "{words}");
        assert!(request.notes.iter().any(|note| note.starts_with("a rough answer")), "{words}: {:?}", request.notes);
    }
    assert!(plan("echo --quick -o what-ifs=yes").try_causes);
    refused("echo --quick -t 5", "E11", "cannot be used with");
}

#[test]
fn compare_with_words_takes_them() {
    let one = plan("compare -x tcp:send,tcp:writev -l 64");
    assert_eq!((one.rounds, one.extent, one.cases.len()), (40, Extent::Time(2 * SECOND), 3));
    assert_eq!(one.cases[2].role, CaseRole::Control);
    assert_eq!(plan("compare -x tcp:send,unix:send --baseline unix:send").baseline.to_string(), "unix:send");
    assert_eq!(plan("compare -x tcp:send,unix:send").workload, Workload::ECHO);
    assert_eq!(plan("compare --stream").workload, Workload::STREAM);
    assert_eq!(plan("compare -x tcp:send,tcp:writev hostB -l 64").cases.len(), 3);
    assert_eq!(typed("compare -x tcp:send hostB").unwrap().target.to_string(), "hostB:5210");
    assert_eq!(typed("compare --metric p50").unwrap().plan.rounds, 40);
    let mixed = plan("compare -x tcp:send,udp:send -l 64,64K");
    assert_eq!(mixed.cases.iter().filter(|case| case.role == CaseRole::Measured).count(), 4);
    let controls = |words: &str| {
        let cases = plan(words).cases;
        cases.iter().filter(|case| case.role == CaseRole::Control).map(|case| case.size).collect::<Vec<_>>()
    };
    assert_eq!(controls("compare -x udp:send,tcp:send -l 64,64K"), [64], "a control is a case that can be measured");
    refused("compare -x udp:send -l 64K,1M", "E07", "65507");
    refused("echo -x tcp:send,udp:send -l 64K", "E07", "65507");
    refused("echo -x tcp:send --event-loop", "E45", "serves one connection at a time");
    refused("echo -x udp:send/epoll --event-loop", "E45", "may lose messages");
    refused("compare --stream -x tcp:send/epoll --event-loop", "E45", "serves echoes");
    let by_schedule = plan("echo -x tcp:send/epoll --event-loop -P 1000 -T 1 --rate 10k -t 1s");
    assert_eq!((by_schedule.cases[0].connections, by_schedule.cases[0].threads), (1000, 1));
    refused("echo -x tcp:send/epoll -P 1000 -T 1 --rate 10k", "E11", "--event-loop");
    refused("echo -x tcp:send/epoll --event-loop -P 10001 -T 1", "E11", "10001 connections");
    refused("echo -x tcp:send/epoll -P 257", "E11", "257 threads");
    refused("echo -x tcp:send/epoll --event-loop --stages light", "E45", "stages");
    refused("compare -x tcp:send,unix:send --inflight 1,4", "E11", "belongs to echo");
    refused("compare --metric p98", "E11", "p50, p99, mean, cpu");
    refused("echo --metric p50", "E11", "--metric is an option of compare");
    for paths in ["tcp:send", "tcp:send,unix:send", "tcp", "all", "shm:ring/spin"] {
        refused(&format!("compare {paths}"), "E11", &format!("-x {paths}"));
        refused(&format!("echo {paths}"), "E11", &format!("-x {paths}"));
    }
    refused("compare --stream --reply 64", "E11", "no meaning");
}

#[test]
fn metrics_belong_to_their_workload() {
    for (words, metric) in [
        ("compare --metric p99", Metric::P99),
        ("compare --metric mean", Metric::Mean),
        ("compare --metric cpu", Metric::Cpu),
        ("compare --stream --metric throughput", Metric::Throughput),
        ("compare --stream --metric cpu", Metric::Cpu),
    ] {
        assert_eq!(plan(words).metric(), metric, "{words}");
    }
    assert_eq!((plan("compare").metric, plan("compare").metric()), (None, Metric::P50));
    refused("compare --metric throughput", "E11", "--stream");
    refused("compare --stream --metric p99", "E11", "no round trips");
}

#[test]
fn estimates_belong_to_their_workload() {
    assert_eq!(plan("echo --expect 50us").expect, Some(Expectation::Time(50_000)));
    assert_eq!(plan("compare --expect 50us").expect, Some(Expectation::Time(50_000)));
    assert_eq!(plan("stream --expect 10G").expect, Some(Expectation::Bits(10_000_000_000)));
    refused("echo --expect 10G", "E11", "takes a time");
    refused("compare --stream --expect 5us", "E11", "bits per second");
    refused("echo --expect soon", "E11", "50us");
}

#[test]
fn a_rate_is_an_open_loop() {
    let rates = |words: &str| {
        let cases = plan(words).cases;
        cases.iter().map(|case| (case.load.rate().map(|rate| rate.to_string()), case.inflight)).collect::<Vec<_>>()
    };
    let open = |text: &str| Some(text.to_string());
    assert_eq!(rates("echo"), [(None, 1)]);
    assert_eq!(rates("echo --rate 10k"), [(open("10k/s"), OPEN_INFLIGHT)]);
    assert_eq!(rates("echo --rate 10k --inflight 1"), [(open("10k/s"), 1)]);
    assert_eq!(rates("echo --rate 1k,5k,20k").len(), 3);
    assert_eq!(rates("echo --rate 1k..200k -t 1").len(), 9);
    let both = plan("compare -x tcp:send,unix:send -l 64 --rate 1k,2k -o arrivals=constant");
    assert_eq!(both.cases.iter().filter(|case| case.role == CaseRole::Measured).count(), 4);
    let arrivals = msgpath_core::schedule::Arrivals::Constant;
    assert!(both.cases.iter().all(|case| matches!(case.load, Load::Open { arrivals: a, .. } if a == arrivals)));
    assert!(typed("echo --rate 1k..200k").unwrap().notes.iter().any(|note| note == "9 cases, at least 1 min"));
    refused("echo -o arrivals=constant", "E11", "without a schedule");
    refused("echo --rate 20M", "E11", "at most 10M/s");
    let shares = plan("echo --rate 10%..110%/12 -t 5s");
    let ppm = |at: usize| shares.cases[at].of_capacity.as_ref().map(|of| of.share_ppm);
    assert_eq!((shares.cases.len(), ppm(0), ppm(11)), (12, Some(100_000), Some(1_100_000)));
    refused("echo --rate 50% -c 100", "E11", "share of the capacity");
    refused("echo --rate 500%", "E11", "shares of the capacity");
    refused("echo --rate 10k..1k", "E11", "from low to high");
    refused("stream --rate 1k", "E11", "--rate is an option of echo");
    refused("compare --stream --rate 1k", "E11", "no rate");
    refused("echo -c 10 --each --rate 1k", "E11", "one after the other");
    refused("echo -c 10 --each -o fresh=yes --rate 1k", "E11", "one after the other");
    refused("echo -i 1", "E11", "--rate");
    refused("echo -b 1M", "E11", "--rate");
}

#[test]
fn schedules_fill_their_rounds() {
    let slow = typed("echo --rate 10 -t 10s").unwrap();
    assert_eq!(slow.plan.rounds, 20);
    assert!(slow.notes[0].contains("20 rounds instead of 40: 10/s"), "{:?}", slow.notes);
    assert_eq!(plan("echo --rate 10k").rounds, 40);
    assert_eq!(plan("echo --rate 10,10k -t 10s").rounds, 20, "the slowest decides");
    assert_eq!(plan("echo --rate 20 -P 4 -t 10s").rounds, 10);
    assert_eq!(plan("echo --rate 100 -c 2k").rounds, 2);
    refused("echo --rate 10 -t 10s -r 40", "E11", "-r 20");
    refused("echo --rate 0.1 -t 10s", "E11", "-t 50s");
    refused("echo --rate 10M -t 30s", "E11", "4 million");
    refused("echo --rate 10k -c 8M -r 1", "E11", "-r 2");
}

#[test]
fn work_and_working_sets_arrive() {
    use msgpath_core::plan::{Distribution, ServiceTime};
    assert_eq!(
        plan("echo -o service-time=exp:5us").service_time,
        Some(ServiceTime { mean_ns: 5_000, distribution: Distribution::Exponential })
    );
    assert_eq!(
        plan("compare -o service-time=5us").service_time,
        Some(ServiceTime { mean_ns: 5_000, distribution: Distribution::Constant })
    );
    assert_eq!((plan("stream -o working-set=64M").working_set, plan("stream").working_set), (64 << 20, 0));
    assert!(plan("echo -o cork=held").options.hold_cork && !plan("echo -o cork=yes").options.hold_cork);
    refused("stream -o service-time=5us", "E11", "no meaning");
    refused("echo -o service-time=11s", "E11", "10 s");
    refused("echo -o service-time=5", "E11", "exp:5us");
    refused("echo -o working-set=2G", "E11", "1 GiB");
}

#[test]
fn causes_are_tried_where_one_case_has_an_interval() {
    for (words, tried) in [
        ("echo", true),
        ("stream", true),
        ("stream --pieces 15x100", true),
        ("echo -c 5k", true),
        ("echo -o what-ifs=no", false),
        ("echo -c 1000", false),
        ("echo -l 64,1K", false),
        ("echo -c 5 --each", false),
        ("echo -c 5 --each -o fresh=yes", false),
        ("compare", false),
    ] {
        assert_eq!(plan(words).try_causes, tried, "{words}");
    }
}

#[test]
fn crossings_are_refined_where_there_can_be_one() {
    for (words, refined) in [
        ("compare", true),
        ("compare -x tcp:send,tcp:zerocopy -l 64..1M", true),
        ("compare -o refine=no", false),
        ("compare -l 64", false),
        ("compare -x tcp:send", false),
        ("compare -c 10k", false),
        ("echo -x tcp:send,tcp:zerocopy -l 64,64K", false),
    ] {
        assert_eq!(plan(words).refine, refined, "{words}");
    }
    refused("echo -o refine=no", "E11", "belongs to compare");
}

#[test]
fn the_write_shape_lab_gets_a_reference() {
    let plan = plan("stream --pieces 100x15 -c 20000 -x tcp:writes,tcp:writev,tcp:send");
    assert_eq!(plan.cases.len(), 4);
    let reference = &plan.cases[3];
    assert_eq!(
        (reference.role, reference.path.to_string().as_str(), reference.size),
        (CaseRole::Reference, "tcp:send", 128 << 10)
    );
    assert!(typed("stream").unwrap().notes[0].contains("10 rounds: quick"));
}

#[test]
fn each_prints_cold_trials() {
    let one = plan("echo -l 10,1000,10000 -c 10 --each");
    assert_eq!((one.rounds, one.trim, one.warmup_ns, one.extent), (1, 0, 0, Extent::Count(10)));
    assert!(one.message_log > 0);
    assert_eq!(plan("echo -c 10 --each -o fresh=yes").rounds, 10);
    refused("echo --each", "E11", "-c 10");
    refused("echo -c 5 -o fresh=yes", "E11", "--each");
    refused("echo -c 5 --each -r 3", "E11", "one round");
    refused("echo -c 5 --each -o message-log=0", "E11", "keeps none");
}

#[test]
fn options_of_the_connection_arrive() {
    let plan = plan(
        "echo -o nodelay=no,cork=yes,sndbuf=64K,rcvbuf=1M,congestion=bbr,poll-time=7us,ip=6 -x tcp:writes/busy-poll --cpu 0,1 \
         -o stamps=both,seed=9",
    );
    let options = &plan.options;
    assert_eq!((options.nodelay, options.cork, options.family), (false, true, msgpath_core::plan::Family::V6));
    assert_eq!((options.send_buffer, options.receive_buffer, options.busy_poll_us), (Some(64 << 10), Some(1 << 20), 7));
    assert_eq!((options.congestion.as_deref(), plan.seed), (Some("bbr"), 9));
    assert_eq!((plan.placement.of(NEAR), plan.placement.of(FAR)), (&[0][..], &[1][..]));
    assert_eq!(plan.stamps, msgpath_core::plan::Stamps::Both);
    assert!(self::plan("echo -o nodelay=no,nodelay=yes").options.nodelay);
    assert!(self::plan("stream -R").reverse);
    refused("compare -R", "E11", "goes both ways");
    refused("echo -R", "E11", "-R is an option of stream");
    refused("compare --stream --inflight 2", "E11", "no meaning");
}

#[test]
fn letters_with_two_meanings_get_a_hint() {
    for letter in ["-i 1", "-s", "-n 5", "-b 1M"] {
        refused(&format!("echo {letter}"), "E11", "is not used here");
    }
    refused("eco", "E11", "echo");
    refused("echo --pth tcp:send", "E11", "--path");
    refused("echo a b", "E11", "'b'");
}

#[test]
fn a_path_has_a_setting_of_its_own() {
    let paths = |words: &str| cases(words).into_iter().map(|case| case.0).collect::<Vec<_>>();
    let shapes = plan("stream -x tcp:writes+nagle,tcp:writes+nodelay,tcp:writev --pieces 15x100");
    assert_eq!(shapes.baseline.to_string(), "tcp:writes+nagle");
    let nodelay: Vec<bool> = shapes.cases.iter().map(|case| shapes.options_of(case).nodelay).collect();
    // The reference is as the plan says.
    assert_eq!(nodelay, [false, true, true, true]);
    assert_eq!(paths("compare -x tcp:send,tcp:send+nagle -l 64"), ["tcp:send", "tcp:send+nagle"]);
    refused("echo -x unix:send+nagle", "E51", "+nagle has no meaning");
}

#[test]
fn a_setting_has_a_meaning_for_a_path() {
    refused("echo -x unix:send -o nodelay=no", "E51", "-o nodelay has no meaning for unix:send");
    refused("echo -x unix:send -o device=lo", "E51", "-o device has no meaning for unix:send");
    refused("echo -x shm:ring/spin -o tos=ef", "E51", "-o tos has no meaning for shm:ring/spin");
    refused("echo -x shm:ring/spin -o sndbuf=64K", "E51", "has no meaning for shm:ring/spin");
    assert!(!plan("compare -x tcp:send,unix:send -l 64 -o nodelay=no").options.nodelay);
    refused("echo -o nodealy=no", "E11", "nodelay=yes|no");
    refused("echo --set nodelay", "E11", "KEY=VALUE");
    refused("echo --seed 7", "E11", "-o seed=N");
}
