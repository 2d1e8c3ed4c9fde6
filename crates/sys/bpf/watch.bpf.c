// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Requests and replies of programs that nobody changed, split where the kernel sees a boundary.
 *
 * A thread's life is a set of running totals: on a CPU, runnable, being woken, blocked by kind of call (watch/threads.h). Where a
 * server reads a request and where it begins to reply the totals are copied, and what it did for the request is their difference. How a
 * thread came to read follows from when it was woken and had its CPU last, which is remembered with it. So the stages of a request add
 * up to its time. Requests and replies are paired here, by turns (watch/turns.h), one row each; where several are in flight on a
 * connection, user space pairs them from its log (watch/log.h).
 *
 * One program a tracepoint, as in attr.bpf.c. Those named _payload do the same as those without, and copy the first bytes of what
 * is sent. How it is built: .ci/bpf.
 */

#include "watch/sockets.h"
#include "watch/turns.h"
#include "watch/datagrams.h"

/* ---- sockets ---- */

/* Where a TCP send begins; also once for every further segment of the same call. */
INLINE int send_begins(u64 *ctx, int payload)
{
	struct sock *sk = (void *)ctx[0];
	struct control *c = active();
	if (!c)
		return 0;
	u32 role = CLIENT, idle = 0;
	struct conn *conn = conn_at(sk, c, SENDS, &role);
	struct thread *t = conn ? own(c) : 0;
	if (!conn || !t || t->sending == conn->id)
		return 0;
	t->sending = conn->id;
	u64 now = monotonic_ns();
	if (role == CLIENT) {
		idle = conn->phase == IDLE || conn->phase == ANSWERED;
		client_sends(conn, c, sk, now);
	} else if (conn->phase == SERVED) {
		if (conn->far && unread(sk))
			sign(conn);
		reply_begins(conn, t, now);
	}
	if (!payload || !c->payload)
		return 0;
	struct msghdr *msg = (void *)ctx[1];
	if (c->payload & RECOGNISES && (conn->tls || !conn->turns) && looks_at(conn, role, idle, msg)) {
		/* Behind a handshake the first request, in the same turn. */
		over(conn);
		request_begins(conn, c, now, 0);
		idle = 1;
	}
	if (idle)
		copy_head(conn, msg);
	if (conn->logged)
		log_begin(conn, role, t, now, msg);
	return 0;
}

SEC("tp_btf/tcp_sendmsg_locked") int on_tcp_sendmsg_locked(u64 *ctx) { return send_begins(ctx, 0); }
SEC("tp_btf/tcp_sendmsg_locked") int on_tcp_sendmsg_locked_payload(u64 *ctx) { return send_begins(ctx, 1); }

/* A field of a few bits. */
#define BITS(from, field) ({ \
	void *at = (void *)(from) + __builtin_preserve_field_info((from)->field, 0); \
	u64 value = 0; \
	switch (__builtin_preserve_field_info((from)->field, 1)) { \
	case 1: value = *(u8 *)at; break; \
	case 2: value = *(u16 *)at; break; \
	case 4: value = *(u32 *)at; break; \
	case 8: value = *(u64 *)at; break; \
	} \
	value <<= __builtin_preserve_field_info((from)->field, 4); \
	value >> __builtin_preserve_field_info((from)->field, 5); })

/* Nagle's algorithm: what was sent is less than a segment, and is kept until what was sent before is acknowledged. */
INLINE int waits_for_acknowledgement(struct sock *sk)
{
	struct tcp_sock *tcp = sk->sk_protocol == IPPROTO_TCP ? as_tcp_socket(sk) : 0;
	if (!tcp)
		return 0;
	u32 unsent = tcp->write_seq - tcp->snd_nxt;
	return unsent && unsent < tcp->mss_cache && tcp->packets_out && !BITS(tcp, nonagle);
}

