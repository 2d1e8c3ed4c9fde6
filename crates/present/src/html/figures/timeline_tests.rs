//! What the page gives to the script, and what it says without it.

use super::*;
use crate::fixture;
use crate::html::{DEFAULT_EMBED, Messages};
use msgpath_core::plan::{Ablation, Change, StageSet};
use msgpath_core::schema::MessageRow;

/// TEST DATA: so many messages of case 0, 20 us apart, one of them very slow and one lost.
fn rows(count: u64) -> Vec<MessageRow> {
    (0..count)
        .map(|n| MessageRow {
            connection: (n % 2) as u32,
            sequence: n,
            start_ns: n * 20_000,
            latency_ns: (n != 3).then_some(if n == 5 { 900_000 } else { 9_000 + n % 10 }),
            far_ns: Some(4_000),
            ..MessageRow::default()
        })
        .collect()
}

fn drawn(logged: &[MessageRow], embed: usize, change: impl Fn(&mut msgpath_record::Run)) -> Drawn {
    let (mut run, summary) = fixture::echo();
    change(&mut run);
    let mut scene = Scene::new(&run, &summary);
    scene.messages = Messages { logged: &logged, embed, not_kept: 7 };
    picture(&scene)
}

fn why(drawn: Drawn) -> String {
    match drawn {
        Drawn::Unavailable(why) => why,
        _ => panic!("there is a picture"),
    }
}

fn shown_of(drawn: Drawn) -> Picture {
    match drawn {
        Drawn::Picture(picture) => picture,
        _ => panic!("there is no picture"),
    }
}

#[test]
fn the_script_gets_the_messages_and_everybody_the_slowest() {
    let picture = shown_of(drawn(&rows(1_000), DEFAULT_EMBED, |_| {}));
    assert!(picture.note.starts_with("1000 messages in this file: all"), "{}", picture.note);
    assert!(picture.note.contains("7 messages were measured and not logged"), "{}", picture.note);
    for part in [
        "id=\"data-timeline\"",
        "\"kept\":1000,\"logged\":1000,\"weight\":1.0,\"connections\":2,\"batch\":1",
        "\"slowest\":[[0,5],",
        "<noscript>",
        "id=\"log\">",
        "request: send to arrival",
    ] {
        assert!(picture.after.contains(part), "{part} is not in {}", &picture.after[..2_000]);
    }
    assert_eq!(picture.data.rows.len(), SLOWEST);
    assert_eq!(picture.data.rows[0][3], Datum::ns(900_000.0));
    assert_eq!(picture.data.heads.len(), 6);
}

#[test]
fn what_was_left_out_is_said() {
    let note = shown_of(drawn(&rows(1_000), 200, |_| {})).note;
    assert!(note.starts_with("200 of 1000 logged messages"), "{note}");
}

#[test]
fn lost_messages_are_listed_where_none_arrived() {
    let mut rows = rows(40);
    rows.iter_mut().for_each(|row| row.latency_ns = None);
    let table = shown_of(drawn(&rows, DEFAULT_EMBED, |_| {})).data;
    assert_eq!(table.rows.len(), SLOWEST);
    assert!(table.rows.iter().all(|row| row[3] == "lost".into()));
}

#[test]
fn where_nothing_can_be_shown_it_is_said_why() {
    assert!(why(drawn(&[], DEFAULT_EMBED, |run| run.rounds.clear())).contains("no round"));
    assert!(why(drawn(&[], DEFAULT_EMBED, |run| run.header.plan.message_log = 0)).contains("-o message-log=0"));
    assert!(why(drawn(&rows(5), 0, |_| {})).contains("--embed"));
    assert!(why(drawn(&[], DEFAULT_EMBED, |run| run.header.plan.message_log = 9)).contains("holds no message"));
    let (run, summary) = fixture::shapes();
    assert!(matches!(picture(&Scene::new(&run, &summary)), Drawn::Nothing));
}

#[test]
fn a_traced_run_shows_the_messages_of_its_traced_rounds_in_their_stages() {
    let (mut run, summary) = fixture::echo();
    let own = Scene::new(&run, &summary).measured()[0].case.clone();
    let change = Change::Traced(StageSet::Light);
    run.header.plan.cases.push(Case { id: 7, ablation: Some(Ablation { of: own.id, change }), ..own.clone() });
    let mut logged: Vec<MessageRow> =
        rows(40).into_iter().map(|row| MessageRow { case: own.id, far_ns: None, ..row }).collect();
    logged.extend(rows(40).into_iter().map(|row| MessageRow { case: 7, far_sent_ns: Some(5_000), ..row }));
    let mut scene = Scene::new(&run, &summary);
    scene.messages = Messages { logged: &logged, embed: DEFAULT_EMBED, not_kept: 0 };
    let picture = shown_of(picture(&scene));
    let traced = picture.after.find(", traced\"").expect("the traced rounds");
    let untraced = picture.after.find(&format!("{{\"id\":{},", own.id)).expect("the others");
    assert!(traced < untraced, "what has stages comes first");
    for stage in
        ["request: send to arrival", "far end: arrival to its send", "reply: its send to arrival", "send to reply"]
    {
        assert!(picture.after.contains(stage), "{stage}");
    }
    assert!(picture.note.contains("split by the stamps of both ends"), "{}", picture.note);
}

#[test]
fn a_hostile_name_stays_text() {
    let (run, summary) = fixture::hostile();
    let ids: Vec<u32> = Scene::new(&run, &summary).measured().iter().map(|case| case.case.id).collect();
    let logged: Vec<_> = ids.iter().map(|case| MessageRow { case: *case, ..rows(1)[0] }).collect();
    let mut scene = Scene::new(&run, &summary);
    scene.messages = Messages { logged: &logged, embed: 10, not_kept: 0 };
    let after = shown_of(picture(&scene)).after;
    assert!(!after.contains(fixture::HOSTILE), "{after}");
    assert_eq!(after.matches("<script").count(), 2);
    assert_eq!(after.matches("</script").count(), 2);
}
