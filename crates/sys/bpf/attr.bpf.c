// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Kernel events of the threads under measurement, as BTF tracepoint programs that write into a log mapped by user space.
 *
 * One program a tracepoint, named on_ and the tracepoint; the loader loads each on its own, so that a kernel without one of
 * them loses that boundary and nothing else. Event numbers are those of EventKind in crates/core/src/schema.rs. The layouts
 * of `control` and `record` are repeated in crates/sys/src/bpf.rs. How it is built: .ci/bpf.
 */

#include "bpf.h"

#define CPUS 1024     /* a power of two; CPUs beyond share the entries of others */
#define SEGMENTS 16   /* a power of two */

/* Records that fit into one segment of the log; set before loading. */
const volatile u32 capacity = 0;

struct head { u64 claimed; u64 unused[15]; }; /* two cache lines: neighbours are fetched together */

struct control {
	u32 on;
	u32 least;               /* shorter packets are left out, bytes without the Ethernet header */
	u64 unused[7];
	u64 all[CPUS / 64];      /* CPUs of which every switch, softirq and idle state is recorded */
	u8 segment[CPUS];        /* in which segment a CPU writes */
	u8 unused_too[64];
	struct head head[SEGMENTS];
};

struct record { u64 t, a; u32 b; s32 tid; u16 ev, cpu, len, flags; };

MAP(control, ARRAY, MMAPABLE, 1, u32, struct control);

/* SEGMENTS segments of `capacity` records at most; the loader sets the size. */
MAP(records, ARRAY, MMAPABLE, 1, u32, struct record);

/* One bit for each thread id there can be (4194304): the threads under measurement. */
MAP(threads, ARRAY, MMAPABLE, 65536, u32, u64);

/* One bit for each value of the low 16 bits of a socket's cookie. */
MAP(sockets, ARRAY, MMAPABLE, 1024, u32, u64);

/* What tasks were called when they left a CPU: many end before anybody could look into /proc. */
struct name { char text[16]; };
MAP(names, HASH, 0, 4096, s32, struct name);

char LICENSE[] SEC("license") = "Dual MIT/GPL";

INLINE struct control *active(void)
{
	u32 zero = 0;
	struct control *c = map_lookup(&control, &zero);
	return c && c->on ? c : 0;
}

#define MEASURED(pid) bit(&threads, (u32)(pid))

INLINE int everything(struct control *c)
{
	u32 cpu = this_cpu() % CPUS;
	return c->all[cpu / 64] >> (cpu % 64) & 1;
}

/* What finds no room is counted by `claimed` and left out; nothing is overwritten. */
INLINE int emit(struct control *c, u16 ev, s32 tid, u64 a, u32 b, u32 len, u16 flags)
{
	u64 t = monotonic_ns();
	u32 cpu = this_cpu();
	u32 segment = c->segment[cpu % CPUS] % SEGMENTS;
	u64 k = __sync_fetch_and_add(&c->head[segment].claimed, 1);
	if (k >= capacity)
		return 0;
	u32 place = segment * capacity + (u32)k;
	struct record *r = map_lookup(&records, &place);
	if (!r)
		return 0;
	r->a = a;
	r->b = b;
	r->tid = tid;
	r->ev = ev;
	r->cpu = cpu;
	r->len = len > 65535 ? 65535 : len;
	r->flags = flags;
	/* The time comes last: a record without one was claimed and not written. */
	*(volatile u64 *)&r->t = t;
	return 0;
}

/* ---- scheduler ---- */

SEC("tp_btf/sched_waking") int on_sched_waking(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct control *c = active();
	if (!c)
		return 0;
	s32 pid = task->pid;
	return MEASURED(pid) ? emit(c, 1, CURRENT, 0, pid, 0, 0) : 0;
}

SEC("tp_btf/sched_wakeup") int on_sched_wakeup(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct control *c = active();
	if (!c)
		return 0;
	s32 pid = task->pid;
	return MEASURED(pid) ? emit(c, 2, CURRENT, 0, pid, 0, 0) : 0;
}

/* The previous task of a switch is still the current one. A name that is there may be that before an exec. */
INLINE void remember_name(s32 pid)
{
	if (!pid)
		return;
	struct name *known = map_lookup(&names, &pid);
	if (known) {
		current_name(known, sizeof(*known));
		return;
	}
	struct name name;
	if (!current_name(&name, sizeof(name)))
		map_update(&names, &pid, &name, 0);
}

INLINE int switched(u64 preempted, struct task_struct *prev, struct task_struct *next, u32 state)
{
	struct control *c = active();
	if (!c)
		return 0;
	s32 from = prev->pid, to = next->pid;
	int from_measured = MEASURED(from);
	if (!from_measured && !MEASURED(to) && !everything(c))
		return 0;
	if (!from_measured)
		remember_name(from);
	return emit(c, 3, from, state, to, 0, preempted & 1);
}