SEC("tp_btf/sock_send_length") int on_sock_send_length(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	s32 bytes = ctx[1];
	struct control *c = active();
	if (!c)
		return 0;
	u32 role = CLIENT;
	struct conn *conn = conn_at(sk, c, SENDS, &role);
	struct thread *t = conn ? own(c) : 0;
	if (!conn || !t)
		return 0;
	u64 now = monotonic_ns();
	t->sending = 0;
	if (bytes > 0 && waits_for_acknowledgement(sk))
		conn->nagled |= 1 << role;
	if (LOGGED(conn) && sk->__sk_common.skc_family != AF_UNIX)
		log_sent(conn->id, role, now, bytes > 0 ? bytes : 0);
	if (bytes > 0) {
		if (c->silent && is_alone(conn, c))
			sent_in_silence(conn, c, sk, t, role, now);
		if (role == CLIENT) {
			conn->asked += bytes;
			conn->t_out = now;
		} else if ((conn->phase == SENDING && is_alone(conn, c)) || (conn->phase == ANSWERED && conn->far)) {
			reply_left(conn, c, now, bytes);
		}
	}
	did(t, conn->id, role, now);
	return 0;
}

/* `came`: so many bytes, where nothing tells what is sent (before kernel 6.3). */
INLINE int data_ready(u64 *ctx, int payload, u32 came)
{
	struct sock *sk = (void *)ctx[0];
	struct control *c = active();
	if (!c)
		return 0;
	u32 role = CLIENT;
	struct conn *conn = conn_at(sk, c, ARRIVES, &role);
	if (!conn)
		return 0;
	u64 now = monotonic_ns();
	u32 idle = conn->phase == IDLE || conn->phase == ANSWERED, local = sk->__sk_common.skc_family == AF_UNIX;
	/* Nothing tells when a send on a Unix socket begins; the sender is the current thread. */
	struct thread *sender = 0;
	if (local)
		sender = own(c);
	else if (c->silent && role == CLIENT && (CURRENT == conn->reads || CURRENT == conn->hands))
		sender = own(c);
	if (role == SERVER) {
		/* Nobody saw the reply to the one before leave for another host. */
		if (came && conn->phase == SERVED && is_alone(conn, c))
			incomplete(conn);
		conn->asked += came;
		request_ready(conn, c, now);
	} else {
		if (conn->phase == SERVED && sender)
			reply_begins(conn, sender, now);
		if (came && sender)
			did(sender, conn->id, SERVER, now);
		if (conn->phase == SENDING)
			reply_ready(conn, now);
		else if (conn->phase == SENT && is_alone(conn, c))
			reply_from_afar(conn, c, now);
		else if (conn->phase == SENT || conn->phase == ARRIVED)
			sign(conn); /* the answer to something that was sent before */
	}
	if (!payload || !c->payload)
		return 0;
	if (local && sender) {
		/* The reader may have taken it already; what is read then is checked by whoever reads the log. */
		struct sk_buff *skb = sk->sk_receive_queue.prev;
		if (role == SERVER && idle)
			read_kernel(conn->row.head, HEAD, skb->data);
		if (conn->logged)
			log_queued(conn, role ^ 1, sender, now, skb);
	}
	if (conn->logged)
		log_ready(conn->id, role, now);
	return 0;
}

SEC("tp_btf/sk_data_ready") int on_sk_data_ready(u64 *ctx) { return data_ready(ctx, 0, 0); }
SEC("tp_btf/sk_data_ready") int on_sk_data_ready_payload(u64 *ctx) { return data_ready(ctx, 1, 0); }

/* The current thread has received from a connection; 0 bytes: there will be no more. */
INLINE int received(struct conn *conn, struct control *c, u32 role, s32 bytes)
{
	struct thread *t = own(c);
	if (!t)
		return 0;
	if (!bytes) {
		/* The other end has closed. */
		if (conn->phase == ANSWERED)
			finish(conn);
		else if (conn->phase >= SERVED)
			incomplete(conn);
		else
			conn->phase = IDLE;
		is_over(conn, c);
		return 0;
	}
	u64 now = monotonic_ns();
	if (role == SERVER) {
		turn_away(t, conn->id, now);
		request_read(conn, c, t, now, bytes);
	} else {
		if (conn->phase == IDLE && !conn->joined)
			unasked(conn);
		reply_read(conn, t, now, bytes);
	}
	if (LOGGED(conn)) {
		log_read(conn->id, role, now, bytes);
		if (role == SERVER)
			t->block.ns = t->run.ns = 0;
	}
	did(t, conn->id, role, now);
	return 0;
}

/* Data was received while no request is followed: where the server did that, it is counted. */
NOINLINE int only_counted(struct sock *sk, struct control *c)
{
	struct end *e = end_of(sk, c, 1);
	struct conn *conn = e ? conn_of(e->conn) : 0;
	if (!conn || !conn->server || ROLE(conn, e) != SERVER)
		return 0;
	if (!conn->service)
		conn->service = service_of(conn, c, PROCESS, 0);
	miss(conn);
	return 0;
}

