/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Sockets, the connections that they belong to, and who serves. */
#pragma once
#include "types.h"

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

/* Of `seen`: both ends. */
#define BOTH 3
#define PORT_OF(sk) ((sk)->__sk_common.skc_num)
#define FAR_PORT(sk) __builtin_bswap16((sk)->__sk_common.skc_dport)

/*
 * The network namespace of a socket. To be asked for once and handed on: the verifier looks through all the kernel's types for each
 * pointer that is read, on each way that leads there.
 */
INLINE u64 net_of(struct sock *sk) { return (u64)sk->__sk_common.skc_net.net; }

/* Two addresses, of which the first is that of a socket in the key's network namespace; which end this is. */
INLINE int join(struct key *key, const struct address *own, const struct address *far)
{
	/* Every network namespace has a loopback of its own. */
	if (!is_loopback(own))
		key->net = 0;
	int side = above(own, far);
	key->a = side ? *far : *own;
	key->b = side ? *own : *far;
	return side;
}

/* The addresses of a socket that is connected; -1: it is not. */
INLINE int key_of_addresses(struct sock *sk, struct key *key)
{
	u16 family = sk->__sk_common.skc_family;
	if (family != AF_INET && family != AF_INET6)
		return -1;
	struct address own = {}, far = {};
	address_of(&own, family, sk->__sk_common.skc_rcv_saddr, &sk->__sk_common.skc_v6_rcv_saddr, PORT_OF(sk));
	address_of(&far, family, sk->__sk_common.skc_daddr, &sk->__sk_common.skc_v6_daddr, FAR_PORT(sk));
	return far.port ? join(key, &own, &far) : -1;
}

/*
 * Where the two directions of a TCP connection begin in its sequence numbers. Both ends know the same of it, and of no other connection
 * with the same addresses: hosts in other network namespaces may have equal ones. What was received is counted without the SYN. What was
 * sent and acknowledged is counted with it by an end that has connected: what this end has sent begins here, or one further.
 */
INLINE void begins_at(struct sock *sk, struct key *key, u32 side)
{
	struct tcp_sock *tcp = as_tcp_socket(sk);
	u64 acked = 0, received = 0;
	u32 sent = 0, got = 0;
	if (!tcp)
		return;
	/* Where the socket is not locked both may be counted on, on another CPU. */
	for (int tries = 0; tries < 8; tries++) {
		acked = tcp->bytes_acked;
		received = tcp->bytes_received;
		sent = tcp->snd_una - (u32)acked;
		got = tcp->rcv_nxt - (u32)received;
		if (acked == tcp->bytes_acked && received == tcp->bytes_received)
			break;
	}
	key->begins[0] = side ? got : sent;
	key->begins[1] = side ? sent : got;
}

/* The connection of a socket, of which the network namespace is there, the same for both of its ends, and which end it is (0, 1); -1: nothing that is watched. */
INLINE int key_of(struct sock *sk, struct key *key)
{
	u16 family = sk->__sk_common.skc_family;
	if (sk->sk_type != SOCK_STREAM && (family != AF_UNIX || sk->sk_type != SOCK_SEQPACKET))
		return -1;
	if (family == AF_UNIX) {
		struct unix_sock *u = unix_sockets ? as_unix_socket(sk) : 0;
		if (!u)
			return -1;
		u64 own = (u64)sk, peer = (u64)u->peer;
		if (!peer)
			return -1;
		key->family = AF_UNIX;
		key->net = 0;
		key->a.lo = own < peer ? own : peer;
		key->b.lo = own < peer ? peer : own;
		return own > peer;
	}
	if (sk->sk_protocol != IPPROTO_TCP)
		return -1;
	key->family = AF_INET;
	int side = key_of_addresses(sk, key);
	if (side >= 0)
		begins_at(sk, key, side);
	return side;
}

/* The kernel gives ports from here on to whoever connects, unless it is told another range (ip_local_port_range). */
#define FIRST_OF_CLIENTS 32768