/* The state of the previous task is the fourth argument since kernel 5.18. */
SEC("tp_btf/sched_switch") int on_sched_switch(u64 *ctx)
{
	return switched(ctx[0], (void *)ctx[1], (void *)ctx[2], ctx[3]);
}

SEC("tp_btf/sched_switch") int on_sched_switch_before_5_18(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1];
	return switched(ctx[0], prev, (void *)ctx[2], state_of(prev));
}

/* ---- packets: the stack's side and the device's ---- */

INLINE int packet(u16 ev, u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	struct control *c = active();
	if (!c)
		return 0;
	u32 len = skb->len;
	return len >= c->least ? emit(c, ev, CURRENT, (u64)skb, 0, len, 0) : 0;
}

SEC("tp_btf/net_dev_queue") int on_net_dev_queue(u64 *ctx) { return packet(4, ctx); }
SEC("tp_btf/net_dev_start_xmit") int on_net_dev_start_xmit(u64 *ctx) { return packet(5, ctx); }
SEC("tp_btf/netif_rx") int on_netif_rx(u64 *ctx) { return packet(6, ctx); }
SEC("tp_btf/netif_receive_skb") int on_netif_receive_skb(u64 *ctx) { return packet(7, ctx); }
SEC("tp_btf/napi_gro_receive_entry") int on_napi_gro_receive_entry(u64 *ctx) { return packet(15, ctx); }

/* ---- sockets ---- */

/* The buffer begins with the TCP header here: what `least` counts of an IP header, 40 bytes at most, is missing. */
SEC("tp_btf/tcp_probe") int on_tcp_probe(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct sk_buff *skb = (void *)ctx[1];
	struct control *c = active();
	if (!c)
		return 0;
	u64 cookie = sk->__sk_common.skc_cookie.counter;
	u32 len = skb->len;
	if (!cookie || !bit(&sockets, cookie % 65536) || len + 40 < c->least)
		return 0;
	return emit(c, 8, CURRENT, (u64)skb, cookie, len, 0);
}

SEC("tp_btf/sk_data_ready") int on_sk_data_ready(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct control *c = active();
	if (!c)
		return 0;
	u64 cookie = sk->__sk_common.skc_cookie.counter;
	if (!cookie || !bit(&sockets, cookie % 65536))
		return 0;
	return emit(c, 9, CURRENT, (u64)sk, cookie, 0, 0);
}

SEC("tp_btf/skb_copy_datagram_iovec") int on_skb_copy_datagram_iovec(u64 *ctx)
{
	struct control *c = active();
	if (!c)
		return 0;
	s32 tid = CURRENT;
	return MEASURED(tid) ? emit(c, 10, tid, ctx[0], ctx[1], ctx[1], 0) : 0;
}

/* ---- system calls and signals ---- */

INLINE int call(u16 ev, u64 *ctx)
{
	struct control *c = active();
	if (!c)
		return 0;
	s32 tid = CURRENT;
	return MEASURED(tid) ? emit(c, ev, tid, ctx[1], 0, 0, 0) : 0;
}

SEC("tp_btf/sys_enter") int on_sys_enter(u64 *ctx) { return call(11, ctx); }
SEC("tp_btf/sys_exit") int on_sys_exit(u64 *ctx) { return call(12, ctx); }

/* A signal for a process names its first thread, which need not be one of those under measurement. */
SEC("tp_btf/signal_generate") int on_signal_generate(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[2];
	struct control *c = active();
	if (!c)
		return 0;
	s32 pid = task->pid;
	return MEASURED(pid) || MEASURED(task->tgid) ? emit(c, 13, CURRENT, pid, ctx[0], 0, 0) : 0;
}

SEC("tp_btf/signal_deliver") int on_signal_deliver(u64 *ctx)
{
	struct control *c = active();
	if (!c)
		return 0;
	s32 tid = CURRENT;
	return MEASURED(tid) ? emit(c, 14, tid, 0, ctx[0], 0, 0) : 0;
}

/* ---- the CPUs of the ends ---- */

INLINE int on_cpu(u16 ev, u32 what)
{
	struct control *c = active();
	return c && everything(c) ? emit(c, ev, CURRENT, what, 0, 0, 0) : 0;
}

SEC("tp_btf/softirq_entry") int on_softirq_entry(u64 *ctx) { return on_cpu(16, ctx[0]); }
SEC("tp_btf/softirq_exit") int on_softirq_exit(u64 *ctx) { return on_cpu(17, ctx[0]); }
SEC("tp_btf/cpu_idle") int on_cpu_idle(u64 *ctx) { return on_cpu(18, ctx[0]); }