SEC("tp_btf/sock_recv_length") int on_sock_recv_length(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	s32 bytes = ctx[1];
	/* A reader that was shut down is told by 0 bytes; negative results are errors, of which -EAGAIN is usual. */
	if (bytes < 0 || ctx[2] & MSG_PEEK)
		return 0;
	struct control *c = alive();
	if (!c)
		return 0;
	if (c->on == SHUT)
		return bytes ? only_counted(sk, c) : 0;
	u32 role = CLIENT;
	struct conn *conn = conn_at(sk, c, READS, &role);
	return conn ? received(conn, c, role, bytes) : 0;
}

/*
 * Before kernel 6.3 TCP alone tells of data that arrives and of data that is read, and nothing tells of what is sent: it is known when it
 * arrives, which it does within the send call where both ends are here.
 */
SEC("tp_btf/tcp_probe") int on_tcp_probe(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct sk_buff *skb = (void *)ctx[1];
	struct control *c = active();
	if (!c)
		return 0;
	struct end *e = end_of(sk, c, 0);
	struct tcp_sock *tcp = as_tcp_socket(sk);
	u8 header = 0;
	if (!e || !tcp || read_kernel(&header, sizeof(header), skb->data + 12))
		return 0;
	header = header >> 4 << 2;
	if (skb->len <= header)
		return 0;
	if (!e->counts) {
		e->counts = 1;
		e->copied = tcp->copied_seq;
	}
	return data_ready(ctx, 0, skb->len - header);
}

SEC("tp_btf/tcp_rcv_space_adjust") int on_tcp_rcv_space_adjust(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct control *c = active();
	if (!c)
		return 0;
	u32 role = CLIENT;
	struct conn *conn = conn_at(sk, c, READS, &role);
	struct end *e = conn ? end_of(sk, c, 1) : 0;
	struct tcp_sock *tcp = as_tcp_socket(sk);
	if (!conn || !e || !tcp || !e->counts)
		return 0;
	u32 copied = tcp->copied_seq, bytes = copied - e->copied;
	e->copied = copied;
	/* Nothing was taken that was only looked at. */
	return bytes ? received(conn, c, role, bytes) : 0;
}

SEC("tp_btf/inet_sock_set_state") int on_inet_sock_set_state(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	s32 to = ctx[2];
	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	/* Before anything is watched as well: who began to listen after /proc was read is known from here alone. */
	if (to == TCP_LISTEN)
		set_bit(&listening, PORT_OF(sk));
	struct control *c = alive();
	if (!c)
		return 0;
	if (to == TCP_LISTEN) {
		s32 process = PROCESS;
		/* What comes to a watched process is known by its port, before the process has seen it. */
		if (map_lookup(&processes, &process)) {
			set_bit(&ports, PORT_OF(sk));
			__sync_fetch_and_add(&c->epoch, 1);
		}
		return 0;
	}
	/* What comes to a watched cgroup, by the socket that has listened. */
	if (to == TCP_ESTABLISHED && by_cgroup && c->follow & CGROUPS)
		end_of(sk, c, 0);
	if (to != TCP_CLOSE && to != TCP_FIN_WAIT1)
		return 0;
	struct end *e = socket_storage(&ends, sk, 0, 0);
	struct conn *conn = e ? conn_of(e->conn) : 0;
	if (!conn || (ROLE(conn, e) != CLIENT && !conn->far))
		return 0;
	if (conn->phase == ANSWERED && conn->window == c->window && c->on != SHUT)
		finish(conn);
	/* The other end may take its time until it closes as well. */
	if (to != TCP_CLOSE)
		return 0;
	if (conn->phase >= SERVED)
		incomplete(conn);
	if (LOGGED(conn))
		log_gone(conn->id, monotonic_ns());
	conn->id = 0;
	return 0;
}

/* ---- datagrams ---- */

/* Beside the others, loaded where datagram sockets are watched: they read addresses in the kernel's memory, which not every kernel allows. */

SEC("tp_btf/sk_data_ready") int on_sk_data_ready_datagrams(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct control *c = active();
	return c && sk->sk_type == SOCK_DGRAM ? datagram_ready(sk) : 0;
}

