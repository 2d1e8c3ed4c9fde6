//! What handing a message over is made of, each piece by itself: the numbers that reports of the lab guess.

use msgpath_core::schema::SendCosts;

use crate::answers::columns::{table, time_or};
use crate::answers::{Cell, Part, Table};

/// One row for each run in which it was measured.
pub(super) fn table_of(parts: &[Part<'_>]) -> Option<Table> {
    let of = |part: &Part<'_>| part.run.header.floors.as_ref()?.send;
    let rows: Vec<(&str, SendCosts)> = parts.iter().filter_map(|part| Some((part.name, of(part)?))).collect();
    if rows.is_empty() {
        return None;
    }
    let time = |ns: f64| Cell::Time(ns.into());
    let table = table("11-pieces-of-a-send", "What handing a message over is made of, each piece by itself", rows)
        .col("run", |(run, _)| *run)
        .col("message", |(_, costs)| costs.pieces.to_string())
        .col("writing the iovecs", move |(_, costs)| time(costs.iovec_ns))
        .col("an empty sendmsg", move |(_, costs)| time(costs.empty_ns))
        .col("sendmsg, copied", move |(_, costs)| time(costs.copied_ns))
        .col("sendmsg, pinned", move |(_, costs)| time(costs.pinned_ns))
        .col("reading a notification", |(_, costs)| time_or(costs.reaped_ns, "none came"))
        .note(
            "Medians at the near end before the run, over a connection of its process to itself on the loopback device, which \
             receives within the send call: the copy that zero copy puts off is made there. Pinned holds pinning the pages and \
             preparing the notification. A notification answers several sends.",
        );
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::testing::Made;
    use msgpath_analyse::testing::Build;
    use msgpath_core::schema::Floors;
    use msgpath_core::units::Pieces;

    #[test]
    fn a_run_that_took_a_send_apart_has_a_row() {
        let build = Build::stream(&["tcp:sendmsg", "tcp:zerocopy"], &[1024]);
        let plain = Made::of("plain", &build);
        assert_eq!(table_of(&Made::parts(&[plain])), None);
        let mut run = build.run();
        let pieces = Pieces::of(8, 128);
        let reaped_ns = None;
        let send =
            SendCosts { pieces, iovec_ns: 6.0, empty_ns: 210.0, copied_ns: 900.0, pinned_ns: 1_900.0, reaped_ns };
        run.header.floors = Some(Floors { send: Some(send), ..Floors::default() });
        let table = table_of(&Made::parts(&[Made::from("stream", run)])).unwrap();
        assert_eq!(table.rows[0][1], Cell::text("8x128"));
        assert_eq!((&table.rows[0][2], &table.rows[0][5]), (&Cell::Time(6.0.into()), &Cell::Time(1_900.0.into())));
        assert!(matches!(table.rows[0][6], Cell::Missing { .. }));
    }
}
