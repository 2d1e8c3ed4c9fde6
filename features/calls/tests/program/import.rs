//! Logs of the RPC lab and of other programs, made a run.

use std::io::Write;

use msgpath_rpc::log::golden;

use crate::command::Home;

/// A home with the client's and the server's log of the reference in it.
fn home() -> Home {
    let home = Home::new();
    let write = |name: &str, records: &[&str]| std::fs::write(home.path().join(name), golden::bytes(records)).unwrap();
    write("client.log", &golden::CLIENT);
    write("server.log", &golden::SERVER);
    home
}

fn rows(home: &Home) -> Vec<csv::StringRecord> {
    let output = home.run("export @last --to rpc-csv").ends_with(0);
    csv::Reader::from_reader(output.out.as_bytes()).records().map(Result::unwrap).collect()
}

#[test]
fn a_client_and_a_server_log_become_one_run() {
    let home = home();
    home.run("import server.log client.log --name lab --title x").ends_with(0).shows(&[
        "client.log: log of a client, 5 calls",
        "server.log: log of a server, 1 call",
        "1 call of servers found in the logs of clients",
        "1 call with T2 before T1 or T4 before T3",
    ]);
    let rows = rows(&home);
    assert_eq!(rows.len(), 5, "{rows:#?}");
    let row = |method: &str| rows.iter().find(|row| &row[1] == method).unwrap();
    let write = row("write");
    assert_eq!(
        [&write[4], &write[5], &write[6], &write[9], &write[10], &write[11], &write[12]],
        ["10.9.0.1", "10.9.0.2", "8192", "118", "88", "0", "kk"]
    );
    assert_eq!(
        [&write[13], &write[14], &write[15], &write[16]],
        ["1700000000123456000", "1700000000123546000", "1700000000123551000", "1700000000123636000"]
    );
    // The server's clock is 3 ms behind: as it was. A dropped call has no T2 and no T3.
    assert_eq!([&row("ping")[14], &row("read")[7], &row("read")[8]], ["1700000000122456000", "5", "1"]);
    assert_eq!([&row("Work")[14], &row("Work")[15], &row("Work")[8]], ["", "", "2"]);
    home.run("show lab").ends_with(0);
    home.run("verify lab").ends_with(0);
    home.run("report lab").ends_with(0).shows(&["report.html"]);
    home.run("runs").ends_with(0).shows(&["lab", "import", "10.9.0.2:12345"]);
}

#[test]
fn the_wire_of_a_log_is_estimated_where_its_speed_is_told() {
    let home = home();
    let estimate = |words: &str| {
        let run = home.run(&format!("import server.log client.log --json {words}")).ends_with(0);
        let run: crate::printed::Value = serde_json::from_str(&run.out).unwrap();
        let kinds = run["rpc"]["kinds"].as_array().unwrap().clone();
        let write = kinds.into_iter().find(|kind| kind["method"] == "write").unwrap();
        write["wire_estimate_ns"].get("request")?.as_f64()
    };
    // 118 bytes at 1 Gbit/s.
    assert_eq!((estimate("--wire 1G"), estimate("")), (Some(944.0), None));
}

#[test]
fn what_goes_out_as_a_log_comes_in_again() {
    let home = home();
    home.run("import client.log").ends_with(0);
    let before = rows(&home);
    home.run("export @last --to lab-log -o again.log").ends_with(0);
    home.run("export @last --to rpc-json -o again.json").ends_with(0);
    home.run("export @last --to rpc-csv -o again.csv").ends_with(0);
    home.run("export @last --to perfetto -o again.pftrace").ends_with(0);
    let json: crate::printed::Value =
        serde_json::from_slice(&std::fs::read(home.path().join("again.json")).unwrap()).unwrap();
    assert_eq!(json["events"].as_array().unwrap().len(), 6);
    for file in ["again.log", "again.csv", "again.json"] {
        home.run(&format!("import {file}")).ends_with(0);
        let after = rows(&home);
        assert_eq!(after.len(), before.len(), "{file}");
        for (before, after) in before.iter().zip(&after) {
            for column in [1, 4, 5, 6, 7, 8, 13, 14, 15, 16] {
                assert_eq!(before[column], after[column], "{file}: column {column}");
            }
        }
    }
}

