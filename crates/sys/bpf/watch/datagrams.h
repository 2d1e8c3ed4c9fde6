/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Datagrams. One socket may have many peers, so a connection is a pair of addresses, and each datagram tells its own when it arrives.
 * Nothing tells which one a thread reads: it is the one that came first of those that wait. A reply is one datagram.
 *
 * Nothing tells either when a send begins. Between two ends here a datagram arrives within the send call of whoever sends it.
 */
#pragma once
#include "turns.h"

#define DATAGRAM 0x100
/* The number of the loopback device in every network namespace. */
#define LOOPBACK 1

/* The pair of addresses of a datagram that has arrived at a socket, and which end this is; -1: it does not tell. */
INLINE int key_of_datagram(struct sock *sk, struct sk_buff *skb, struct key *key)
{
	if (sk->__sk_common.skc_family == AF_UNIX) {
		u64 own = (u64)sk, peer = (u64)skb->sk;
		key->family = AF_UNIX | DATAGRAM;
		key->a.lo = own < peer ? own : peer;
		key->b.lo = own < peer ? peer : own;
		return peer ? own > peer : -1;
	}
	if (sk->sk_protocol != IPPROTO_UDP)
		return -1;
	u64 head = (u64)skb->head, ip[5] = {};
	u16 port[2] = {};
	u32 to = skb->transport_header, from = skb->network_header;
	if (read_kernel(port, sizeof(port), (void *)(head + to)) || read_kernel(ip, sizeof(ip), (void *)(head + from)))
		return -1;
	struct address own = {}, far = {};
	if ((ip[0] >> 4 & 15) == 4) {
		far.lo = 0xffff0000ull | ip[1] >> 32 << 32;
		own.lo = 0xffff0000ull | ip[2] << 32;
	} else {
		far.hi = ip[1];
		far.lo = ip[2];
		own.hi = ip[3];
		own.lo = ip[4];
	}
	far.port = __builtin_bswap16(port[0]);
	own.port = __builtin_bswap16(port[1]);
	/* Its memory may have become that of another one. */
	if (own.port != PORT_OF(sk))
		return -1;
	key->family = AF_INET | DATAGRAM;
	return join(key, sk, &own, &far);
}

/* Datagrams that wait at a socket. */
INLINE u32 waiting_at(struct sock *sk)
{
	u32 all = sk->sk_receive_queue.qlen, taken = 0;
	struct udp_sock *udp = (void *)sk;
	/* Readers of UDP take all that waits at once, into a queue of their own. */
	if (sk->__sk_common.skc_family != AF_UNIX && read_kernel(&taken, sizeof(taken), &udp->reader_queue.qlen))
		taken = 1;
	return all + taken;
}

/* A request has arrived; `here`: from an end on this machine. */
INLINE void asks(struct conn *conn, struct control *c, u64 now, u32 bytes, int here)
{
	/* Whoever sends will read the reply. */
	if (here && !conn->reader[CLIENT] && own(c))
		conn->reader[CLIENT] = CURRENT;
	if (conn->phase == IDLE)
		conn->got = conn->asked;
	if (conn->phase == ARRIVED || conn->phase == SERVED)
		sign(conn);
	conn->asked += bytes;
	request_ready(conn, c, now);
}

/* A reply has arrived. */
INLINE void answers(struct conn *conn, struct control *c, u64 now)
{
	if (conn->phase == SERVED) {
		struct thread *t = own(c);
		if (!t)
			return;
		struct mark m;
		mark_own(t, &m, now);
		reply_begins(conn, t, &m);
		reply_ready(conn, m.t);
		did(t, conn->id, SERVER, &m);
	} else if (conn->phase == SENT && is_alone(conn, c)) {
		reply_from_afar(conn, c, now);
	} else if (conn->phase == SENT || conn->phase == ARRIVED) {
		/* Its request was read by nobody that was seen. */
		incomplete(conn);
	} else if (conn->phase == IDLE) {
		conn->t_early = now;
	}
}

/* Datagrams that become ready at once are all there when the first of them is told, one call each. */
#define AT_ONCE 4
/* A reader may have taken one and not returned yet, and a second one meanwhile; not so often in a row. */
#define WITH_READERS 2
#define IN_A_ROW 8

/*
 * What waits is what was seen and not read: at least `low`, and at most `high` but for what readers have. Where it is not, nobody knows
 * which datagram is which until these are read.
 */