SEC("tp_btf/sock_recv_length") int on_sock_recv_length_datagrams(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	s32 bytes = ctx[1];
	struct control *c = active();
	if (!c || sk->sk_type != SOCK_DGRAM || bytes < 0 || ctx[2] & MSG_PEEK)
		return 0;
	return datagram_read(sk, c, bytes);
}

SEC("tp_btf/sock_send_length") int on_sock_send_length_datagrams(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	s32 bytes = ctx[1];
	struct control *c = active();
	return c && sk->sk_type == SOCK_DGRAM && bytes >= 0 ? datagram_sent(sk, c, bytes) : 0;
}

/* At every packet of the machine: only where datagrams go to other hosts by sockets that are not connected. */
SEC("tp_btf/net_dev_queue") int on_net_dev_queue(u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	struct control *c = active();
	struct sock *sk = skb->sk;
	if (!c || !sk)
		return 0;
	return sk->sk_type == SOCK_DGRAM && sk->sk_protocol == IPPROTO_UDP ? datagram_leaves(sk, c, skb) : 0;
}

/* ---- threads ---- */

/* The call in which a task blocks; a page fault is none. */
INLINE s32 call_of(struct task_struct *task)
{
	void *registers = task_registers(task);
	if (!registers)
		return NO_CALL;
	struct pt_regs___x86 *x86 = registers;
	struct pt_regs___arm *arm = registers;
	if (EXISTS(x86->orig_ax))
		return x86->orig_ax;
	if (EXISTS(arm->syscallno))
		return arm->syscallno;
	return NO_CALL;
}

INLINE u32 kind_of(struct control *c, struct task_struct *task, s32 call, u32 state)
{
	if (state & (BY_SIGNAL | BY_TRACER | BY_FREEZER) || (EXISTS(task->frozen) && BITS(task, frozen)))
		return STOPPED;
	if (call < 0)
		return BITS(task, in_iowait) ? DISK : FAULT;
	u32 kind = call < CALLS ? c->kinds[call & (CALLS - 1)] & (SENDS_DATA - 1) : OTHER;
	if (kind != DISK && BITS(task, in_iowait))
		return DISK;
	return kind < POLL || kind >= STOPPED ? OTHER : kind;
}

/* The number of a call and the kind of a block in one. A page fault has no call: all bits of the number. */
INLINE s16 call_and_kind(s32 call, u32 kind)
{
	u32 none = (1 << CALL_BITS) - 1, number = call < 0 ? none : (u32)call < none ? (u32)call : none - 1;
	return (kind & 15) << CALL_BITS | number;
}

