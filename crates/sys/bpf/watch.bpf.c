// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Requests and replies of programs that nobody changed: one row each, split where the kernel sees a boundary.
 *
 * A thread's life is a set of running totals: on a CPU, runnable, being woken, blocked by kind of call. Every boundary of a
 * request copies the totals of the thread that serves it, and a stage is the difference of two copies, so that the stages of a
 * request add up to its time. Requests and replies are paired here, by turns: what the client sends before it was answered is
 * one request, what the server sends until the client speaks again is one reply. A connection on which this cannot be (a reply
 * to something the server has not read) is marked, and its turns are only counted.
 *
 * One program a tracepoint, as in attr.bpf.c, whose prologue is repeated here. The layouts of `control`, `service` and `row`
 * are repeated in crates/sys/src/watch.rs. How it is built: .ci/bpf.
 */

typedef unsigned char u8;
typedef unsigned short u16;
typedef short s16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))
#define UNROLL _Pragma("unroll")

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*monotonic_ns)(void) = (void *)5;
static u32 (*this_cpu)(void) = (void *)8;
static u64 (*process_and_thread)(void) = (void *)14;
static long (*current_name)(void *name, u32 size) = (void *)16;
static void *(*socket_storage)(void *map, void *sk, void *value, u64 flags) = (void *)107;
static long (*ring_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static void *(*task_registers)(void *task) = (void *)175;
static void *(*as_unix_socket)(void *sk) = (void *)178;

#define ANY 0
#define NO_EXIST 1
#define STORAGE_CREATE 1
#define NO_WAKEUP 1

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct { s32 pid; s32 tgid; u32 in_iowait : 1; char comm[16]; };
struct task_struct___renamed { u32 __state; };
struct task_struct___before { long state; };
struct pt_regs___x86 { u64 orig_ax; };
struct pt_regs___arm { s32 syscallno; };
struct in6_addr { union { u32 u6_addr32[4]; } in6_u; };
typedef struct { void *net; } possible_net_t;
struct sock_common {
	u16 skc_family;
	volatile u8 skc_state;
	u16 skc_num, skc_dport;
	u32 skc_daddr, skc_rcv_saddr;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
	possible_net_t skc_net;
};
struct sock { struct sock_common __sk_common; u16 sk_protocol, sk_type; };
struct unix_sock { void *addr; struct sock *peer; };
#pragma clang attribute pop

#define EXISTS(field) __builtin_preserve_field_info(field, 2)

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define SOCK_STREAM 1
#define IPPROTO_TCP 6
#define TCP_ESTABLISHED 1
#define TCP_CLOSE 7
#define TCP_LISTEN 10
#define MSG_PEEK 2
/* A reader that was shut down is told by 0 bytes; negative results are errors, of which -EAGAIN is usual. */

/* ---- what a thread does ---- */

enum { ON_CPU, RUNNABLE, WAKING, POLL, SOCKET, FUTEX, DISK, SLEEP, FAULT, OTHER, KINDS };
#define NO_CALL -1
#define CALLS 512

/* Who kept a thread waiting: who woke it, or who had the CPU before it. */
struct who { u64 ns; s32 pid; s16 call; u16 cpu; char name[16]; };

/* What a thread had done up to a moment. */
struct mark { u64 t; u64 ns[KINDS]; };

/* What a thread did last on a connection, in one role. */
struct last { u64 conn; struct mark at; };

enum { CLIENT, SERVER };

struct thread {
	u64 seq;                 /* odd while the totals change */
	u64 since;               /* when the state began */
	u64 ns[KINDS];
	u32 state;
	s32 call;                /* in which it blocks */
	s32 tgid;
	u32 faults;
	u64 open;                /* the connection whose request it read last */
	u64 sending;             /* the connection on which it is in a send call */
	struct who block, run;   /* the longest of each since it read a request */
	struct who run_before;   /* the last wait for a CPU */
	struct who taker;        /* who took the CPU where it was taken away; pid 0: it was not */
	u64 run_ended;
	struct last last[2];     /* by role */
	char name[16];
};

/* ---- connections ---- */

struct address { u64 hi, lo; u32 port; u32 zero; };
struct key { struct address a, b; u64 net; u64 family; };

/* Stages and what else is known of one request, as user space reads it. */
struct row {
	u64 t0, total, conn;
	u32 service, flags, weight, turn;
	u32 bytes_there, bytes_back;
	s32 server, server_process, client, client_process;
	u32 faults, port;
	/* The stages, in the order of time; they add up to `total`. */
	u64 send;                /* the client's send call up to the data being ready at the server */
	u64 queued;              /* the server's thread was busy with other connections */
	u64 there[4];            /* wake-up call, in flight, run queue, on CPU */
	u64 thread;              /* the reading thread is not the one that was expected */
	u64 work[KINDS];
	u64 elsewhere;           /* work that cannot be split: a thread that nobody saw being woken replied */
	u64 held;                /* the reply waited while the thread read other requests */
	u64 reply;               /* the server's send call up to the data being ready at the client */
	u64 client_queued;
	u64 back[4];
	u64 client_thread;
	u64 rest;                /* from the first to the last part of the reply */
	struct who run_there, block, run_work, run_back;
	char server_name[16], client_name[16];
};

enum { SLOW = 1, SAMPLED = 2, TORN = 4, AGAIN = 8, HANDED = 16, PARTS = 32, NO_START = 64 };

enum { IDLE, SENT, ARRIVED, SERVED, SENDING, READY, ANSWERED };

struct conn {
	u64 id;
	u32 phase;
	u32 server;              /* which end: 1 or 2; 0: not known yet */
	u32 seen;                /* ends that were seen, a bit each */
	u32 service;             /* its number + 1 */
	u32 port;
	u32 turns, out_of_turn;
	u64 asked, got;          /* bytes that the client has sent and the server has received */
	u32 faults;              /* of the reading thread when it read */
	s32 reader[2];           /* the threads that received last, by role */
	s32 reads, hands;        /* the thread that read the request, and the one that it woke */
	u32 first;               /* bytes of earlier parts of the reply are there */
	u64 t_sent, t_ready, t_first;
	struct mark waiting;     /* of the thread that is expected to read */
	u32 waiting_thread, done_is;
	struct mark read, done, handed_from, handed_to, client_waiting;
	u32 client_thread, zero;
	struct row row;
};

/* What is kept with a socket. */
struct end { u64 conn; u32 side; u32 epoch; };

#define BUCKETS 4480
struct service {
	u64 slow;                /* requests that take so long have a row */
	u64 every;               /* and one in so many of the others */
	u64 requests, torn, incomplete, in_flight, unasked, unused;
	u64 histogram[BUCKETS];
};
#define SERVICES 32

struct control {
	u32 on;
	u32 follow;              /* children of watched processes are watched */
	u32 epoch;               /* changes whenever a socket may have become interesting */
	u32 unused;
	u64 connections, services, lost, no_room;
	u64 unused_too[2];
	u8 kinds[CALLS];         /* of the calls by their numbers */
};

#define UINT(name, value) int (*name)[value]
#define HASH 1
#define ARRAY 2
#define LRU_HASH 9
#define SK_STORAGE 24
#define RINGBUF 27
#define NO_PREALLOC 1
#define MMAPABLE (1 << 10)

#define MAP(name, kind, flags, entries, key_type, value_type) \
	struct { UINT(type, kind); UINT(map_flags, flags); UINT(max_entries, entries); key_type *key; value_type *value; } \
	name SEC(".maps")

MAP(control, ARRAY, MMAPABLE, 1, u32, struct control);
MAP(services, ARRAY, MMAPABLE, SERVICES, u32, struct service);
/* A bit for each thread id there can be, so that other threads cost next to nothing; the totals of those that have one. */
MAP(known, ARRAY, 0, 65536, u32, u64);
MAP(threads, HASH, 0, 8192, s32, struct thread);
/* Ports that are watched, and ports on which somebody listens: a bit each. */
MAP(ports, ARRAY, MMAPABLE, 1024, u32, u64);
MAP(listening, ARRAY, MMAPABLE, 1024, u32, u64);
MAP(processes, HASH, 0, 4096, s32, u32);
MAP(ends, SK_STORAGE, NO_PREALLOC, 0, s32, struct end);
MAP(pairs, LRU_HASH, 0, 16384, struct key, u64);
MAP(conns, LRU_HASH, 0, 8192, u64, struct conn);
/* Servers by port, or by process where there is none, and their numbers. */
MAP(numbers, HASH, 0, SERVICES, u64, u32);
/* What new entries are made of. */
MAP(blank_thread, ARRAY, 0, 1, u32, struct thread);
MAP(blank_conn, ARRAY, 0, 1, u32, struct conn);
struct { UINT(type, RINGBUF); UINT(max_entries, 1 << 20); } rows SEC(".maps");

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define CURRENT ((s32)process_and_thread())
#define PROCESS ((s32)(process_and_thread() >> 32))
#define COUNT(counter) __sync_fetch_and_add(&(counter), 1)

INLINE struct control *active(void)
{
	u32 zero = 0;
	struct control *c = map_lookup(&control, &zero);
	return c && c->on ? c : 0;
}

INLINE int bit(void *map, u32 number)
{
	u32 word = number / 64;
	u64 *bits = map_lookup(map, &word);
	return bits && (*bits >> (number % 64) & 1);
}

INLINE void set_bit(void *map, u32 number, int on)
{
	u32 word = number / 64;
	u64 *bits = map_lookup(map, &word);
	if (!bits)
		return;
	if (on)
		__sync_fetch_and_or(bits, 1ull << (number % 64));
	else
		__sync_fetch_and_and(bits, ~(1ull << (number % 64)));
}

INLINE void copy_name(char *to, const char *from)
{
	((u64 *)to)[0] = ((const u64 *)from)[0];
	((u64 *)to)[1] = ((const u64 *)from)[1];
}

/* ---- threads ---- */

INLINE struct thread *thread_of(s32 pid)
{
	return pid > 0 && bit(&known, pid) ? map_lookup(&threads, &pid) : 0;
}

/* The current thread, known from now on. */
NOINLINE struct thread *own(struct control *c)
{
	s32 pid = CURRENT;
	u32 zero = 0;
	struct thread *t = thread_of(pid);
	if (t || pid <= 0)
		return t;
	void *blank = map_lookup(&blank_thread, &zero);
	if (!blank || map_update(&threads, &pid, blank, ANY)) {
		COUNT(c->no_room);
		return 0;
	}
	t = map_lookup(&threads, &pid);
	if (!t)
		return 0;
	t->state = ON_CPU;
	t->since = monotonic_ns();
	t->tgid = PROCESS;
	current_name(t->name, sizeof(t->name));
	set_bit(&known, pid, 1);
	return t;
}

/* A switch and a waking of the same thread may come at once on two CPUs. */
INLINE int lock(struct thread *t)
{
	for (int tries = 0; tries < 64; tries++) {
		u64 seq = *(volatile u64 *)&t->seq;
		if (!(seq & 1) && __sync_val_compare_and_swap(&t->seq, seq, seq + 1) == seq)
			return 1;
	}
	return 0;
}

INLINE void unlock(struct thread *t) { __sync_fetch_and_add(&t->seq, 1); }

/* Begins a new state. Where the thread is locked. */
INLINE void go(struct thread *t, u32 state, u64 now)
{
	u32 old = t->state;
	if (old < KINDS && now > t->since)
		t->ns[old] += now - t->since;
	if (now > t->since)
		t->since = now;
	t->state = state;
}

/* The totals up to now, of the current thread: nobody else changes them. The mark's time is that of the totals. */
INLINE void mark_own(struct thread *t, struct mark *m, u64 now)
{
	u32 state = t->state;
	UNROLL for (int i = 0; i < KINDS; i++)
		m->ns[i] = t->ns[i];
	m->t = t->since;
	if (now > m->t) {
		if (state < KINDS)
			m->ns[state] += now - m->t;
		m->t = now;
	}
}

/* The same of another thread, which may be changing: 0 where it always was. */
INLINE int mark_other(struct thread *t, struct mark *m, u64 now)
{
	for (int tries = 0; tries < 4; tries++) {
		u64 seq = __sync_fetch_and_add(&t->seq, 0);
		if (seq & 1)
			continue;
		mark_own(t, m, now);
		if (__sync_fetch_and_add(&t->seq, 0) == seq)
			return 1;
	}
	return 0;
}

/* What a thread did between two marks. A total that went back makes the row worthless. */
INLINE u64 between(const struct mark *from, const struct mark *to, int kind, struct row *row)
{
	s64 ns = to->ns[kind] - from->ns[kind];
	if (ns < 0) {
		row->flags |= TORN;
		return 0;
	}
	return ns;
}

INLINE u64 until(u64 from, u64 to, struct row *row)
{
	if (to < from) {
		row->flags |= TORN;
		return 0;
	}
	return to - from;
}

INLINE u64 blocked(const struct mark *from, const struct mark *to, struct row *row)
{
	u64 ns = 0;
	UNROLL for (int i = POLL; i < KINDS; i++)
		ns += between(from, to, i, row);
	return ns;
}

/* How a thread came to read what was ready: blocked until the wake-up call, in flight, in the run queue, on the CPU. */
INLINE void arrive(u64 *stages, const struct mark *from, const struct mark *to, struct row *row)
{
	stages[0] = blocked(from, to, row);
	stages[1] = between(from, to, WAKING, row);
	stages[2] = between(from, to, RUNNABLE, row);
	stages[3] = between(from, to, ON_CPU, row);
}

/* ---- sockets ---- */

INLINE void address_of(struct address *to, u16 family, u32 v4, struct in6_addr *v6, u16 port)
{
	if (family == AF_INET) {
		to->hi = 0;
		to->lo = 0xffff0000ull | (u64)v4 << 32;
	} else {
		to->hi = v6->in6_u.u6_addr32[0] | (u64)v6->in6_u.u6_addr32[1] << 32;
		to->lo = v6->in6_u.u6_addr32[2] | (u64)v6->in6_u.u6_addr32[3] << 32;
	}
	to->port = port;
}

INLINE int is_loopback(const struct address *a)
{
	return !a->hi && ((a->lo & 0xffffffffffull) == 0x7fffff0000ull || a->lo == 1ull << 56);
}

INLINE int above(const struct address *a, const struct address *b)
{
	if (a->hi != b->hi)
		return a->hi > b->hi;
	if (a->lo != b->lo)
		return a->lo > b->lo;
	return a->port > b->port;
}

#define PORT_OF(sk) ((sk)->__sk_common.skc_num)
#define FAR_PORT(sk) __builtin_bswap16((sk)->__sk_common.skc_dport)

/* The connection of a socket, the same for both of its ends, and which end it is (0, 1); -1: nothing that is watched. */
INLINE int key_of(struct sock *sk, struct key *key)
{
	u16 family = sk->__sk_common.skc_family;
	if (sk->sk_type != SOCK_STREAM)
		return -1;
	key->family = family;
	if (family == AF_UNIX) {
		struct unix_sock *u = as_unix_socket(sk);
		if (!u)
			return -1;
		u64 own = (u64)sk, peer = (u64)u->peer;
		if (!peer)
			return -1;
		key->family = AF_UNIX;
		key->a.lo = own < peer ? own : peer;
		key->b.lo = own < peer ? peer : own;
		return own > peer;
	}
	if ((family != AF_INET && family != AF_INET6) || sk->sk_protocol != IPPROTO_TCP)
		return -1;
	key->family = AF_INET;
	struct address own = {}, far = {};
	address_of(&own, family, sk->__sk_common.skc_rcv_saddr, &sk->__sk_common.skc_v6_rcv_saddr, PORT_OF(sk));
	address_of(&far, family, sk->__sk_common.skc_daddr, &sk->__sk_common.skc_v6_daddr, FAR_PORT(sk));
	if (!far.port)
		return -1;
	/* Every network namespace has a loopback of its own. */
	if (is_loopback(&own))
		key->net = (u64)sk->__sk_common.skc_net.net;
	int side = above(&own, &far);
	key->a = side ? far : own;
	key->b = side ? own : far;
	return side;
}

/* Which end is the server, as far as sockets tell: 1 or 2, 0 is not known. */
INLINE u32 server_of(struct sock *sk, u32 side)
{
	if (sk->__sk_common.skc_family == AF_UNIX) {
		/* An accepted socket has the address of the one that listened; a client's usually has none. */
		struct unix_sock *u = as_unix_socket(sk);
		struct unix_sock *peer = u && u->peer ? as_unix_socket(u->peer) : 0;
		if (!u || !peer || !u->addr == !peer->addr)
			return 0;
		return u->addr ? side + 1 : 2 - side;
	}
	int here = bit(&listening, PORT_OF(sk)), there = bit(&listening, FAR_PORT(sk));
	if (here == there)
		return 0;
	return here ? side + 1 : 2 - side;
}

/* Decides about a socket that is not known yet, or was not interesting so far. `mine`: the current process uses it. */
NOINLINE struct end *first_sight(struct sock *sk, struct control *c, int mine)
{
	struct key key = {};
	u32 zero = 0;
	int side = key_of(sk, &key);
	struct end *e = socket_storage(&ends, sk, 0, STORAGE_CREATE);
	if (!e)
		return 0;
	e->epoch = c->epoch;
	if (side < 0)
		return 0;
	u64 *id = map_lookup(&pairs, &key);
	int asked = id != 0;
	if (!asked && mine) {
		s32 process = PROCESS;
		asked = map_lookup(&processes, &process) != 0;
	}
	if (!asked && key.family == AF_INET)
		asked = bit(&ports, PORT_OF(sk)) || bit(&ports, FAR_PORT(sk));
	if (!asked)
		return 0;
	struct conn *conn = id ? map_lookup(&conns, id) : 0;
	if (!conn || conn->seen & 1u << (side & 1)) {
		/* A new one, or an address that was used before. */
		u64 number = COUNT(c->connections) + 1;
		void *blank = map_lookup(&blank_conn, &zero);
		if (!blank || map_update(&conns, &number, blank, ANY) || map_update(&pairs, &key, &number, ANY)) {
			COUNT(c->no_room);
			return 0;
		}
		conn = map_lookup(&conns, &number);
		if (!conn)
			return 0;
		conn->id = number;
		conn->port = key.family == AF_INET ? PORT_OF(sk) : 0;
		__sync_fetch_and_add(&c->epoch, 1);
	}
	if (!conn->server) {
		conn->server = server_of(sk, side);
		if (key.family == AF_INET && conn->server)
			conn->port = conn->server == (u32)side + 1 ? PORT_OF(sk) : FAR_PORT(sk);
	}
	conn->seen |= 1u << (side & 1);
	e->side = side & 1;
	e->conn = conn->id;
	return e;
}

INLINE struct end *end_of(struct sock *sk, struct control *c, int mine)
{
	struct end *e = socket_storage(&ends, sk, 0, 0);
	if (e && (e->conn || (e->epoch == c->epoch && !mine)))
		return e->conn ? e : 0;
	return first_sight(sk, c, mine);
}

#define ROLE(conn, end) ((conn)->server == (end)->side + 1 ? SERVER : CLIENT)

/* ---- rows ---- */

INLINE u32 bucket_of(u64 ns)
{
	u32 shift = 0;
	u64 v = ns;
	if (v >> 32) { v >>= 32; shift += 32; }
	if (v >> 16) { v >>= 16; shift += 16; }
	if (v >> 8) { v >>= 8; shift += 8; }
	if (v >> 4) { v >>= 4; shift += 4; }
	if (v >> 2) { v >>= 2; shift += 2; }
	if (v >> 1) shift += 1;
	if (shift < 7)
		return ns;
	u32 bucket = (shift - 6) * 128 + ((ns >> (shift - 7)) & 127);
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

/* The turn is over: it is counted, and written where it was slow or its turn to be sampled. */
NOINLINE int finish(struct conn *conn, struct control *c)
{
	conn->phase = IDLE;
	u32 number = conn->service - 1;
	struct service *s = map_lookup(&services, &number);
	if (!s)
		return 0;
	struct row *row = &conn->row;
	conn->turns++;
	/* Evidence that several requests are in flight: what is paired by turns is then not to be believed. */
	if (conn->out_of_turn > 2 && conn->out_of_turn * 50 > conn->turns) {
		COUNT(s->in_flight);
		return 0;
	}
	if (row->flags & TORN) {
		COUNT(s->torn);
		return 0;
	}
	u64 n = COUNT(s->requests);
	u32 bucket = bucket_of(row->total);
	if (bucket < BUCKETS)
		COUNT(s->histogram[bucket]);
	u64 every = s->every;
	row->weight = every;
	if (row->total >= s->slow)
		row->flags |= SLOW;
	if (every < 2 || n % every == 0)
		row->flags |= SAMPLED;
	if (!(row->flags & (SLOW | SAMPLED)))
		return 0;
	row->turn = conn->turns;
	row->service = number;
	row->conn = conn->id;
	row->port = conn->port;
	if (ring_output(&rows, row, sizeof(*row), NO_WAKEUP))
		COUNT(c->lost);
	return 0;
}

INLINE void incomplete(struct conn *conn)
{
	u32 number = conn->service - 1;
	struct service *s = map_lookup(&services, &number);
	if (s)
		COUNT(s->incomplete);
	conn->phase = IDLE;
}

/* The thread did something on this connection: what it did before on another one is over. Totals are up to date in `m`. */
INLINE void did(struct thread *t, u64 conn, u32 role, const struct mark *m)
{
	struct last *last = &t->last[role & 1];
	last->conn = conn;
	last->at = *m;
}

/* ---- a request begins ---- */

/* What the client sends belongs to the request that is under way, or begins one. */
INLINE void client_sends(struct conn *conn, struct control *c, u64 now)
{
	if (conn->phase == ANSWERED)
		finish(conn, c);
	if (conn->phase == IDLE) {
		conn->phase = SENT;
		conn->t_sent = now;
	} else if (conn->phase >= SERVED) {
		conn->row.flags |= AGAIN;
		if (conn->phase == READY)
			conn->out_of_turn++;
	}
}

INLINE void request_ready(struct conn *conn, struct control *c, u64 now)
{
	/* Unix sockets, and kernels that do not tell when a send begins. */
	if (conn->phase == ANSWERED)
		finish(conn, c);
	if (conn->phase == IDLE) {
		conn->phase = SENT;
		conn->t_sent = now;
	}
	if (conn->phase >= SERVED)
		conn->row.flags |= AGAIN;
	if (conn->phase != SENT)
		return;
	conn->phase = ARRIVED;
	conn->waiting_thread = 0;
	struct thread *t = thread_of(conn->reader[SERVER]);
	if (t && mark_other(t, &conn->waiting, now)) {
		conn->waiting_thread = conn->reader[SERVER];
		now = conn->waiting.t;
	}
	conn->t_ready = now;
}

INLINE u32 service_of(struct conn *conn, struct control *c, s32 process)
{
	u64 key = conn->port ? conn->port : 1ull << 32 | (u32)process;
	u32 *known = map_lookup(&numbers, &key);
	if (known)
		return *known + 1;
	u32 number = COUNT(c->services);
	if (number >= SERVICES - 1)
		number = SERVICES - 1; /* all that find no room, together */
	map_update(&numbers, &key, &number, NO_EXIST);
	known = map_lookup(&numbers, &key);
	return (known ? *known : number) + 1;
}

INLINE void request_read(struct conn *conn, struct control *c, struct thread *t, const struct mark *m, u32 bytes)
{
	struct row *row = &conn->row;
	s32 pid = CURRENT;
	if (!conn->service)
		conn->service = service_of(conn, c, t->tgid);
	conn->got += bytes;
	if (conn->phase == SERVED)
		row->bytes_there += bytes;
	if (conn->phase != ARRIVED) {
		conn->reader[SERVER] = pid;
		return;
	}
	conn->phase = SERVED;
	row->flags = 0;
	row->t0 = conn->t_sent;
	row->send = until(conn->t_sent, conn->t_ready, row);
	row->queued = row->thread = 0;
	UNROLL for (int i = 0; i < 4; i++)
		row->there[i] = 0;
	struct last *last = &t->last[SERVER];
	if (last->conn && last->conn != conn->id && last->at.t > conn->t_ready) {
		row->queued = last->at.t - conn->t_ready;
		arrive(row->there, &last->at, m, row);
	} else if (conn->waiting_thread == (u32)pid) {
		arrive(row->there, &conn->waiting, m, row);
	} else {
		row->thread = until(conn->t_ready, m->t, row);
	}
	row->run_there = t->run_before;
	if (t->run_ended < conn->t_ready)
		row->run_there.ns = 0;
	row->server = pid;
	row->server_process = t->tgid;
	copy_name(row->server_name, t->name);
	row->bytes_there = bytes;
	conn->read = *m;
	conn->reads = conn->reader[SERVER] = pid;
	conn->faults = t->faults;
	conn->done_is = 0;
	conn->hands = 0;
	t->open = conn->id;
	t->block.ns = t->run.ns = 0;
}

/* The thread turns to another request: with the one that it read before it is done for now. */
INLINE void turn_away(struct thread *t, u64 to, const struct mark *m)
{
	u64 open = t->open;
	if (!open || open == to)
		return;
	struct conn *before = map_lookup(&conns, &open);
	if (before && before->phase == SERVED && !before->done_is) {
		before->done = *m;
		before->done_is = 1;
	}
}

/* ---- a reply ---- */

INLINE void reply_begins(struct conn *conn, struct thread *t, const struct mark *m)
{
	struct row *row = &conn->row;
	s32 pid = CURRENT;
	struct last *last = &t->last[SERVER];
	u64 held = 0, elsewhere = 0;
	/* It answers although the client has sent what it has not read: something earlier. */
	if (conn->asked > conn->got)
		conn->out_of_turn++;
	if (pid == conn->reads) {
		int away = conn->done_is && last->conn != conn->id && last->at.t > conn->done.t;
		UNROLL for (int i = 0; i < KINDS; i++) {
			row->work[i] = between(&conn->read, m, i, row);
			/* What it did on a CPU for others is not work on this request; where it slept meanwhile, it waited for something. */
			if (away && i <= WAKING) {
				u64 others = between(&conn->done, &last->at, i, row);
				row->work[i] -= others;
				held += others;
			}
		}
	} else if (conn->hands == pid) {
		row->flags |= HANDED;
		UNROLL for (int i = 0; i < KINDS; i++)
			row->work[i] = between(&conn->read, &conn->handed_from, i, row) + between(&conn->handed_to, m, i, row);
	} else {
		UNROLL for (int i = 0; i < KINDS; i++)
			row->work[i] = 0;
		elsewhere = until(conn->read.t, m->t, row);
	}
	row->held = held;
	row->elsewhere = elsewhere;
	row->block = t->block;
	row->run_work = t->run;
	if (elsewhere)
		row->block.ns = row->run_work.ns = 0;
	row->faults = t->faults - (pid == conn->reads ? conn->faults : t->faults);
	conn->t_first = m->t;
	conn->phase = SENDING;
}

INLINE void reply_ready(struct conn *conn, u64 now)
{
	struct row *row = &conn->row;
	conn->client_thread = 0;
	struct thread *t = thread_of(conn->reader[CLIENT]);
	if (t && mark_other(t, &conn->client_waiting, now)) {
		conn->client_thread = conn->reader[CLIENT];
		now = conn->client_waiting.t;
	}
	row->reply = until(conn->t_first, now, row);
	conn->t_ready = now;
	conn->phase = READY;
}

INLINE void reply_read(struct conn *conn, struct thread *t, const struct mark *m, u32 bytes)
{
	struct row *row = &conn->row;
	s32 pid = CURRENT;
	conn->reader[CLIENT] = pid;
	if (conn->phase == ANSWERED) {
		row->rest = until(conn->t_first, m->t, row);
		row->total = until(row->t0, m->t, row);
		row->bytes_back += bytes;
		row->flags |= PARTS;
		return;
	}
	if (conn->phase != READY)
		return;
	row->client_queued = row->client_thread = row->rest = 0;
	UNROLL for (int i = 0; i < 4; i++)
		row->back[i] = 0;
	struct last *last = &t->last[CLIENT];
	if (last->conn && last->conn != conn->id && last->at.t > conn->t_ready) {
		row->client_queued = last->at.t - conn->t_ready;
		arrive(row->back, &last->at, m, row);
	} else if (conn->client_thread == (u32)pid) {
		arrive(row->back, &conn->client_waiting, m, row);
	} else {
		row->client_thread = until(conn->t_ready, m->t, row);
	}
	row->run_back = t->run_before;
	if (t->run_ended < conn->t_ready)
		row->run_back.ns = 0;
	row->client = pid;
	row->client_process = t->tgid;
	copy_name(row->client_name, t->name);
	row->bytes_back = bytes;
	row->total = until(row->t0, m->t, row);
	conn->t_first = m->t;
	conn->phase = ANSWERED;
}

/* ---- hooks: sockets ---- */

/* Where a TCP send begins; also once for every further segment of the same call. */
SEC("tp_btf/tcp_sendmsg_locked") int on_tcp_sendmsg_locked(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct control *c = active();
	if (!c)
		return 0;
	struct end *e = end_of(sk, c, 1);
	if (!e)
		return 0;
	struct conn *conn = map_lookup(&conns, &e->conn);
	struct thread *t = own(c);
	if (!conn || !t || t->sending == conn->id)
		return 0;
	t->sending = conn->id;
	u64 now = monotonic_ns();
	if (ROLE(conn, e) == CLIENT) {
		client_sends(conn, c, now);
		return 0;
	}
	struct mark m;
	mark_own(t, &m, now);
	if (conn->phase == SERVED)
		reply_begins(conn, t, &m);
	return 0;
}

SEC("tp_btf/sock_send_length") int on_sock_send_length(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	s32 bytes = ctx[1];
	struct control *c = active();
	if (!c)
		return 0;
	struct end *e = end_of(sk, c, 1);
	if (!e)
		return 0;
	struct conn *conn = map_lookup(&conns, &e->conn);
	struct thread *t = own(c);
	if (!conn || !t)
		return 0;
	struct mark m;
	mark_own(t, &m, monotonic_ns());
	t->sending = 0;
	if (bytes > 0 && ROLE(conn, e) == CLIENT)
		conn->asked += bytes;
	did(t, conn->id, ROLE(conn, e), &m);
	return 0;
}

SEC("tp_btf/sk_data_ready") int on_sk_data_ready(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct control *c = active();
	if (!c)
		return 0;
	struct end *e = end_of(sk, c, 0);
	if (!e)
		return 0;
	struct conn *conn = map_lookup(&conns, &e->conn);
	if (!conn)
		return 0;
	u64 now = monotonic_ns();
	if (ROLE(conn, e) == SERVER) {
		request_ready(conn, c, now);
		return 0;
	}
	if (conn->phase == SERVED && sk->__sk_common.skc_family == AF_UNIX) {
		/* Nothing tells when a send on a Unix socket begins; the sender is the current thread. */
		struct thread *t = own(c);
		if (t) {
			struct mark m;
			mark_own(t, &m, now);
			reply_begins(conn, t, &m);
			now = m.t;
		}
	}
	if (conn->phase == SENDING) {
		reply_ready(conn, now);
	} else if (conn->phase == SENT || conn->phase == ARRIVED) {
		/* The answer to something that was sent before: several requests are in flight. */
		conn->out_of_turn++;
	}
	return 0;
}

SEC("tp_btf/sock_recv_length") int on_sock_recv_length(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	s32 bytes = ctx[1];
	if (bytes < 0 || ctx[2] & MSG_PEEK)
		return 0;
	struct control *c = active();
	if (!c)
		return 0;
	struct end *e = end_of(sk, c, 1);
	if (!e)
		return 0;
	struct conn *conn = map_lookup(&conns, &e->conn);
	struct thread *t = own(c);
	if (!conn || !t)
		return 0;
	if (!bytes) {
		/* The other end has closed. */
		if (conn->phase == ANSWERED)
			finish(conn, c);
		else if (conn->phase >= SERVED)
			incomplete(conn);
		else
			conn->phase = IDLE;
		return 0;
	}
	/* Whoever reads first was asked. */
	if (!conn->server)
		conn->server = e->side + 1;
	u32 role = ROLE(conn, e);
	struct mark m;
	mark_own(t, &m, monotonic_ns());
	if (role == SERVER) {
		turn_away(t, conn->id, &m);
		request_read(conn, c, t, &m, bytes);
	} else {
		if (conn->phase == IDLE && conn->service) {
			u32 number = conn->service - 1;
			struct service *s = map_lookup(&services, &number);
			if (s)
				COUNT(s->unasked);
		}
		reply_read(conn, t, &m, bytes);
	}
	did(t, conn->id, role, &m);
	return 0;
}

SEC("tp_btf/inet_sock_set_state") int on_inet_sock_set_state(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	s32 from = ctx[1], to = ctx[2];
	struct control *c = active();
	if (!c || sk->sk_protocol != IPPROTO_TCP)
		return 0;
	if (to == TCP_LISTEN) {
		set_bit(&listening, PORT_OF(sk), 1);
		return 0;
	}
	if (from != TCP_ESTABLISHED && to != TCP_CLOSE)
		return 0;
	struct end *e = socket_storage(&ends, sk, 0, 0);
	if (!e || !e->conn)
		return 0;
	struct conn *conn = map_lookup(&conns, &e->conn);
	if (!conn || ROLE(conn, e) != CLIENT)
		return 0;
	if (conn->phase == ANSWERED)
		finish(conn, c);
	if (to == TCP_CLOSE) {
		if (conn->phase >= SERVED)
			incomplete(conn);
		map_delete(&conns, &e->conn);
	}
	return 0;
}

/* ---- hooks: threads ---- */

#define READ_BIT(task) ({ \
	void *at = (void *)(task) + __builtin_preserve_field_info((task)->in_iowait, 0); \
	u64 value = 0; \
	switch (__builtin_preserve_field_info((task)->in_iowait, 1)) { \
	case 1: value = *(u8 *)at; break; \
	case 2: value = *(u16 *)at; break; \
	case 4: value = *(u32 *)at; break; \
	case 8: value = *(u64 *)at; break; \
	} \
	value <<= __builtin_preserve_field_info((task)->in_iowait, 4); \
	value >> __builtin_preserve_field_info((task)->in_iowait, 5); })

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