#[test]
fn a_damaged_log_is_refused_with_its_offset() {
    let home = home();
    let mut bytes = golden::bytes(&golden::CLIENT);
    bytes[3 * 96 + 54] = 9;
    std::fs::write(home.path().join("bad.log"), &bytes).unwrap();
    home.run("import client.log bad.log").ends_with(3).says(&["E30", "bad.log is damaged at byte 288: type 9"]);
    home.run("runs").ends_with(0);
    assert!(!home.runs().join("bad").exists());
    // The tail of a killed program is not damage.
    std::fs::write(home.path().join("cut.log"), &golden::bytes(&golden::CLIENT)[..400]).unwrap();
    home.run("import cut.log").ends_with(0).shows(&["the last 16 bytes are part of a record"]);
}

#[test]
fn files_that_are_nothing_of_the_kind() {
    let home = home();
    std::fs::write(home.path().join("empty.log"), b"").unwrap();
    std::fs::write(home.path().join("text"), "hello, this is a text that has nothing to do with any call".repeat(4))
        .unwrap();
    std::fs::write(home.path().join("zeros"), [0; 960]).unwrap();
    home.run("import empty.log").ends_with(3).says(&["E31", "empty.log has no calls", "0 bytes"]);
    home.run("import text").ends_with(3).says(&["E29", "text is not a log", "hello"]);
    let others = [
        (&b"\x28\xb5\x2f\xfd\0\0"[..], "zstd -dc other | msgpath import /dev/stdin"),
        (b"\xfd7zXZ\0\0\x04", "xz -dc other | msgpath import /dev/stdin"),
        (b"BZh91AY", "bzip2 -dc other"),
        (b"{ \"a\": 1 }", "JSON of another program"),
    ];
    for (bytes, name) in others {
        std::fs::write(home.path().join("other"), bytes).unwrap();
        let output = home.run("import other").ends_with(3);
        output.says(&["E29", name]);
    }
    std::fs::write(home.path().join("other"), "{ \"start\": { \"version\": \"iperf 3.12\" } }").unwrap();
    home.run("import other").ends_with(3).says(&["E31", "other is iperf3's JSON", "no interval"]);
    home.run("import zeros").ends_with(3).says(&["E29"]);
    home.run("import empty.log client.log").ends_with(0).shows(&["empty.log: empty"]);
    // As the lab's tool wants it: the title first.
    home.msgpath(&["import", "10 writes 1MB", "client.log"]).ends_with(2).says(&[
        "E29",
        "\"10 writes 1MB\" is not a file",
        "--title \"10 writes 1MB\" client.log",
    ]);
    home.run("import nowhere.log").ends_with(2).says(&["nowhere.log"]);
    home.run("import").ends_with(2);
}

#[test]
fn json_of_the_lab_with_bytes_that_are_no_json() {
    let home = home();
    let mut json =
        b"  {\n \"title\" : \"pings\",\n \"tracebase\" : \"2023-11-14_22:13:00\",\n\"events\" : [\n".to_vec();
    json.extend(b"[ 20.125456,  20.125456,  20.125456,  20.125756, \"10.9.0.1\", \"10.9.0.2\", 16.6, 16.6, 32768, 0, ");
    json.extend(b"\"RespRcv \", \"ping\", \"Success \", 100004, \"\xa0\x86..vvvvv_b\"ei_qaaa_aaaa\"],\n");
    json.extend(b"[ -2.-576088,  -2.-576080,  -2.-576078,  -2.-576000, \"10.9.0.1\", \"10.9.0.2\", 16.6, 16.6, 2, 0, ");
    json.extend(b"\"RespRcv \", \"ping\", \"Success \", 100004, \"........................\"],\n");
    json.extend(b"[999.0, 0.0, 0.0, 0.0, \"\", \"\", 0.0, 0.0, 0, 0, \"\", \"\", \"\", 0, \"\"]\n]}\n");
    std::fs::write(home.path().join("x.json"), json).unwrap();
    home.run("import x.json").ends_with(0).shows(&["2 calls", "read line by line", "T2 and T3 may be estimates"]);
    let rows = rows(&home);
    assert_eq!([&rows[0][6], &rows[1][6]], ["2", "32768"]);
    assert_eq!([&rows[0][13], &rows[1][13]], ["1699999977423912000", "1700000000125456000"]);
    home.run("export @last --to rpc-json").ends_with(0).shows(&["\"title\" : \"pings\""]);
}