/* Which end is the server, as far as sockets tell: 1 or 2, 0 is not known. The ports are those of this end and of the other one. */
INLINE u32 server_of(struct sock *sk, u32 side, u32 own, u32 far)
{
	if (sk->__sk_common.skc_family == AF_UNIX) {
		if (!unix_sockets)
			return 0;
		/* An accepted socket has the address of the one that listened; a client's usually has none. */
		struct unix_sock *u = as_unix_socket(sk);
		struct unix_sock *peer = u && u->peer ? as_unix_socket(u->peer) : 0;
		if (!u || !peer || !u->addr == !peer->addr)
			return 0;
		return u->addr ? side + 1 : 2 - side;
	}
	int listens = sk->sk_type == SOCK_STREAM, here = listens && bit(&listening, own), there = listens && bit(&listening, far);
	if (here == there) {
		/* Whoever asks for a port means the server's. */
		here = bit(&ports, own);
		there = bit(&ports, far);
	}
	if (here == there) {
		here = own < FIRST_OF_CLIENTS;
		there = far < FIRST_OF_CLIENTS;
	}
	if (here == there)
		return 0;
	return here ? side + 1 : 2 - side;
}

#define CGROUP_LEVELS 32

/* The cgroup in which a socket was made, or one above it, is watched. An accepted socket has that of the one that listened. */
NOINLINE int of_watched_cgroup(struct sock *sk)
{
	if (!EXISTS(sk->sk_cgrp_data.cgroup))
		return 0;
	struct cgroup *group = sk->sk_cgrp_data.cgroup;
	for (int level = 0; level < CGROUP_LEVELS && group; level++) {
		u64 id = group->kn->id;
		if (map_lookup(&cgroups, &id))
			return 1;
		struct cgroup_subsys_state *parent = group->self.parent;
		group = parent ? parent->cgroup : 0;
	}
	return 0;
}

/* The same of the current task. */
APART int in_watched_cgroup(void)
{
	for (int level = 0; level < CGROUP_LEVELS; level++) {
		u64 id = ancestor_cgroup(level);
		if (!id)
			return 0;
		if (map_lookup(&cgroups, &id))
			return 1;
	}
	return 0;
}

/* It is a socket of a process or a cgroup that is watched. `mine`: the current process uses it. */
INLINE int belongs(struct sock *sk, struct control *c, int mine)
{
	s32 process = PROCESS;
	if (mine && c->follow & PROCESSES && map_lookup(&processes, &process))
		return 1;
	return by_cgroup && c->follow & CGROUPS && (of_watched_cgroup(sk) || (mine && in_watched_cgroup()));
}

/* It is a socket of a port that is watched. */
INLINE int is_asked(struct sock *sk)
{
	u16 family = sk->__sk_common.skc_family;
	return (family == AF_INET || family == AF_INET6) && (bit(&ports, PORT_OF(sk)) || bit(&ports, FAR_PORT(sk)));
}

INLINE void serves(struct conn *conn, u32 side, u32 server, u32 own, u32 far)
{
	conn->server = server;
	if (server)
		conn->port = server == side + 1 ? own : far;
}

/* A number for a new connection: its place is free, or was used longest ago of some. */
APART u64 new_number(void)
{
	struct control *c = active();
	if (!c)
		return 0;
	u64 number = 0, longest_ago = ~0ull;
	for (int tries = 0; tries < 8 && longest_ago; tries++) {
		u64 next = COUNT(c->next_conn) + 1ull;
		u32 place = next % CONNS;
		struct conn *there = map_lookup(&conns, &place);
		u64 used = there && there->id ? there->t_ready : 0;
		if (used < longest_ago) {
			longest_ago = used;
			number = next;
		}
	}
	return number;
}

/* Of how a pair of addresses is looked at: the current process uses it; a socket was made for it; its socket is watched. */
enum { MINE = 1, MADE = 2, WATCHED = 4 };

/* Of TCP: moves where what this end has sent begins. */
INLINE void count_on(struct key *key, u32 side, u32 by)
{
	if (side)
		key->begins[1] += by;
	else
		key->begins[0] += by;
}

INLINE void incomplete(struct conn *conn);

/*
 * Whether the end of a pair of addresses of datagrams is in the network namespace in which it was before. Else hosts in several of
 * them have these addresses, and nothing in a datagram tells whose it is: from then on each end stands for itself.
 */
