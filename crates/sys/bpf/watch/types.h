/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Threads, connections, requests and their maps. The layouts of `control`, `service`, `row` and `event` are repeated in
 * crates/sys/src/watch.rs and crates/sys/src/watch/event.rs.
 */
#pragma once
#include "../bpf.h"

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define SOCK_SEQPACKET 5
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define TCP_ESTABLISHED 1
#define TCP_FIN_WAIT1 4
#define TCP_CLOSE 7
#define TCP_LISTEN 10
#define MSG_PEEK 2
/* Of struct iov_iter, since kernel 6.7. */
#define ITER_UBUF 0
#define ITER_IOVEC 1
/* Softirqs. */
#define TIMERS 1
#define NET_TX 2
#define NET_RX 3
#define HIGH_TIMERS 8
/* States of a task that is stopped by a signal, by a tracer, by a freezer. */
#define BY_SIGNAL 4
#define BY_TRACER 8
#define BY_FREEZER 0x8000
#define SIGSTOP 19
#define SIGTTOU 22

/* ---- what a thread does ---- */

enum { ON_CPU, INTERRUPT, PAGING, STOLEN, RUNNABLE, WAKING, POLL, SOCKET, FUTEX, DISK, SLEEP, FAULT, OTHER, STOPPED, KINDS };
#define NO_CALL -1
/* In the place of a call, of a wait for a CPU: the quota of a group kept the thread from it. */
#define QUOTA -2
/* In the place of a signal: what else stopped a thread. */
#define FROZEN -1
#define TRACED 0
#define CALLS 512
#define SENDS_DATA 0x80
/* Of a block `call` has the kind above its number. */
#define CALL_BITS 11

/* In the place of a thread, where none has woken the other one: an interrupt, of a timer, with a packet, of a device. */
enum { INTERRUPTED = 0, TIMED_OUT = -1, PACKET = -2, DEVICE = -3 };
/* What a CPU does beside the thread that it has: since when it receives packets; the interrupt and the softirq + 1; 0: none. */
struct context { u64 receives; s32 hard; u32 soft; };

/* Who kept a thread waiting: who woke it, who had the CPU before it, who stopped it (`call`: by which signal). */
struct who { u64 ns; s32 pid; s16 call; u16 cpu; char name[16]; };

/* What a thread had done up to a moment. */
struct mark { u64 t; u64 ns[KINDS]; };

/* On which connection a thread did something last, in one role, and when. */
struct last { u64 conn, t; };

enum { CLIENT, SERVER };

/* What a thread does, in the parts that count for what waits for it: blocked until the wake-up call, in flight, in the run queue, on the CPU, stopped. */
enum { BLOCKED, WOKEN, QUEUED, RAN, HALTED, PARTS_OF_TIME };
/* Bits of such a part. */
#define PART_BITS 3
/* Changes from one of them to another that are remembered. */
#define HISTORY 32

struct thread {
	s32 pid;                 /* 0: the place is free */
	u32 state;
	u64 seq;                 /* odd while the totals change */
	u64 since;               /* when the state began */
	u64 ns[KINDS];           /* up to here two lines of the cache, which another CPU may look at */
	u64 stolen;              /* what the hypervisor had taken of its CPU when that was looked at last */
	u64 copied;              /* its total on the CPU when it was copied last */
	s32 call;                /* in which it blocks */
	u32 changes;             /* so many were written into the history */
	s32 tgid;
	u32 faults;
	u32 interrupts;          /* that are under way, one within the other */
	u32 paging;              /* a page fault is, since the totals were brought up to date last */
	u64 open;                /* the connection whose request it read last */
	u64 sending;             /* the connection on which it is in a send call */
	struct who block, run;   /* the longest of each since it read a request */
	struct who run_before;   /* the last wait for a CPU */
	struct who taker;        /* who took the CPU where it was taken away; pid 0: it was not */
	u64 run_ended;
	u64 throttled, queue;    /* when it became runnable: how long its run queue had stood still for a quota, and which that was */
	struct who stop;         /* the last time that it was stopped */
	u64 stop_ended;
	struct last last[2];     /* by role */
	u32 owes;                /* requests that it has read, of which nobody knows whose they were */
	u32 put_off;             /* requests that it has read and not answered before it turned to others */
	u32 takes_over;          /* it has answered what another thread had read */
	struct mark served;      /* what it had done when it did something last as a server; only where one of the two above is set */
	u32 window;              /* what is above is known since this window began */
	char name[16];
	u64 history[HISTORY];    /* when a part of its time began, and which in the lowest bits; 0: nothing yet */
} __attribute__((aligned(64)));

