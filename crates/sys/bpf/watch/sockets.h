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