#[test]
fn json_files_that_are_too_large_together_are_not_read() {
    let home = Home::new();
    for name in ["a.json", "b.json"] {
        let mut file = std::fs::File::create(home.path().join(name)).unwrap();
        file.write_all(format!("{{ \"title\" : \"{}\", \"events\" : [", "a long one ".repeat(8)).as_bytes()).unwrap();
        file.set_len(600 << 20).unwrap(); // nothing of it is on the disk
    }
    let says = ["E13", "the JSON files together have more than 1 GiB", "fewer files at once"];
    home.run("import a.json b.json").ends_with(3).says(&says);
}

#[test]
fn logs_of_jmeter_and_sockperf_become_runs() {
    let home = Home::new();
    let jmeter = "timeStamp,elapsed,label,responseCode,threadName,success,bytes,sentBytes\n";
    let sample =
        |at: u64| format!("{},{},home,200,t 1-1,{},1000,100\n", 1_700_000_000_000 + 10 * at, 5 + at % 3, at != 7);
    std::fs::write(home.path().join("load.jtl"), jmeter.to_owned() + &(0..200).map(sample).collect::<String>())
        .unwrap();
    let output = home.run("import load.jtl").ends_with(0).shows(&["samples of JMeter, 200 calls"]);
    output.shows(&["nothing is known of the server", "protocol jmeter"]);
    let json = home.run("show @last --json").ends_with(0).json();
    assert_eq!((&json["rpc"]["kinds"][0]["method"], &json["rpc"]["kinds"][0]["failed"]), (&"home".into(), &1.into()));
    let message = |at: u64| format!("{at}, 2.{:09}, 2.{:09}, 2.500\n", 1_000_000 * at, 1_000_000 * at + 5_000);
    let text = "sockperf: [Valid Duration] RunTime=0.550 sec\n------------------------------\n\
                packet, txTime(sec), rxTime(sec), latency(usec)\n"
        .to_owned()
        + &(0..200).map(message).collect::<String>()
        + "------------------------------\n";
    std::fs::write(home.path().join("full.log"), text).unwrap();
    home.run("import full.log").ends_with(0).shows(&["a full log of sockperf, 200 calls", "5.00 µs"]);
    // It does not tell how long its messages were.
    let shown = home.run("show @last -v").ends_with(0);
    assert!(shown.out.contains("n/a") && !shown.out.contains("0 B") && !shown.out.contains("tcp"), "{}", shown.out);
    let json = home.run("show @last --json").ends_with(0).json();
    let (kind, case) = (&json["rpc"]["kinds"][0], &json["cases"][0]["case"]);
    assert!(kind["request_bytes"].is_null() && kind["reply_bytes"].is_null() && case["size_bytes"].is_null(), "{kind}");
    assert_eq!(case["path"], "unknown");
    let call = rows(&home).remove(0);
    assert_eq!([&call[9], &call[10]], ["", ""]);
}

#[test]
fn stamps_of_other_programs_as_csv() {
    let home = Home::new();
    let rows: String = (0..100).map(|n| format!("get,{n}.000001,{n}.000251,{}\n", n % 3)).collect();
    std::fs::write(home.path().join("mine.csv"), format!("method,t1_s,t4_s,parent\n{rows}")).unwrap();
    home.run("import mine.csv --name mine").ends_with(0).shows(&["mine.csv: CSV, 100 calls"]);
    let shown = home.run("show mine --json").ends_with(0).json();
    let median = &shown["cases"][0]["quantiles"][0];
    assert_eq!(median["ns"], 250_000, "{shown}");
    let json = home.run("export mine --to json").ends_with(0).json();
    assert_eq!(json["header"]["parts"]["rpc"]["client_step_ns"], 1000);
    assert_eq!(json["rounds"].as_array().unwrap().len(), 5);
    std::fs::write(home.path().join("bad.csv"), "t1,t4\n1,2\nx,3\n").unwrap();
    home.run("import bad.csv").ends_with(3).says(&["E30", "line 3"]);
    // Codes of HTTP; a unit that is not named, and cannot be what was meant.
    let rows: String = (0..40).map(|n| format!("{n},{n}.5,{}\n", if n == 7 { 404 } else { 200 })).collect();
    std::fs::write(home.path().join("web.csv"), format!("t1_ms,t4_ms,status\n{rows}")).unwrap();
    home.run("import web.csv").ends_with(0).shows(&["codes of HTTP"]);
    assert_eq!(home.run("show @last --json").ends_with(0).json()["rpc"]["kinds"][0]["failed"], 1);
    std::fs::write(home.path().join("ms.csv"), "t1,t4\n0,100\n").unwrap();
    home.run("import ms.csv").ends_with(0).shows(&["names no unit were taken for µs"]);
    std::fs::write(home.path().join("ms.csv"), "t1,t4\n1795705730123,1795705730223\n").unwrap();
    home.run("import ms.csv").ends_with(3).says(&["E30", "t1_ms"]);
}