/* ---- connections ---- */

/* `kind`: 1 of a server of datagrams. */
struct address { u64 hi, lo; u32 port; u32 kind; };
/* `begins`: of TCP, the sequence number of the first byte that each of the two ends has sent. */
struct key { struct address a, b; u64 net; u64 family; u32 begins[2]; };

/* From data being ready to a thread having it. */
struct arrival {
	u64 queued;              /* the thread was busy with other connections */
	u64 parts[PARTS_OF_TIME]; /* of the thread that reads it */
	u64 thread;              /* not split: another thread reads than the last time, or more has happened than is remembered */
};

/* The first bytes of a request. */
#define HEAD 48

/* Stages and what else is known of one request, as user space reads it. */
struct row {
	u64 t0, total, conn;
	u32 service, flags, weight, turn;
	u32 bytes_there, bytes_back;
	s32 server, server_process, client, client_process;
	u32 faults, port;
	/* The stages, in the order of time; they add up to `total`. Those of the way to another host are 0 where both ends are here. */
	u64 send;                /* the client's send call up to the data being ready at the server */
	u64 out;                 /* the client's send call, of a request to another host */
	u64 softirq;             /* of a request of another host: from the softirq that received it to the data being ready */
	struct arrival there;
	u64 work[KINDS];
	u64 elsewhere;           /* work that cannot be split: a thread that nobody saw being woken replied */
	u64 held;                /* the reply waited while the thread read other requests */
	u64 away;                /* the link and the other host */
	u64 reply;               /* the server's send call up to the data being ready at the client */
	u64 reply_out;           /* the server's send call, of a reply to another host */
	u64 back_softirq;        /* of a reply of another host: from the softirq that received it to the data being ready */
	struct arrival back;
	u64 rest;                /* from the first to the last part of the reply */
	struct who run_there, block, run_work, run_back, stop;
	char server_name[16], client_name[16];
	u8 head[HEAD];           /* zeros where it was not copied */
};

#define STAGES_SIZE (__builtin_offsetof(struct row, run_there) - __builtin_offsetof(struct row, send))

enum { SLOW = 1, SAMPLED = 2, TORN = 4, AGAIN = 8, HANDED = 16, PARTS = 32, NAGLED = 128 };

enum { IDLE, SENT, ARRIVED, SERVED, SENDING, READY, ANSWERED };

/* In the order of the lines of the cache: those that one end writes are not those that the other one does, but for the second. */
struct conn {
	u64 id;
	u32 server;              /* which end: 1 or 2; 0: not known yet */
	u32 seen;                /* ends that were seen, a bit each */
	u32 far;                 /* the other end is on another host */
	u32 datagrams;           /* it is a pair of addresses between which datagrams go */
	struct address other;    /* the address of the end that was not seen first */
	u32 service;             /* its number + 1 */
	u32 port;
	u32 logged;              /* its events are logged (log.h) */
	u32 paired;              /* user space pairs its messages: turns are not counted */

	u32 phase;
	u32 turns;
	u32 window;              /* it was followed last in this one */
	u32 joined;              /* and no request has begun in it since: one may be under way */
	u32 open;                /* the window whose open requests have its request; 0: none has */
	u64 asked, got;          /* bytes that the client has sent and the server has received */
	u64 t_sent, t_out, t_ready, t_first;
	s32 reader[2];           /* the threads that received last, by role */