INLINE void check(struct queue *q, u32 taken, u32 low, u32 high)
{
	u32 have = q->put - taken;
	q->more = have > high ? q->more + 1 : 0;
	if (have >= low && have <= high + WITH_READERS && q->more < IN_A_ROW)
		return;
	q->taken = q->put - high;
	q->unknown = q->put;
	q->more = 0;
}

/* Datagrams at a socket that were not seen before, up to AT_ONCE: those behind the last one that was. `to`: the first of them. */
INLINE u32 unseen(struct sock *sk, u64 last, struct sk_buff **to)
{
	u64 head = (u64)&sk->sk_receive_queue;
	struct sk_buff *skb = sk->sk_receive_queue.prev;
	u32 new = 0;
	for (int i = 0; i < AT_ONCE; i++) {
		if ((u64)skb == head || (u64)skb == last)
			break;
		*to = skb;
		skb = skb->prev;
		new++;
	}
	return new;
}

INLINE int begin_look(struct queue *q)
{
	for (int tries = 0; tries < 1024; tries++) {
		if (!__sync_val_compare_and_swap(&q->busy, 0, 1))
			return 1;
	}
	return 0;
}

/* What it means for its connection that a datagram has arrived at the end of `role`. */
APART int datagram_counts(u64 id, u32 role, u32 bytes, u32 here)
{
	struct control *c = active();
	struct conn *conn = conn_of(id);
	if (!c || !conn)
		return 0;
	u64 now = monotonic_ns();
	if (role == SERVER)
		asks(conn, c, now, bytes, here);
	else
		answers(conn, c, now);
	return 0;
}

/* A datagram has arrived: the first one that was not seen before. */
NOINLINE int datagram_ready(struct sock *sk, struct control *c)
{
	struct end *e = socket_storage(&ends, sk, 0, 0);
	struct queue *q = socket_storage(&queues, sk, 0, 0);
	struct sk_buff *skb = sk->sk_receive_queue.prev;
	u32 waiting = 0, taken = 0, known = q != 0, how = e && e->datagrams ? WATCHED : 0;
	if (q) {
		if (!begin_look(q))
			return 0;
		taken = q->taken;
		waiting = waiting_at(sk);
		/* Kept there, so that the verifier forgets what it was. */
		q->new = unseen(sk, q->put != taken ? q->last : 0, &skb);
	}
	struct key key = {};
	u32 there = sk->sk_receive_queue.qlen;
	/* The verifier wants one kind of pointer at each load; the compiler would join them. */
	asm volatile("" : "+r"(there));
	if (q)
		there = q->new;
	int side = there ? key_of_datagram(sk, skb, &key) : -1;
	/* Within this machine the current process is the one that sends. */
	u32 here = sk->__sk_common.skc_family == AF_UNIX || skb->skb_iif == LOOPBACK;
	struct conn *conn = side < 0 ? 0 : conn_between(sk, c, &key, side, here ? how | MINE : how);
	/* A peer of what is watched is known by what comes to it. */
	if (!q && (conn || how))
		q = socket_storage(&queues, sk, 0, STORAGE_CREATE);
	if (!q)
		return 0;
	if (!known) {
		if (!begin_look(q))
			return 0;
		q->new = there ? 1 : 0;
	}
	u32 role = CLIENT, bytes = skb->len;
	u64 id = conn ? conn->id : 0;
	if (conn) {
		/* Where nobody knows: who sends first asks. */
		if (!conn->server)
			serves(conn, side, side + 1, side ? key.b.port : key.a.port, side ? key.a.port : key.b.port);
		role = conn->server == side + 1u ? SERVER : CLIENT;
		if (q->reader)
			conn->reader[role & 1] = q->reader;
	}
	if (q->new) {
		struct datagram *place = &q->waiting[q->put % QUEUE];
		place->conn = id;
		place->role = role;
		place->bytes = bytes;
		q->last = (u64)skb;
		q->put++;
		q->new--;
	}
	if (known) {
		u32 new = q->new, high = waiting_at(sk);
		check(q, taken, waiting > new ? waiting - new : 0, high > new ? high - new : 0);
	}
	__sync_fetch_and_sub(&q->busy, 1);
	return id ? datagram_counts(id, role, bytes, here) : 0;
}

/* How long a request of another host is waited for to be answered. */
#define PATIENCE 1000000000ull

/*
 * A request of another host was read: what this socket sends next answers it, unless another one waits for its answer as well. Then
 * nobody knows which.
 */
