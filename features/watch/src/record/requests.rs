//! Requests of watched programs (in `requests.mpl`).

use msgpath_core::watch::{RequestRow, Stage};

use msgpath_record::columns::{Column, Form, Logged, Stored, stored};

type Request = Column<RequestRow>;

/// A field that is a signed number of `$bits` bits: kept as the unsigned one of the same bits.
macro_rules! signed {
    ($field:ident $(. $part:ident)?, $signed:ty, $unsigned:ty) => {
        Stored::Number(
            Form::Itself,
            |row| Some((row.$field $(. $part)? as $unsigned).into()),
            |row, cell| {
                row.$field $(. $part)? = <$unsigned>::try_from(cell?).ok()? as $signed;
                Some(())
            },
        )
    };
}

macro_rules! stage {
    ($name:literal, $stage:ident) => {
        Request::stored(
            $name,
            "ns",
            Stage::$stage.words(),
            Stored::Number(
                Form::Itself,
                |row| Some(row.stage(Stage::$stage)),
                |row, cell| {
                    row.stages[Stage::$stage as usize] = cell?;
                    Some(())
                },
            ),
        )
    };
}

macro_rules! part {
    ($field:ident . $part:ident) => {
        Stored::Number(
            Form::Itself,
            |row| Some(row.$field.$part.into()),
            |row, cell| {
                row.$field.$part = cell?.try_into().ok()?;
                Some(())
            },
        )
    };
}

/// Exported as they are stored.
static REQUESTS: [Request; 80] = [
    Request::stored("t0_ns", "ns", "the client begins to send, CLOCK_MONOTONIC; where the client is on another host, the request is being received", stored!(Difference, t0_ns)).required(),
    Request::stored("total_ns", "ns", "until the client has the reply; where the client is on another host, until the send call of the reply has ended", stored!(Itself, total_ns)).required(),
    Request::stored("connection", "", "connection, from 1", stored!(Itself, connection)),
    Request::stored("service", "", "server, by its number at the end of the file", stored!(Itself, service)).required(),
    Request::stored(
        "flags",
        "",
        "1 slow, 2 in the sample, 8 the client sent again before it was answered, 16 another thread replied, 32 the reply has \
         several parts, 64 the protocol told where it begins and ends, 128 a part \
         of the request waited for an acknowledgement (Nagle), 256 a part of the reply did",
        stored!(Itself, flags),
    )
    .required(),
    Request::stored("weight", "", "requests that one of the sample stands for", stored!(Itself, weight)).required(),
    Request::stored("turn", "", "number within the connection, from 1", stored!(Itself, turn)),
    Request::stored("bytes_there", "bytes", "request", stored!(Itself, bytes_there)),
    Request::stored("bytes_back", "bytes", "reply", stored!(Itself, bytes_back)),
    Request::stored("server", "", "thread that read the request; 0: on another host", signed!(server, i32, u32)),
    Request::stored("server_process", "", "its process", signed!(server_process, i32, u32)),
    Request::stored("client", "", "thread that read the reply; 0: on another host", signed!(client, i32, u32)),
    Request::stored("client_process", "", "its process", signed!(client_process, i32, u32)),
    Request::stored("faults", "", "page faults of the server's thread during the work", stored!(Itself, faults)),
    Request::stored("port", "", "TCP or UDP port; 0: Unix socket", stored!(Itself, port)),
    stage!("send_ns", Send),
    stage!("send_out_ns", SendOut),
    stage!("softirq_ns", Softirq),
    stage!("queued_ns", Queued),
    stage!("wake_up_ns", WakeUp),
    stage!("in_flight_ns", InFlight),
    stage!("run_queue_ns", RunQueue),
    stage!("receive_ns", Receive),
    stage!("stopped_ns", Stopped),
    stage!("other_thread_ns", OtherThread),
    stage!("work_on_cpu_ns", WorkOnCpu),
    stage!("work_interrupts_ns", WorkInterrupts),
    stage!("work_page_faults_ns", WorkPageFaults),
    stage!("work_stolen_ns", WorkStolen),
    stage!("work_runnable_ns", WorkRunnable),
    stage!("work_waking_ns", WorkWaking),
    stage!("work_poll_ns", WorkPoll),
    stage!("work_socket_ns", WorkSocket),
    stage!("work_lock_ns", WorkLock),
    stage!("work_disk_ns", WorkDisk),
    stage!("work_sleep_ns", WorkSleep),
    stage!("work_fault_ns", WorkFault),
    stage!("work_other_ns", WorkOther),
    stage!("work_stopped_ns", WorkStopped),
    stage!("work_elsewhere_ns", WorkElsewhere),
    stage!("held_ns", Held),
    stage!("away_ns", Away),
    stage!("reply_ns", Reply),
    stage!("reply_out_ns", ReplyOut),
    stage!("client_softirq_ns", ClientSoftirq),
    stage!("client_queued_ns", ClientQueued),
    stage!("client_wake_up_ns", ClientWakeUp),
    stage!("client_in_flight_ns", ClientInFlight),
    stage!("client_run_queue_ns", ClientRunQueue),
    stage!("client_receive_ns", ClientReceive),
    stage!("client_stopped_ns", ClientStopped),
    stage!("client_other_thread_ns", ClientOtherThread),
    stage!("rest_ns", Rest),
    Request::stored("run_there_ns", "ns", "last wait for a CPU before the request was read", part!(run_there.ns)),
    Request::stored("run_there_pid", "", "thread that had that CPU before", signed!(run_there.pid, i32, u32)),
    Request::stored("run_there_quota", "", "65534: a CPU quota kept the thread from it", signed!(run_there.call, i16, u16)).empty_at(u16::MAX as u64),
    Request::stored("run_there_cpu", "", "that CPU", part!(run_there.cpu)),
    Request::stored("run_there_name", "", "name of that thread", Stored::Key(|row| &row.run_there.name, |row| &mut row.run_there.name)),
    Request::stored("block_ns", "ns", "longest block during the work", part!(block.ns)),
    Request::stored("block_pid", "", "thread that ended it; 0 an interrupt, as a signed number -1 a timer, -2 a packet, -3 a device", signed!(block.pid, i32, u32)),
    Request::stored("block_call", "", "number of the call that blocked", signed!(block.call, i16, u16)).empty_at(u16::MAX as u64),
    Request::stored("block_kind", "", "what it is part of, counted from work_on_cpu_ns: 6 poll, 7 socket, 8 lock, 9 disk, 10 sleep, 11 page fault, 12 another call; 0: not known", part!(block.kind)),
    Request::stored("block_cpu", "", "where the waker ran", part!(block.cpu)),
    Request::stored("block_name", "", "name of the waker", Stored::Key(|row| &row.block.name, |row| &mut row.block.name)),
    Request::stored("run_work_ns", "ns", "longest wait for a CPU during the work", part!(run_work.ns)),
    Request::stored("run_work_pid", "", "thread that had that CPU before", signed!(run_work.pid, i32, u32)),
    Request::stored("run_work_quota", "", "65534: a CPU quota kept the thread from it", signed!(run_work.call, i16, u16)).empty_at(u16::MAX as u64),
    Request::stored("run_work_cpu", "", "that CPU", part!(run_work.cpu)),
    Request::stored("run_work_name", "", "name of that thread", Stored::Key(|row| &row.run_work.name, |row| &mut row.run_work.name)),
    Request::stored("run_back_ns", "ns", "last wait for a CPU before the reply was read", part!(run_back.ns)),
    Request::stored("run_back_pid", "", "thread that had that CPU before", signed!(run_back.pid, i32, u32)),
    Request::stored("run_back_cpu", "", "that CPU", part!(run_back.cpu)),
    Request::stored("run_back_name", "", "name of that thread", Stored::Key(|row| &row.run_back.name, |row| &mut row.run_back.name)),
    Request::stored("stop_ns", "ns", "how long server or client was stopped, the last time", part!(stop.ns)),
    Request::stored("stop_pid", "", "thread that stopped it", signed!(stop.pid, i32, u32)),
    Request::stored("stop_signal", "", "by which signal; 0: a tracer; none: a freezer", signed!(stop.call, i16, u16)).empty_at(u16::MAX as u64),
    Request::stored("stop_name", "", "name of that thread", Stored::Key(|row| &row.stop.name, |row| &mut row.stop.name)),
    Request::stored("server_name", "", "name of the server's thread", Stored::Key(|row| &row.server_name, |row| &mut row.server_name)),
    Request::stored("client_name", "", "name of the client's thread", Stored::Key(|row| &row.client_name, |row| &mut row.client_name)),
    Request::stored("what", "", "what was asked for, where the protocol is known", Stored::Key(|row| &row.what, |row| &mut row.what)),
];