	s32 reads, hands;        /* the thread that read the request, and the one that it woke */
	u32 faults;              /* of the reading thread when it read */
	u32 nagled;              /* ends that sent what then waited for an acknowledgement (Nagle), a bit each */
	u32 done_is;
	struct mark read, done, handed_from, handed_to;

	/* The log of the connection. */
	u32 begun;               /* a turn has begun */
	u32 several;             /* several requests were in flight when its log was looked at last */
	u32 ever;                /* they were logged before */
	u32 since;               /* the turn from which on they are */
	u32 out_of_turn, signs;  /* signs of several requests in flight: in all, and since the log was begun */
	u32 clean;               /* turns since the last of them */
	u32 seq, flags;
	u64 t_early, t_client;   /* of datagrams: a reply of another host came before a request was known; the client did something last */
	u64 net[2];              /* of datagrams: the network namespaces of both ends; 0: not known yet */
	u32 excused;      /* of datagrams: what the client reads next answers a request that was not seen */
	u32 tls;                 /* bits of what is known of its records (tls.h); 0: it has none */
	u32 http2;               /* it speaks HTTP/2: its turns are no requests */
	struct row row __attribute__((aligned(64)));
} __attribute__((aligned(64)));

/* Datagrams of one socket that wait and are told apart. */
#define QUEUE 64

/* A datagram: its connection, the end at which it has arrived, how long it is. */
struct datagram { u64 conn; u32 role, bytes; };

/* What is kept with a datagram socket: what waits there, in its order. */
struct queue {
	u32 put, taken;          /* datagrams that were told apart, and those of them that were read */
	s32 early;               /* read before they were told apart; below 0: so many will be read that were gone when one looked */
	u32 unknown;             /* of those before this one nobody knows which is which */
	u32 more;                /* so often in a row one more was to be read than waited */
	u32 busy;                /* somebody looks at what waits */
	s32 reader;              /* the thread that received last */
	u32 serves;              /* requests arrive here */
	u32 service;             /* its number + 1 */
	u32 new;                 /* datagrams that were found just now */
	u64 last;                /* the datagram that was seen last */
	u64 peer;                /* its connection */
	u64 open;                /* of other hosts: the connection whose request was read last, while it is the only one */
	u64 opened;              /* when */
	u32 unanswered;          /* requests of other hosts that were read and not answered */
	s32 sender;              /* the thread whose datagram was given to a device, while its call is not over */
	struct key to;           /* the addresses of that datagram */
	u32 side;                /* which of them this end has */
	u32 many;                /* several threads receive */
	struct datagram waiting[QUEUE];
};

/* What is kept with a socket. */
struct end {
	u64 conn;
	u32 side, epoch;
	s32 process;
	u32 datagrams;
	u32 counts, copied;      /* before kernel 6.3: up to where it was read is known; that place in the stream */
};

/* ---- the log ---- */

enum { BEGIN, SENT_ALL, DATA, READ, GONE, EVENTS };
/* The log begins here; nothing was sent before; no SENT_ALL will follow; user space pairs; what follows is in pieces. */
enum { FRESH = 1, BORN = 2, WHOLE = 4, PAIRED = 8, PIECES = 16 };
/* In front of each piece: so many bytes of a buffer, and so many behind them that are left out. */
struct piece { u32 known, skipped; };
#define PIECE 256

/* What happened at a socket of a connection whose messages are told apart by user space. */
struct event {
	u64 conn, t;
	u64 last;                /* READ: when the thread did something on a connection before */
	u64 run_ended;           /* READ: the end of its last wait for a CPU */
	u64 ns[KINDS];           /* totals of the thread at `t` */
	u64 since[PARTS_OF_TIME]; /* READ: what it did since `last` */
	u32 seq, turns;
	s32 pid, tgid;
	u32 bytes;               /* BEGIN: to be sent; SENT_ALL: were sent; READ: were received */
	u32 copied;              /* BEGIN: so many of them follow */
	u32 service, port;
	u8 kind, role, flags, unused;
	u32 faults;
	struct who run, block;   /* READ: its last wait for a CPU; BEGIN: its longest waits since it read */
	char name[16];
};