INLINE int switched(u64 preempted, struct task_struct *prev, struct task_struct *next, u32 state)
{
	struct control *c = active();
	if (!c)
		return 0;
	struct thread *from = place_of(prev->pid), *to = place_of(next->pid);
	int known_one = from != 0;
	/* The verifier wants pointers compared one by one; the compiler would join them. */
	asm volatile("" : "+r"(known_one));
	if (!known_one && !to)
		return 0;
	u64 now = monotonic_ns(), stolen = steal_of(prev);
	if (tells_steal() && !c->steal)
		c->steal = 1;
	u32 window = c->window;
	if (from && from->window != window)
		from = known_from(from, window, stolen, now);
	if (to && to->window != window)
		to = known_from(to, window, stolen, now);
	if (from) {
		s32 call = NO_CALL;
		u32 new = RUNNABLE;
		if (!(preempted & 1) && state) {
			call = call_of(prev);
			new = kind_of(c, prev, call, state);
			if (new == STOPPED)
				call = state & BY_SIGNAL ? SIGSTOP : state & BY_TRACER ? TRACED : FROZEN;
		}
		if (lock(from)) {
			from->call = call;
			from->taker.pid = 0;
			if (new == RUNNABLE) {
				begins_to_wait(from, prev);
				from->taker.pid = next->pid;
				copy_name(from->taker.name, next->comm);
			}
			take_stolen(from, stolen, now);
			go(from, new, now);
			unlock(from);
		}
	}
	if (to && lock(to)) {
		if (to->state == RUNNABLE && now > to->since) {
			/*
			 * Whoever took the CPU away; after a wake-up, whoever had it last. Others may have had it in between: to know
			 * them would cost every switch of the machine.
			 */
			struct who *who = &to->run_before;
			int taken = to->taker.pid != 0;
			who->ns = now - to->since;
			who->pid = taken ? to->taker.pid : prev->pid;
			who->call = was_throttled(to, next) ? QUOTA : NO_CALL;
			who->cpu = this_cpu();
			copy_name(who->name, prev->comm);
			if (taken)
				copy_name(who->name, to->taker.name);
			to->taker.pid = 0;
			to->run_ended = now;
			if (who->ns > to->run.ns)
				to->run = *who;
		}
		go(to, ON_CPU, now);
		to->stolen = stolen;
		to->interrupts = 0;
		unlock(to);
	}
	return 0;
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

/* The current thread has an open request and wakes another that is known: it may hand the request over. */
INLINE void hand_over(struct thread *to, s32 pid, u64 now)
{
	struct thread *from = thread_of(CURRENT);
	if (!from || from == to)
		return;
	struct conn *conn = conn_of(from->open);
	if (!conn || conn->phase != SERVED || conn->hands || conn->reads != CURRENT)
		return;
	/* A thread that has a request of its own waits for that one. */
	struct conn *its = conn_of(to->open);
	if (its && its->phase == SERVED && its->reads == pid)
		return;
	mark_own(from, &conn->handed_from, now);
	if (!mark_other(to, &conn->handed_to, now))
		return;
	conn->hands = pid;
	to->block.ns = to->run.ns = 0;
}

/*
 * Who wakes another one. The thread that has the CPU only where it does so itself: not where it was interrupted. A softirq may be the
 * thread's own work, of a packet that it sends within this machine.
 */
INLINE s32 waker(struct control *c)
{
	u32 zero = 0;
	struct context *context = map_lookup(&contexts, &zero);
	if (context && context->hard)
		return context->hard;
	u32 soft = context ? context->soft : 0;
	if (!soft)
		return CURRENT;
	if (soft == TIMERS + 1 || soft == HIGH_TIMERS + 1)
		return TIMED_OUT;
	if (soft != NET_RX + 1 && soft != NET_TX + 1)
		return DEVICE;
	s32 call = call_of(current_task());
	return call >= 0 && call < CALLS && c->kinds[call & (CALLS - 1)] & SENDS_DATA ? CURRENT : PACKET;
}

/* A thread that was stopped goes on. */
INLINE void goes_on(struct thread *t, u64 ns, u64 now)
{
	s32 process = t->tgid;
	struct who *by = t->call > 0 ? map_lookup(&stoppers, &process) : 0;
	if (by)
		t->stop = *by;
	else
		__builtin_memset(&t->stop, 0, sizeof(t->stop));
	if (!by)
		t->stop.call = t->call;
	t->stop.ns = ns;
	t->stop_ended = now;
}

SEC("tp_btf/signal_generate") int on_signal_generate(u64 *ctx)
{
	s32 signal = ctx[0];
	struct task_struct *task = (void *)ctx[2];
	if (signal < SIGSTOP || signal > SIGTTOU || !alive())
		return 0;
	struct who by = { .pid = CURRENT, .call = signal, .cpu = this_cpu() };
	current_name(by.name, sizeof(by.name));
	s32 process = task->tgid;
	map_update(&stoppers, &process, &by, ANY);
	return 0;
}

SEC("tp_btf/sched_waking") int on_sched_waking(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct control *c = active();
	if (!c)
		return 0;
	s32 pid = task->pid;
	struct thread *t = thread_of(pid);
	if (!t || t->state < POLL || !lock(t))
		return 0;
	u64 now = monotonic_ns();
	int woken = t->state >= POLL;
	s32 by = waker(c);
	if (woken) {
		u64 ns = now > t->since ? now - t->since : 0;
		if (t->state == STOPPED)
			goes_on(t, ns, now);
		else if (ns > t->block.ns) {
			t->block.ns = ns;
			t->block.pid = by;
			t->block.call = call_and_kind(t->call, t->state);
			t->block.cpu = this_cpu();
			((u64 *)t->block.name)[0] = ((u64 *)t->block.name)[1] = 0;
			if (by > 0)
				current_name(t->block.name, sizeof(t->block.name));
		}
		go(t, WAKING, now);
	}
	unlock(t);
	if (woken && by > 0)
		hand_over(t, pid, now);
	return 0;
}

SEC("tp_btf/sched_wakeup") int on_sched_wakeup(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct control *c = active();
	if (!c)
		return 0;
	struct thread *t = thread_of(task->pid);
	/* Of a thread that has its CPU nothing is changed from another one. */
	if (!t || t->state < WAKING || !lock(t))
		return 0;
	if (t->state >= WAKING) {
		begins_to_wait(t, task);
		go(t, RUNNABLE, monotonic_ns());
	}
	unlock(t);
	return 0;
}

SEC("tp_btf/sched_process_exit") int on_sched_process_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	s32 pid = task->pid;
	struct control *c = alive();
	if (!c)
		return 0;
	struct thread *t = place_of(pid);
	if (t)
		forget(t, pid);
	return 0;
}