INLINE void opens(struct queue *q, struct conn *conn, u64 now)
{
	if (now - q->opened > PATIENCE)
		q->unanswered = 0;
	q->opened = now;
	q->unanswered++;
	if (q->unanswered == 1) {
		q->open = conn->id;
		return;
	}
	struct conn *before = conn_of(q->open);
	if (before && before->phase == SERVED)
		incomplete(before);
	if (conn->phase == SERVED)
		incomplete(conn);
	q->open = 0;
}

/* What it means for its connection that a datagram was read at the end of `role`; `all`: how long it was. */
APART int datagram_taken(u64 id, u32 role, u32 bytes, u32 all)
{
	struct control *c = active();
	struct conn *conn = conn_of(id);
	struct thread *t = c && conn ? own(c) : 0;
	if (!c || !conn || !t)
		return 0;
	struct mark m;
	mark_own(t, &m, monotonic_ns());
	if (role == SERVER) {
		turn_away(t, conn->id, &m);
		request_read(conn, c, t, &m, bytes);
		/* What found no room in the buffer of the reader is gone. */
		conn->got += all - bytes;
	} else {
		if (conn->phase == IDLE)
			unasked(conn);
		conn->t_client = m.t;
		reply_read(conn, t, &m, bytes);
		if (conn->phase == ANSWERED)
			finish(conn, c);
	}
	did(t, conn->id, role, &m);
	return 0;
}

NOINLINE int datagram_read(struct sock *sk, struct control *c, u32 bytes)
{
	struct queue *q = socket_storage(&queues, sk, 0, 0);
	if (!q)
		return 0;
	q->reader = CURRENT;
	if (q->taken == q->put)
		return 0;
	u32 number = COUNT(q->taken);
	struct datagram *d = &q->waiting[number % QUEUE];
	u32 role = d->role, all = d->bytes;
	if ((s32)(number - q->unknown) < 0 || q->put - number > QUEUE || bytes > all)
		return 0;
	struct conn *conn = conn_of(d->conn);
	if (!conn)
		return 0;
	datagram_taken(conn->id, role, bytes, all);
	if (role == SERVER && is_alone(conn, c))
		opens(q, conn, monotonic_ns());
	return 0;
}

/* The same of one that has left for another host, when the call is over that sent it. */
APART int datagram_left(u64 id, u32 role, u32 bytes)
{
	struct control *c = active();
	struct conn *conn = conn_of(id);
	struct thread *t = c && conn ? own(c) : 0;
	if (!c || !conn || !t)
		return 0;
	struct mark m;
	mark_own(t, &m, monotonic_ns());
	if (role == SERVER) {
		if (conn->phase != SERVED)
			return 0;
		/* For this host the request is over. */
		reply_begins(conn, t, &m);
		reply_left(conn, c, m.t, bytes);
		finish(conn, c);
	} else {
		int answered = conn->t_early > conn->t_client;
		conn->reader[CLIENT] = CURRENT;
		conn->t_client = m.t;
		if (answered) {
			incomplete(conn);
			return 0;
		}
		if (conn->phase == IDLE)
			request_begins(conn, c, m.t, 0);
		conn->asked += bytes;
		conn->t_out = m.t;
	}
	did(t, conn->id, role, &m);
	return 0;
}

/* What goes to an end here was seen when it arrived there. */
NOINLINE int datagram_sent(struct sock *sk, struct control *c, u32 bytes)
{
	struct key key = { .family = AF_INET | DATAGRAM };
	struct queue *q = socket_storage(&queues, sk, 0, 0);
	int side = sk->sk_protocol == IPPROTO_UDP ? key_of_addresses(sk, &key) : -1;
	struct conn *conn = 0;
	u32 role = SERVER;
	if (side >= 0) {
		conn = conn_between(sk, c, &key, side, MINE);
		if (conn && !conn->server)
			serves(conn, side, 2 - side, side ? key.b.port : key.a.port, side ? key.a.port : key.b.port);
		if (conn && conn->server != side + 1u)
			role = CLIENT;
	} else if (q) {
		conn = conn_of(q->open);
	}
	u64 id = conn && is_alone(conn, c) ? conn->id : 0;
	if (q) {
		if (q->unanswered)
			q->unanswered--;
		if (id && role == SERVER)
			q->open = 0;
	}
	return id ? datagram_left(id, role, bytes) : 0;
}