/* Bytes of one send call that are copied at most; a call from several buffers needs the room twice. */
#define PAYLOAD 8192
struct message { struct event event; u8 data[2 * PAYLOAD]; };

/*
 * What user space has found out about a connection: its protocol is not known; several requests are in flight, and it pairs
 * them; one at a time is; it speaks HTTP/2, and cannot be followed.
 */
enum { UNKNOWN = 1, SEVERAL, ONE, UNTOLD };
/* Turns without a sign before the log of a connection begins that was there before, or had one. */
#define CLEAN 4
/* Turns that are looked at. */
#define LOOKED_AT 8

/* ---- what user space sets and reads ---- */

#define BUCKETS 4480
struct service {
	u64 slow;                /* requests that take so long have a row */
	u64 every;               /* and one in so many of the others */
	u64 requests, torn, incomplete, in_flight, unasked;
	u64 followed, missed;    /* times that it received data: while requests were followed, and while they were not */
	u64 tls, handshakes;     /* connections that speak TLS; turns of them that are no requests */
	u64 histogram[BUCKETS];
};
#define SERVICES 32
#define THREADS 8192
#define CONNS 8192
/* Bits of `follow`. */
#define PROCESSES 1
#define CGROUPS 2
/* In `pairs`: which of several connections is meant cannot be told by addresses. */
#define AMBIGUOUS ~0ull
/* Bits of `addresses`. */
#define WANTED 1
#define TOLD 2

/*
 * Requests are followed in windows of time where there are more than can be paid for. Between them nothing is done but to count how often a
 * server receives data. When a window closes the requests under way are followed to their end, and none begins.
 */
enum { OFF, SHUT, CLOSING, OPEN };

struct control {
	u32 on;
	u32 follow;              /* processes, and cgroups, are watched */
	u32 epoch;               /* changes whenever a socket may have become interesting */
	u32 payload;             /* requests are looked into: their first bytes, and the log; 2: TLS and HTTP/2 are recognised */
	u64 connections;
	u32 services;
	u32 silent;              /* nothing tells when a TCP send begins (before kernel 6.16) */
	u64 lost, no_room;
	u32 next_conn, next_thread;
	u32 far;                 /* a connection to another host was seen */
	u32 apart;               /* the other ends of connections are left alone, as if they were on other hosts */
	u32 steal;               /* the kernel tells what a hypervisor takes */
	u32 datagrams;           /* a datagram socket is watched */
	u32 addresses;           /* where datagrams go: WANTED to be known, TOLD */
	u32 ambiguous;           /* pairs of addresses of datagrams that hosts in several network namespaces have */
	u32 window;              /* its number; 0: there was none so far, every request is followed */
	u32 unused;
	u8 kinds[CALLS];         /* of the calls by their numbers, and whether one sends */
	u64 told;                /* when whoever reads was last woken for a new connection */
	u64 holes;               /* events that found no room */
	u32 open;                /* requests under way that began in this window; apart from what is read often */
	u32 unused_too;
};

MAP(control, ARRAY, MMAPABLE, 1, u32, struct control);
MAP(services, ARRAY, MMAPABLE, SERVICES, u32, struct service);
/*
 * By thread id: the thread's place, four to a word, 0 where it has none, so that other threads cost next to nothing. Arrays, because
 * looking something up in them is no call.
 */