SEC("tp_btf/sched_process_fork") int on_sched_process_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	struct control *c = alive();
	if (!c || !(c->follow & PROCESSES))
		return 0;
	s32 from = parent->tgid, process = child->tgid;
	u32 one = 1;
	if (from != process && map_lookup(&processes, &from))
		map_update(&processes, &process, &one, ANY);
	return 0;
}

/*
 * A page fault from user mode. Nothing tells when it ends, but that its page is counted (rss_stat) comes next to last: what lies
 * between is the fault's. One that counts no page (a copy after a fork) is time on the CPU.
 */
SEC("tp_btf/page_fault_user") int on_page_fault_user(void)
{
	struct control *c = active();
	struct thread *t = c ? thread_of(CURRENT) : 0;
	if (!t)
		return 0;
	t->faults++;
	if (lock(t)) {
		go(t, t->state, monotonic_ns());
		t->paging = 1;
		unlock(t);
	}
	return 0;
}

SEC("tp_btf/rss_stat") int on_rss_stat(void)
{
	struct control *c = active();
	struct thread *t = c ? thread_of(CURRENT) : 0;
	if (!t || !t->paging)
		return 0;
	/* A system call counts pages as well. */
	if (call_of(current_task()) >= 0 || !lock(t))
		return 0;
	u64 now = monotonic_ns();
	if (t->state == ON_CPU && now > t->since) {
		t->ns[PAGING] += now - t->since;
		t->since = now;
	}
	t->paging = 0;
	unlock(t);
	return 0;
}

/*
 * Interrupts, and the softirqs behind them, take the CPU from the thread that has it. A softirq during a system call may be the
 * call's own work (a packet on loopback): it is time on the CPU. That it sends is known at less cost than what it does in general.
 */
INLINE int interrupt(int begins, int soft)
{
	struct control *c = active();
	struct thread *t = c ? thread_of(CURRENT) : 0;
	if (!t || (soft && (t->sending || call_of(current_task()) >= 0)) || !lock(t))
		return 0;
	if (begins && !t->interrupts++ && t->state == ON_CPU)
		go(t, INTERRUPT, monotonic_ns());
	else if (!begins && t->interrupts && !--t->interrupts && t->state == INTERRUPT)
		go(t, ON_CPU, monotonic_ns());
	unlock(t);
	return 0;
}

INLINE int hard_interrupt(s32 which)
{
	u32 zero = 0;
	/* That one is over is always noted, whether a window has closed meanwhile or not. */
	if (which && !active())
		return 0;
	struct context *context = map_lookup(&contexts, &zero);
	if (context)
		context->hard = which;
	return interrupt(which != 0, 0);
}

SEC("tp_btf/irq_handler_entry") int on_irq_handler_entry(void) { return hard_interrupt(DEVICE); }
SEC("tp_btf/irq_handler_exit") int on_irq_handler_exit(void) { return hard_interrupt(0); }

/* It is kept when packets began to be received, for connections to other hosts. */
INLINE int softirq(u64 *ctx, int begins)
{
	u32 zero = 0, which = ctx[0];
	if (begins && !active())
		return 0;
	struct context *context = map_lookup(&contexts, &zero);
	if (!context)
		return 0;
	context->soft = begins ? which + 1 : 0;
	if (which == NET_RX) {
		struct control *c = active();
		context->receives = begins && c && c->far ? monotonic_ns() : 0;
	}
	return interrupt(begins, 1);
}

SEC("tp_btf/softirq_entry") int on_softirq_entry(u64 *ctx) { return softirq(ctx, 1); }
SEC("tp_btf/softirq_exit") int on_softirq_exit(u64 *ctx) { return softirq(ctx, 0); }
/* Of x86. */
SEC("tp_btf/local_timer_entry") int on_local_timer_entry(void) { return hard_interrupt(TIMED_OUT); }
SEC("tp_btf/local_timer_exit") int on_local_timer_exit(void) { return hard_interrupt(0); }