NOINLINE int is_the_only_one(struct control *c, struct key *key, u32 side, u64 net)
{
	u64 *id = map_lookup(&pairs, key), ambiguous = AMBIGUOUS;
	if (!id)
		return 1;
	if (*id == AMBIGUOUS)
		return 0;
	struct conn *conn = conn_of(*id);
	if (!conn)
		return 1;
	u64 *known = side ? &conn->net[1] : &conn->net[0];
	if (!*known)
		*known = net;
	if (*known == net)
		return 1;
	if (conn->phase == SERVED || conn->phase == READY)
		incomplete(conn);
	conn->id = 0;
	map_update(&pairs, key, &ambiguous, ANY);
	COUNT(c->ambiguous);
	return 0;
}

/* The connection of two addresses, made where it is watched and not known yet. `side`: which of them this end has. */
NOINLINE struct conn *conn_between(struct sock *sk, struct key *key, u32 side, u32 how, u64 net)
{
	struct control *c = active();
	if (!c)
		return 0;
	u32 zero = 0, datagrams = sk->sk_type == SOCK_DGRAM;
	int inet = sk->__sk_common.skc_family != AF_UNIX, apart = c->apart && inet, stream = inet && !datagrams;
	u32 own = side ? key->b.port : key->a.port, far = side ? key->a.port : key->b.port;
	/* Both ends of datagrams are found again by their addresses: if each is on its own, under one of its own. */
	if (datagrams && inet && (apart || !is_the_only_one(c, key, side, net))) {
		key->family |= 0x1000u << (side & 1);
		key->net = net;
	}
	int kept = !apart || datagrams;
	u64 *id = kept ? map_lookup(&pairs, key) : 0;
	if (kept && stream && !id) {
		count_on(key, side, 1);
		id = map_lookup(&pairs, key);
		count_on(key, side, -1);
	}
	int asked = id || how & WATCHED;
	if (!asked && inet) {
		asked = bit(&ports, own) || (!apart && bit(&ports, far));
		/* The kernel may have given the port to a client of others. */
		u32 server = asked && stream ? server_of(sk, side, own, far) : 0;
		if (server && !bit(&ports, server == side + 1 ? own : far))
			asked = 0;
	}
	if (!asked && !belongs(sk, c, how & MINE))
		return 0;
	struct conn *conn = id ? conn_of(*id) : 0;
	if (!conn || (how & MADE && conn->seen & 1u << (side & 1))) {
		/* A new one, or an address that was used before. */
		if (conn)
			conn->id = 0;
		u64 number = new_number();
		u32 place = number % CONNS;
		void *blank = map_lookup(&blank_conn, &zero);
		if (!blank || map_update(&conns, &place, blank, ANY) || !(conn = map_lookup(&conns, &place))) {
			COUNT(c->no_room);
			return 0;
		}
		conn->id = number;
		conn->t_ready = monotonic_ns();
		conn->window = c->window - (c->on == SHUT);
		conn->other = side ? key->a : key->b;
		conn->datagrams = datagrams;
		conn->net[side & 1] = net;
		u64 how_kept = id ? ANY : NO_EXIST;
		int met = kept && map_update(&pairs, key, &number, how_kept);
		if (kept && stream && !met) {
			count_on(key, side, 1);
			met = map_update(&pairs, key, &number, how_kept);
		}
		if (met) {
			/* At the same time the other end was seen on another CPU. */
			conn->id = 0;
			id = map_lookup(&pairs, key);
			conn = id ? conn_of(*id) : 0;
			if (!conn)
				return 0;
		} else {
			COUNT(c->connections);
		}
		/* Of datagrams each tells its connection. */
		if (!datagrams)
			__sync_fetch_and_add(&c->epoch, 1);
	}
	if (!conn->server)
		serves(conn, side, server_of(sk, side, own, far), own, far);
	if (!(conn->seen & 1u << (side & 1)))
		__sync_fetch_and_or(&conn->seen, 1u << (side & 1));
	if (conn->seen == BOTH)
		conn->far = 0;
	return conn;
}

/* Decides about a socket that is not known yet, or was not interesting so far. `mine`: the current process uses it. */
NOINLINE struct end *first_sight(struct sock *sk, struct control *c, int mine)
{
	struct end *e = socket_storage(&ends, sk, 0, STORAGE_CREATE);
	if (!e)
		return 0;
	e->epoch = c->epoch;
	e->process = mine ? PROCESS : 0;
	/* What comes to it tells who is at the other end (datagrams.h). */
	if (sk->sk_type == SOCK_DGRAM) {
		if (!e->datagrams)
			e->datagrams = is_asked(sk) || belongs(sk, c, mine);
		if (e->datagrams && !c->datagrams)
			c->datagrams = 1;
		return 0;
	}
	u64 net = net_of(sk);
	struct key key = { .net = net };
	int side = key_of(sk, &key);
	struct conn *conn = side < 0 ? 0 : conn_between(sk, &key, side, MADE | (mine ? MINE : 0), net);
	if (!conn)
		return 0;
	e->side = side & 1;
	e->conn = conn->id;
	return e;
}