MAP(places, ARRAY, 0, 1 << 20, u32, u64);
/* Nobody maps them; but what can be mapped begins at a page, so that no two of them share a line of the cache. */
MAP(threads, ARRAY, MMAPABLE, THREADS, u32, struct thread);
/* Ports that are watched, and ports on which somebody listens: a bit each. */
MAP(ports, ARRAY, MMAPABLE, 1024, u32, u64);
MAP(listening, ARRAY, MMAPABLE, 1024, u32, u64);
MAP(processes, HASH, 0, 4096, s32, u32);
/* By their ids. */
MAP(cgroups, HASH, 0, 64, u64, u32);
MAP(ends, SK_STORAGE, NO_PREALLOC, 0, s32, struct end);
MAP(queues, SK_STORAGE, NO_PREALLOC, 0, s32, struct queue);
/* Those of TCP are here twice (`begins_at`). */
MAP(pairs, LRU_HASH, 0, 32768, struct key, u64);
/* By number, modulo the size. */
MAP(conns, ARRAY, MMAPABLE, CONNS, u32, struct conn);
/* Servers by port, by process where there is none, or by address and port where they are on another host; and their numbers. */
MAP(numbers, HASH, 0, SERVICES, struct address, u32);
MAP(contexts, PERCPU_ARRAY, 0, 1, u32, struct context);
/* Who has sent a process a signal that stops it, last. */
MAP(stoppers, LRU_HASH, 0, 256, s32, struct who);
/* What a new connection is made of. */
MAP(blank_conn, ARRAY, 0, 1, u32, struct conn);
/* What events are made of, one for each kind: a program may interrupt another one on its CPU. */
MAP(blank_event, PERCPU_ARRAY, 0, EVENTS, u32, struct event);
MAP(blank_message, PERCPU_ARRAY, 0, 1, u32, struct message);
/* By connection: what user space says of it. */
MAP(verdicts, LRU_HASH, 0, 4096, u64, u32);
#define ROWS_RING (1 << 20)
#define EVENTS_RING (1 << 23)
struct { UINT(type, RINGBUF); UINT(max_entries, ROWS_RING); } rows SEC(".maps");
struct { UINT(type, RINGBUF); UINT(max_entries, EVENTS_RING); } events SEC(".maps");

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Whether what is sent may be looked into. Set before loading: where it is 0, the verifier takes out what depends on it. */
const volatile u32 looks_into = 1;
#define LOGGED(conn) (looks_into && (conn)->logged)
/* The same of Unix sockets, which kernels before 5.16 do not tell about. */
const volatile u32 unix_sockets = 1;
/* Whether sockets are watched by their cgroups: to verify the way up from each took half of the time that loading took. */
const volatile u32 by_cgroup = 1;

/* Something is watched. */
INLINE struct control *alive(void)
{
	u32 zero = 0;
	struct control *c = map_lookup(&control, &zero);
	return c && c->on ? c : 0;
}

/* Requests are followed now. */
INLINE struct control *active(void)
{
	u32 zero = 0;
	struct control *c = map_lookup(&control, &zero);
	return c && c->on >= CLOSING ? c : 0;
}

INLINE void set_bit(void *map, u32 number)
{
	u32 word = number / 64;
	u64 *bits = map_lookup(map, &word);
	if (bits)
		__sync_fetch_and_or(bits, 1ull << (number % 64));
}

/*
 * Whoever reads a ring is woken where it becomes a quarter full, by a few of those that write meanwhile: several CPUs may look at the
 * same time.
 */
INLINE u64 wakes(void *ring, u64 size)
{
	return ring_query(ring, WAITING_DATA) - size / 4 < size / 64 ? FORCE_WAKEUP : NO_WAKEUP;
}

INLINE void copy_name(char *to, const char *from)
{
	((u64 *)to)[0] = ((const u64 *)from)[0];
	((u64 *)to)[1] = ((const u64 *)from)[1];
}

/* The connection of a number; 0: its place was given to another one. */
INLINE struct conn *conn_of(u64 id)
{
	u32 place = id % CONNS;
	struct conn *conn = id ? map_lookup(&conns, &place) : 0;
	return conn && conn->id == id ? conn : 0;
}