/// As `strace -f -ttt -T` writes it.
const CALLS: &str = "\
812   1700000000.000100 execve(\"./test\", [\"./test\"], 0x7ffd /* 20 vars */) = 0 <0.000400>
812   1700000000.002000 clone(child_stack=NULL, flags=SIGCHLD) = 813 <0.000100>
813   1700000000.002100 recvfrom(3,  <unfinished ...>
812   1700000000.002200 openat(AT_FDCWD, \"/x\", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000020>
813   1700000000.002612 <... recvfrom resumed>\"ab\", 64, 0, NULL, NULL) = 2 <0.000512>
what is this
";
const SCHED: &str = "\
           time    cpu  task name                       wait time  sch delay   run time
                        [tid/pid]                          (msec)     (msec)     (msec)
--------------- ------  ------------------------------  ---------  ---------  ---------
   79371.874569 [0001]  test[812]                           0.000     11.002      1.148
   79371.904591 [0000]  test[813/812]                      20.100      0.017      0.024
";

#[test]
fn texts_of_tracers_are_shown_by_themselves() {
    let home = home();
    std::fs::write(home.path().join("trace.txt"), CALLS).unwrap();
    std::fs::write(home.path().join("sched.txt"), SCHED).unwrap();
    let shown = [
        "at most 11.0 ms: test[812] on CPU 1",
        "recvfrom: 49.6 % of the time in calls",
        "512 µs: recvfrom of thread 813, 2.00 ms after the start",
        "most often openat with ENOENT, 1 of 1",
        "the first of them line 6: what is this",
    ];
    home.run("import sched.txt trace.txt --name traced").ends_with(0).shows(&shown);
    home.run("show traced").ends_with(0).shows(&shown);
    let answers = home.run("show @last --json").ends_with(0).json()["answers"].as_array().unwrap().len();
    assert_eq!(answers, 7);
    home.run("runs").ends_with(0).shows(&["traced", "import", "sched.txt, trace.txt"]);
    home.run("report traced").ends_with(0).shows(&["report.html"]);
    let page = std::fs::read_to_string(home.runs().join("traced/report.html")).unwrap();
    assert!(page.contains("test[813/812]") && page.contains("When were threads in which calls? (trace.txt)"));
    // Verbs of runs say what it is; calls and what a tracer saw do not mix; a head alone is nothing.
    home.run("verify traced").ends_with(0);
    home.run("export traced --to csv").ends_with(2).says(&["traced has texts of tracers, and no rounds"]);
    home.run("import trace.txt client.log").ends_with(2).says(&["trace.txt is of a tracer, client.log is of calls"]);
    home.run("import trace.txt --wire 1G").ends_with(2).says(&["--wire is of calls"]);
    std::fs::write(home.path().join("head.txt"), SCHED.lines().take(3).collect::<Vec<_>>().join("\n") + "\n").unwrap();
    home.run("import head.txt").ends_with(3).says(&["E31", "head.txt has no calls"]);
    assert!(!home.run("runs").out.contains("head"));
}

#[test]
fn imported_calls_are_computed_again() {
    let home = Home::new();
    let mut csv = String::from("t1,t2,t3,t4\n");
    for call in 0..200_u64 {
        let begin = 1_700_000_000_000_000 + call * 1_000;
        csv += &format!("{begin},{},{},{}\n", begin + 20, begin + 30 + call % 7, begin + 60 + call % 7);
    }
    std::fs::write(home.path().join("calls.csv"), csv).unwrap();
    home.run("import calls.csv --name calls").ends_with(0);
    home.run("verify calls").ends_with(0).shows(&["All agree."]);
    let file = home.runs().join("calls").join("rpcs.mpl");
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    home.run("verify calls").ends_with(4).says(&["E28", "rpcs.mpl"]);
}