INLINE u32 kind_of(struct control *c, struct task_struct *task, s32 call)
{
	if (call < 0)
		return FAULT;
	u32 kind = call < CALLS ? c->kinds[call & (CALLS - 1)] : OTHER;
	if (kind != DISK && READ_BIT(task))
		return DISK;
	return kind < POLL || kind >= KINDS ? OTHER : kind;
}

INLINE int switched(u64 preempted, struct task_struct *prev, struct task_struct *next, u32 state)
{
	struct control *c = active();
	if (!c)
		return 0;
	struct thread *from = thread_of(prev->pid), *to = thread_of(next->pid);
	int known_one = from != 0;
	/* The verifier wants pointers compared one by one; the compiler would join them. */
	asm volatile("" : "+r"(known_one));
	if (!known_one && !to)
		return 0;
	u64 now = monotonic_ns();
	if (from) {
		s32 call = NO_CALL;
		u32 new = RUNNABLE;
		if (!(preempted & 1) && state) {
			call = call_of(prev);
			new = kind_of(c, prev, call);
		}
		if (lock(from)) {
			from->call = call;
			from->taker.pid = new == RUNNABLE ? next->pid : 0;
			copy_name(from->taker.name, next->comm);
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
			who->call = NO_CALL;
			who->cpu = this_cpu();
			/* The previous task is still the current one. */
			current_name(who->name, sizeof(who->name));
			if (taken)
				copy_name(who->name, to->taker.name);
			to->taker.pid = 0;
			to->run_ended = now;
			if (who->ns > to->run.ns)
				to->run = *who;
		}
		go(to, ON_CPU, now);
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
	u32 state = 0;
	struct task_struct___renamed *renamed = (void *)prev;
	struct task_struct___before *before = (void *)prev;
	if (EXISTS(renamed->__state))
		state = renamed->__state;
	else if (EXISTS(before->state))
		state = before->state;
	return switched(ctx[0], prev, (void *)ctx[2], state);
}

/* The current thread has an open request and wakes another that is known: it may hand the request over. */
INLINE void hand_over(struct thread *to, s32 pid, u64 now)
{
	struct thread *from = thread_of(CURRENT);
	if (!from || from == to)
		return;
	u64 open = from->open;
	struct conn *conn = open ? map_lookup(&conns, &open) : 0;
	if (!conn || conn->phase != SERVED || conn->hands || conn->reads != CURRENT)
		return;
	mark_own(from, &conn->handed_from, now);
	if (!mark_other(to, &conn->handed_to, now))
		return;
	conn->hands = pid;
	to->block.ns = to->run.ns = 0;
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
	if (woken) {
		u64 ns = now > t->since ? now - t->since : 0;
		if (ns > t->block.ns) {
			t->block.ns = ns;
			t->block.pid = CURRENT;
			t->block.call = t->call;
			t->block.cpu = this_cpu();
			current_name(t->block.name, sizeof(t->block.name));
		}
		go(t, WAKING, now);
	}
	unlock(t);
	if (woken)
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
	if (!t || !lock(t))
		return 0;
	if (t->state != ON_CPU && t->state != RUNNABLE)
		go(t, RUNNABLE, monotonic_ns());
	unlock(t);
	return 0;
}

SEC("tp_btf/sched_process_exit") int on_sched_process_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	s32 pid = task->pid;
	struct control *c = active();
	if (!c)
		return 0;
	if (thread_of(pid)) {
		set_bit(&known, pid, 0);
		map_delete(&threads, &pid);
	}
	return 0;
}

SEC("tp_btf/sched_process_fork") int on_sched_process_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	struct control *c = active();
	if (!c || !c->follow)
		return 0;
	s32 from = parent->tgid, process = child->tgid;
	u32 one = 1;
	if (from != process && map_lookup(&processes, &from))
		map_update(&processes, &process, &one, ANY);
	return 0;
}

SEC("tp_btf/page_fault_user") int on_page_fault_user(void)
{
	struct control *c = active();
	struct thread *t = c ? thread_of(CURRENT) : 0;
	if (t)
		t->faults++;
	return 0;
}
