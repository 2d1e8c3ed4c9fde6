//! `compare --layers`: with the feature, and without it.

use crate::command::Home;

/// A build without the libraries says so, and what to type.
#[cfg(not(feature = "layers"))]
#[test]
fn a_build_without_layers_says_so() {
    let home = Home::new();
    home.run("compare --layers tcp,tls")
        .ends_with(3)
        .says(&["this msgpath was built without layers", "cargo install msgpath --features layers"]);
    let error = home.run("compare --layers all --json").ends_with(3).json();
    assert_eq!(error["error"]["code"], "E05", "{error}");
    home.run("echo -x tls -c 10").ends_with(2).says(&["is not a message path"]);
}

#[cfg(feature = "layers")]
mod with_layers {
    use super::Home;

    #[test]
    fn each_layer_says_what_it_adds_to_what() {
        let home = Home::new();
        let line = "compare --layers tcp,tokio,tls,http1,http2,https2,grpc -r 6 -c 300 -w 0 --name ladder";
        let text = home.run(line).ends_with(0).out;
        for part in
            ["what each layer adds, 64 B messages", "TLSv1_3", "ALPN protocol h2", "HTTP version HTTP/2.0", "cpu far"]
        {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
        let value = home.run("show ladder --json").ends_with(0).json();
        let layers = value["layers"].as_array().unwrap();
        let cases = value["cases"].as_array().unwrap();
        let path = |id: &crate::printed::Value| {
            let case = cases.iter().find(|case| case["case"]["id"] == *id).unwrap();
            case["case"]["path"].as_str().unwrap().to_owned()
        };
        let steps: Vec<(String, Option<String>)> =
            layers.iter().map(|layer| (path(&layer["case"]), layer["times"].get("baseline").map(path))).collect();
        let step = |on: &str, to: &str| (format!("{on}:send"), Some(format!("{to}:send")));
        assert_eq!(steps[0], ("tcp:send".into(), None));
        assert_eq!(
            steps[1..],
            [
                step("tokio", "tcp"),
                step("tls", "tcp"),
                step("http1", "tokio"),
                step("http2", "tokio"),
                step("https2", "http2"),
                step("grpc", "http2"),
            ]
        );
        for layer in &layers[1..] {
            for (of, value) in [("times", "ratio"), ("adds_ns", "value")] {
                let number = |name: &str| layer[of][name].as_f64().unwrap_or_else(|| panic!("{of}.{name} in {layer}"));
                assert!(number("low") <= number(value) && number(value) <= number("high"), "{layer}");
            }
        }
        // One sentence, whatever was decided: the steps stand in the table.
        let said = value["findings"].as_array().unwrap().iter().filter(|finding| finding["code"] == "V17").count();
        assert!(said == 1 || value["comparison"]["control_failed"] == true, "{said}");
        for case in cases.iter().filter(|case| case["case"]["role"] == "measured") {
            let layered = case["case"]["path"] != "tcp:send";
            for end in case["ends"].as_array().unwrap() {
                assert!(end["cost"]["user_ns"].is_number() || end["cost"]["system_ns"].is_number(), "{end}");
                assert_eq!(end["cost"]["calls"].is_null(), layered, "{end}");
            }
            assert_eq!(case["delivery"]["received"], 300, "{case}");
        }
        home.run("verify ladder").ends_with(0);
        let rows = home.run("export ladder --to csv").ends_with(0).out;
        let heads: Vec<&str> = rows.lines().next().unwrap().split(',').collect();
        let at = |name: &str| heads.iter().position(|head| *head == name).unwrap();
        let (path, calls) = (at("path"), at("near_send_calls"));
        for row in rows.lines().skip(1) {
            let fields: Vec<&str> = row.split(',').collect();
            assert_eq!(fields[calls].is_empty(), fields[path] != "tcp:send", "{row}");
        }
    }

    #[test]
    fn quic_stands_on_udp_and_carries_large_messages() {
        let home = Home::new();
        home.run("compare --layers udp,quic -l 64,60000 -r 5 -c 50 -w 0 --name quic").ends_with(0).shows(&[
            "64 B messages",
            "60000 B messages",
            "QUIC datagram bytes",
        ]);
        let value = home.run("show quic --json").ends_with(0).json();
        assert_eq!(value["layers"].as_array().unwrap().len(), 4, "{}", value["layers"]);
    }

    #[test]
    fn a_layer_is_a_path_of_every_verb() {
        let home = Home::new();
        let paths = home.run("paths tls:send,http2:send,quic:send").ends_with(0).out;
        assert!(paths.contains("tls") && paths.contains("quic"), "{paths}");
        home.run("echo -x tls -l 64K -r 5 -c 50 -w 0").ends_with(0).shows(&["tls:send"]);
        home.run("echo -x grpc --pieces 4x16 -r 5 -c 50 -w 0 -T 2").ends_with(0).shows(&["grpc:send"]);
        home.run("compare -x unix:send,http1:send -l 64 -r 5 -c 50 -w 0").ends_with(0).shows(&["http1:send"]);
        // One message after the other, and no streams.
        home.run("stream -x tls -r 2 -c 10").ends_with(3).says(&["each message over tls waits for its answer"]);
        home.run("echo -x http2 --inflight 4 -c 10").ends_with(3).says(&["one message after the other"]);
    }

    #[test]
    fn options_that_the_result_has_no_place_for_are_refused() {
        let home = Home::new();
        home.run("compare --layers tcp,unix").ends_with(2).says(&["none of these is a layer"]);
        home.run("compare --layers tcp,tls --metric p99").ends_with(2).says(&["adds to the median"]);
        home.run("compare -x tcp:send --layers tcp,tls").ends_with(2);
        home.run("compare --layers tcp,tlss").ends_with(2).says(&["is not a message path"]);
    }
}
