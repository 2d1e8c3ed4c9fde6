//! What cannot be meant ends with 2, says why, and says what to type instead.

use crate::command::{Home, msgpath};

#[track_caller]
fn refused(arguments: &str, code: &str, parts: &[&str]) {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let output = msgpath(&arguments).ends_with(2).says(&[&format!("error[{code}]: ")]).says(parts);
    assert_eq!(output.out, "", "nothing on standard output");
}

#[test]
fn values_that_cannot_be() {
    refused("echo hostB:78400", "E11", &["78400", "12864"]);
    refused("echo hostB:78400", "E11", &["12864"]);
    refused("echo -l 0", "E11", &["0 bytes", "try:"]);
    refused("echo -l 99999999999G", "E11", &["64 bits"]);
    refused("echo -l 1M -c 99999999999999", "E11", &["not a run"]);
    refused("stream --pieces 1000x4G", "E11", &["1 GiB"]);
    refused("echo -t soon", "E11", &["-t", "a time"]);
    refused("echo --open-metrics no/such/folder/file", "E11", &["cannot be written"]);
    refused("echo -o no/such/folder/file", "E11", &["no key", "msgpath paths -o"]);
    refused("echo -P 3 -T 2", "E11", &["shared evenly", "-P 4"]);
    refused("echo -P 0", "E11", &["--connections", "from 1"]);
    refused("serve -p 78400", "E11", &["78400", "12864"]);
    refused("serve 78400", "E11", &["78400", "12864"]);
    refused("serve 12345", "E11", &["\"12345\" is not a target", "-p 12345"]);
    refused("echo 12345", "E11", &["HOST:12345"]);
    refused("serve 127.0.0.1:0", "E11", &["port 0 does not exist"]);
    refused("echo -c 0", "E11", &["must be > 0"]);
    msgpath(&["echo", "--cpu", "0,9998", "-c", "1"]).ends_with(3).says(&["error[E05]", "cpu 9998", "--cpu"]);
}

#[test]
fn numbers_that_overflow_when_multiplied() {
    refused("stream --pieces 1000x4G", "E11", &["1 GiB"]);
    refused("echo --pieces 4294967295x4294967295", "E11", &["at most 1024 pieces"]);
    refused("echo -c 99999999999999999999", "E11", &["-c", "99999999999999999999"]);
    refused("echo -c 18446744073709551615 -l 1M", "E11", &["not a run"]);
    refused("echo -c 99999999999999999G", "E11", &["-c"]);
    refused("compare -l 1,2,3,4,5,6,7,8 -T 1,2,4,8 -r 4294967295", "E11", &["rounds"]);
    refused("echo -t 99999999999999999h", "E11", &["-t"]);
    refused("echo -P 4294967295 -T 4294967295", "E11", &["connections"]);
}

#[test]
fn more_in_flight_than_the_path_holds_would_wait_for_ever() {
    for path in ["tcp:send", "unix:send", "pipe:write"] {
        let line = format!("echo -x {path} --inflight 4096 -l 64K -c 5000 -w 0");
        let words: Vec<&str> = line.split(' ').collect();
        let output =
            msgpath(&words).ends_with(2).says(&["error[E11]", "would wait for each other", "try: --inflight "]);
        // The number to type works.
        let most = output.err.split("--inflight ").nth(1).unwrap().split(' ').next().unwrap();
        let line = format!("echo -x {path} --inflight {most} -l 64K -c 200 -r 1 -w 0 --json");
        let value = msgpath(&line.split(' ').collect::<Vec<_>>()).ends_with(0).json();
        assert_eq!(value["cases"][0]["delivery"]["received"], 200, "{path} with {most} in flight");
    }
}

#[test]
fn paths_and_targets_that_do_not_fit() {
    refused("echo -x tcp:sned", "E09", &["\"tcp:sned\" is not a message path", "tcp:send", "msgpath paths"]);
    refused("echo -x tcp:splise", "E09", &["\"tcp:splise\" is not a message path", "msgpath paths"]);
    refused("echo -x unix:zerocopy", "E09", &["zerocopy does not work on unix"]);
    refused("echo -x udp:send -l 1M", "E07", &["1M does not fit", "try: -l"]);
    refused("echo -x udp:send -l 64 --reply 1M", "E07", &["1M does not fit"]);
    refused("echo -x shm:ring -l 1G", "E07", &["1G does not fit"]);
    refused("echo -x unix:send 10.0.0.2", "E10", &["unix:send cannot reach 10.0.0.2", "tcp:send"]);
    refused("echo -x tcp:send udp://10.0.0.2", "E10", &["udp"]);
}

#[test]
fn habits_of_other_programs_get_a_hint() {
    refused("stream -c hostB", "E02", &["-c takes a number, got \"hostB\"", "try: msgpath stream hostB"]);
    refused("echo -i 1", "E11", &["-i is not used here", "ping"]);
    refused("-s", "E11", &["msgpath serve"]);
    refused("echo -n 5", "E11", &["-c N"]);
    refused("stream -b 1M", "E11", &["-b is not used here"]);
    refused("eco", "E11", &["eco", "echo"]);
}

#[test]
fn an_error_leads_to_the_help_of_the_verb_that_was_typed() {
    refused("echo --stages -t 1s", "E11", &["--stages", "try: msgpath echo -h"]);
    refused("echo -x", "E11", &["--path", "try: msgpath echo -h"]);
    assert!(!msgpath(&["echo", "-x"]).err.contains("possible values"), "there are hundreds");
    msgpath(&["mesh"]).ends_with(2).says(&["error[E11]", "mesh"]);
}

#[test]
fn a_failure_under_json_is_an_object_too() {
    for flag in ["--json", "-J"] {
        let output = msgpath(&["echo", flag, "-x", "tcp:sned"]).ends_with(2).says(&["error[E09]"]);
        let value = output.json();
        assert_eq!(value["status"], "failed");
        assert_eq!(value["error"]["code"], "E09");
    }
}

#[test]
fn a_run_that_is_not_there() {
    let home = Home::new();
    for verb in ["show", "export"] {
        home.msgpath(&[verb, "brisk-oter"]).ends_with(2).says(&[
            "error[E08]",
            "brisk-oter",
            "nothing has been recorded",
        ]);
    }
    let list = home.msgpath(&["runs"]).ends_with(0);
    assert!(list.out.contains("No run is kept yet"), "{}", list.out);
    assert!(!home.runs().exists(), "looking for runs makes no folder");
}