/// Requests as blocks keep them.
pub struct Requests;

impl Logged for Requests {
    type Row = RequestRow;
    const WHAT: &str = "requests";
    const COLUMNS: &[Request] = &REQUESTS;
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::watch::{Culprit, Stages};
    use msgpath_record::columns::{decode, documented, encode, table};

    #[test]
    fn the_document_has_these_columns() {
        documented(&[("requests", table(&REQUESTS).replace(" (key)", " (key, text)"))]);
    }

    #[test]
    fn every_field_of_a_row_comes_back() {
        let culprit = |n: u64| Culprit {
            ns: n,
            pid: -(n as i32),
            call: -(n as i16),
            kind: 9,
            cpu: n as u16,
            name: std::array::from_fn(|at| (at as u64 * n) as u8 | 1),
        };
        let run = |n| Culprit { kind: 0, ..culprit(n) };
        let row = RequestRow {
            t0_ns: 1,
            total_ns: 2,
            connection: 3,
            service: 4,
            flags: 5,
            weight: 6,
            turn: 7,
            bytes_there: 8,
            bytes_back: 9,
            server: -10,
            server_process: 11,
            client: -12,
            client_process: 13,
            faults: 14,
            port: 15,
            stages: Stages(std::array::from_fn(|at| 1 << at)),
            run_there: run(16),
            block: culprit(17),
            run_work: run(18),
            run_back: Culprit { call: 0, ..run(19) },
            stop: Culprit { kind: 0, cpu: 0, ..culprit(20) },
            server_name: *b"sixteen bytes ab",
            client_name: *b"short\0\0\0\0\0\0\0\0\0\0\0",
            what: *b"POST /login\0\0\0\0\0",
        };
        let (rows, mut back) = (vec![row, RequestRow::default()], Vec::new());
        decode::<Requests>(&encode::<Requests>(0, 0, &rows).unwrap(), &mut back).unwrap();
        assert_eq!(rows, back);
    }
}
