//! What a measuring thread used and its connections counted, around the measured messages only.

use msgpath_core::schema::{EndReport, TcpInfo};
use msgpath_core::{CallCounts, Delivery};
use msgpath_sys::{clock, schedstat, usage};

use crate::ends::{Ends, calls, each};
use crate::events::Counting;

/// Counters at the start of the measured part.
pub struct Meter<'a> {
    counting: &'a Counting,
    calls: CallCounts,
    delivery: Delivery,
    tcp: Vec<Option<TcpInfo>>,
    run_delay: Option<u64>,
    helpers_ns: u64,
    usage: usage::Usage,
    read_ns: u64,
    /// When the measured part begins, ns.
    pub start: u64,
}

impl<'a> Meter<'a> {
    /// Reads them.
    pub fn start(counting: &'a Counting, ends: &mut dyn Ends, delivery: Delivery) -> Self {
        let read_ns = clock::now();
        let mut meter = Self {
            counting,
            read_ns,
            calls: calls(ends),
            delivery,
            tcp: each(ends, |channel| channel.tcp_info()),
            run_delay: schedstat::run_delay().ok(),
            helpers_ns: helpers_ns(ends),
            usage: usage::thread(),
            start: 0,
        };
        counting.go();
        meter.start = clock::now();
        meter
    }

    /// The report up to `end`, without what comes later (the last zero-copy completions).
    pub fn stop(self, ends: &mut dyn Ends, end: u64, delivery: Delivery) -> EndReport {
        self.counting.pause();
        let usage = usage::thread();
        let run_delay_ns = schedstat::run_delay().ok().zip(self.run_delay).map(|(after, before)| after - before);
        let calls = calls(ends).since(&self.calls);
        let tcp = each(ends, |channel| channel.tcp_info()).into_iter().zip(&self.tcp);
        let tcp = tcp.filter_map(|(after, before)| Some(tcp_since(after?, (*before)?)));
        let mut report = EndReport {
            calls,
            run_delay_ns,
            elapsed_ns: end - self.start,
            delivery: delivery.since(&self.delivery),
            tcp: tcp.reduce(TcpInfo::plus),
            path_mtu: each(ends, |channel| channel.path_mtu()).into_iter().flatten().min(),
            polled_queue: each(ends, |channel| channel.polled_queue()).into_iter().flatten().min(),
            ..EndReport::default()
        };
        add_usage(&mut report, &self.usage, &usage);
        report.system_ns += helpers_ns(ends).saturating_sub(self.helpers_ns);
        report.metered_ns = Some(clock::now() - self.read_ns);
        report
    }
}

/// CPU time so far of threads of the kernel that work for the ends, ns.
fn helpers_ns(ends: &mut dyn Ends) -> u64 {
    (0..ends.count()).map(|at| ends.end(at).helpers_ns()).sum()
}

/// Adds what a thread has used between two readings.
pub fn add_usage(report: &mut EndReport, before: &usage::Usage, after: &usage::Usage) {
    report.user_ns += after.user_ns - before.user_ns;
    report.system_ns += after.system_ns - before.system_ns;
    report.voluntary_switches += after.voluntary - before.voluntary;
    report.involuntary_switches += after.involuntary - before.involuntary;
    report.minor_faults += after.minor_faults - before.minor_faults;
    report.major_faults += after.major_faults - before.major_faults;
}

/// What was counted between two readings of one connection; what is not a count is as it is now.
pub fn tcp_since(after: TcpInfo, before: TcpInfo) -> TcpInfo {
    // The kernel's counters of segments are 32 bits wide and wrap.
    let since = |after: u64, before: u64| u64::from((after as u32).wrapping_sub(before as u32));
    TcpInfo {
        segs_out: since(after.segs_out, before.segs_out),
        segs_in: since(after.segs_in, before.segs_in),
        data_segs_out: since(after.data_segs_out, before.data_segs_out),
        data_segs_in: since(after.data_segs_in, before.data_segs_in),
        total_retrans: since(after.total_retrans, before.total_retrans),
        bytes_retrans: after.bytes_retrans - before.bytes_retrans,
        busy_us: after.busy_us.saturating_sub(before.busy_us),
        rwnd_limited_us: after.rwnd_limited_us.saturating_sub(before.rwnd_limited_us),
        sndbuf_limited_us: after.sndbuf_limited_us.saturating_sub(before.sndbuf_limited_us),
        out_of_order: after.out_of_order.zip(before.out_of_order).map(|(after, before)| since(after, before)),
        // 16 bits wide in the kernel.
        timeouts: after
            .timeouts
            .zip(before.timeouts)
            .map(|(after, before)| (after as u16).wrapping_sub(before as u16).into()),
        ..after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_out_of_order_are_those_between_the_readings_of_all_connections() {
        let at = |out_of_order| TcpInfo { out_of_order, ..TcpInfo::default() };
        let since = tcp_since(at(Some(7)), at(Some(4)));
        assert_eq!(since.out_of_order, Some(3));
        assert_eq!(tcp_since(at(Some(1)), at(Some(u64::from(u32::MAX)))).out_of_order, Some(2), "32 bits wrap");
        assert_eq!(since.plus(at(Some(2))).out_of_order, Some(5));
        // A kernel that does not count them.
        assert_eq!((tcp_since(at(None), at(None)).out_of_order, since.plus(at(None)).out_of_order), (None, None));
    }
}