INLINE struct end *end_of(struct sock *sk, struct control *c, int mine)
{
	struct end *e = socket_storage(&ends, sk, 0, 0);
	if (e && e->conn)
		return e;
	/* What was of no interest is looked at again when that may have changed, or another process has it. */
	if (e && e->epoch == c->epoch && (!mine || e->process == PROCESS))
		return 0;
	return first_sight(sk, c, mine);
}

#define ROLE(conn, end) ((conn)->server == (end)->side + 1 ? SERVER : CLIENT)

/* What happens at a socket; but for the first one the current thread does it. */
enum { ARRIVES, READS, SENDS };

/* Begins to be followed in this window: what happened on it since an earlier one nobody saw. */
INLINE void joins(struct conn *conn, struct control *c)
{
	if (conn->phase != IDLE)
		incomplete(conn);
	conn->window = c->window;
	conn->asked = conn->got = 0;
	conn->hands = conn->done_is = conn->nagled = conn->signs = conn->clean = conn->excused = 0;
	conn->logged = 0;
	conn->paired = conn->several;
	conn->joined = 1;
}

INLINE void finish(struct conn *conn);
INLINE void leave_window(struct conn *conn, struct control *c);

INLINE void miss(struct conn *conn)
{
	u32 number = conn->service - 1;
	struct service *s = conn->service ? map_lookup(&services, &number) : 0;
	if (s)
		COUNT(s->missed);
}

/* Whether it is followed in this window, where that is not plain: it was not so far, or the window closes. */
NOINLINE int takes_part(u64 id, struct control *c, int what, u32 role)
{
	struct conn *conn = conn_of(id);
	if (!conn)
		return 0;
	if (conn->window != c->window && c->on == OPEN) {
		joins(conn, c);
		return 1;
	}
	int begins = (role == CLIENT && what == SENDS) || (role == SERVER && what == ARRIVES);
	if (conn->window == c->window && conn->phase != IDLE && !(conn->phase == ANSWERED && begins))
		return 1;
	if (conn->window == c->window)
		leave_window(conn, c);
	if (role == SERVER && what == READS)
		miss(conn);
	return 0;
}

/* The connection of a socket, where it is watched and followed now, and which end this is. */
INLINE struct conn *conn_at(struct sock *sk, struct control *c, int what, u32 *role)
{
	struct end *e = end_of(sk, c, what != ARRIVES);
	struct conn *conn = e ? conn_of(e->conn) : 0;
	if (!conn)
		return 0;
	/* Where nobody knows: who sends first asks. */
	if (!conn->server) {
		int inet = sk->__sk_common.skc_family != AF_UNIX;
		serves(conn, e->side, what == SENDS ? 2 - e->side : e->side + 1, inet ? PORT_OF(sk) : 0, inet ? FAR_PORT(sk) : 0);
	}
	*role = ROLE(conn, e);
	if ((conn->window != c->window || c->on != OPEN) && !takes_part(conn->id, c, what, *role))
		return 0;
	return conn;
}

/* The other end has not done anything here, where it would have by now: it is on another host. */
INLINE int is_alone(struct conn *conn, struct control *c)
{
	return conn->seen != BOTH && conn->other.port && (c->apart || !is_loopback(&conn->other));
}

/* From here on nothing is expected of the other end. */
INLINE void is_far(struct conn *conn, struct control *c)
{
	conn->far = c->far = 1;
}

/* Something has come that this connection's thread has not read, as far as TCP knows. */
INLINE int unread(struct sock *sk)
{
	struct tcp_sock *tcp = as_tcp_socket(sk);
	return tcp && tcp->rcv_nxt != tcp->copied_seq;
}

/* When the softirq began that has received what is ready now. */
INLINE u64 received_from(u64 now)
{
	u32 zero = 0;
	struct context *context = map_lookup(&contexts, &zero);
	u64 began = context ? context->receives : 0;
	return began && began < now ? began : now;
}
