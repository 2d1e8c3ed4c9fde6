/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Datagrams. One socket may have many peers, so a connection is a pair of addresses, and each datagram tells its own when it arrives.
 * Nothing tells which one a thread reads: it is the one that came first of those that wait. A reply is one datagram.
 *
 * Nothing tells either when a send begins. Between two ends here a datagram arrives within the send call of whoever sends it.
 *
 * Every datagram that is read where requests arrive is one of a request, or is counted as one that was not seen. So what was seen and what
 * was not are together what was read, whatever became of the order.
 */
#pragma once
#include "turns.h"

#define DATAGRAM 0x100
/* The number of the loopback device in every network namespace. */
#define LOOPBACK 1

/* The addresses in the headers of a datagram; below 0: they cannot be read. */
INLINE int addresses_of(u64 head, u32 transport, u32 network, struct address *from, struct address *to)
{
	u64 ip[5] = {};
	u16 port[2] = {};
	if (read_kernel(port, sizeof(port), (void *)(head + transport)) || read_kernel(ip, sizeof(ip), (void *)(head + network)))
		return -1;
	if ((ip[0] >> 4 & 15) == 4) {
		from->lo = 0xffff0000ull | ip[1] >> 32 << 32;
		to->lo = 0xffff0000ull | ip[2] << 32;
	} else {
		from->hi = ip[1];
		from->lo = ip[2];
		to->hi = ip[3];
		to->lo = ip[4];
	}
	from->port = __builtin_bswap16(port[0]);
	to->port = __builtin_bswap16(port[1]);
	return 0;
}

/* What is read of a datagram that may be gone meanwhile. */
struct seen { u64 head, from; u32 bytes; s32 device; u16 transport, network; };

/* 1: it was read. */
INLINE int look_at(u64 at, struct seen *seen)
{
	struct sk_buff *skb = (void *)at;
	return !read_kernel(&seen->head, sizeof(seen->head), &skb->head) && !read_kernel(&seen->from, sizeof(seen->from), &skb->sk) &&
	       !read_kernel(&seen->bytes, sizeof(seen->bytes), &skb->len) &&
	       !read_kernel(&seen->device, sizeof(seen->device), &skb->skb_iif) &&
	       !read_kernel(&seen->transport, sizeof(seen->transport), &skb->transport_header) &&
	       !read_kernel(&seen->network, sizeof(seen->network), &skb->network_header);
}

/* The pair of addresses of a datagram that has arrived at a socket, and which end this is; -1: it does not tell. */
INLINE int key_of_datagram(struct sock *sk, const struct seen *seen, struct key *key)
{
	if (sk->__sk_common.skc_family == AF_UNIX) {
		u64 own = (u64)sk, peer = seen->from;
		key->family = AF_UNIX | DATAGRAM;
		key->net = 0;
		key->a.lo = own < peer ? own : peer;
		key->b.lo = own < peer ? peer : own;
		return peer ? own > peer : -1;
	}
	struct address own = {}, far = {};
	if (sk->sk_protocol != IPPROTO_UDP || addresses_of(seen->head, seen->transport, seen->network, &far, &own))
		return -1;
	/* Its memory may have become that of another one. */
	if (own.port != PORT_OF(sk))
		return -1;
	key->family = AF_INET | DATAGRAM;
	return join(key, &own, &far);
}

/* Readers of UDP take all that waits at once, into a queue of their own: it is the older part. 0: there is none. */
INLINE u64 readers_of(struct sock *sk)
{
	struct udp_sock *udp = (void *)sk;
	return sk->__sk_common.skc_family == AF_UNIX ? 0 : (u64)&udp->reader_queue;
}

/* Datagrams that wait at a socket. */
INLINE u32 waiting_at(struct sock *sk)
{
	u32 all = sk->sk_receive_queue.qlen, taken = 0;
	struct sk_buff_head *older = (void *)readers_of(sk);
	if (older && read_kernel(&taken, sizeof(taken), &older->qlen))
		taken = 1;
	return all + taken;
}

/* The datagram before this one, or the last one of a queue; 0: it is not there any more. */
INLINE u64 before(u64 at)
{
	struct sk_buff *skb = (void *)at;
	u64 found = 0;
	return read_kernel(&found, sizeof(found), &skb->prev) ? 0 : found;
}

/* So many datagrams that were not seen are looked for: several CPUs may queue theirs before the first of them is told. */
#define AT_ONCE 32

/* Datagrams at a socket behind the last one that was seen; `first`: the first of them; `all`: nothing else waits. */
INLINE u32 unseen(struct sock *sk, u64 last, u64 *first, u32 *all)
{
	u64 newer = (u64)&sk->sk_receive_queue, older = readers_of(sk), at = before(newer);
	u32 new = 0;
	*all = 0;
	for (int i = 0; i < AT_ONCE; i++) {
		if (at == newer) {
			at = older ? before(older) : 0;
			if (!at || at == older) {
				*all = 1;
				break;
			}
		}
		if (!at || at == last)
			break;
		if (at == older) {
			*all = 1;
			break;
		}
		*first = at;
		at = before(at);
		new++;
	}
	return new;
}

/* A request was read that was not seen from its beginning on. */
INLINE void not_seen(u32 service)
{
	u32 number = service - 1;
	struct service *s = service ? map_lookup(&services, &number) : 0;
	if (s)
		COUNT(s->incomplete);
}

/* A request has arrived; `here`: from an end on this machine. */
INLINE void asks(struct conn *conn, struct control *c, u64 now, u32 bytes, int here)
{
	/* Whoever sends will read the reply. */
	if (here && !conn->reader[CLIENT] && own(c))
		conn->reader[CLIENT] = CURRENT;
	/* It was not seen that the client has read the reply. */
	if (conn->phase == READY)
		incomplete(conn);
	if (conn->phase == IDLE)
		conn->got = conn->asked;
	if (conn->phase == ARRIVED || conn->phase == SERVED)
		sign(conn);
	conn->asked += bytes;
	request_ready(conn, c, now);
}

/* How a datagram has come: from an end on this machine; to a socket that is connected. */
enum { HERE = 1, CONNECTED = 2 };

/* A reply has arrived. */
INLINE void answers(struct conn *conn, struct control *c, u64 now, u32 how)
{
	struct thread *t;
	if (conn->phase == SERVED) {
		t = own(c);
		if (!t)
			return;
		reply_begins(conn, t, now);
		reply_ready(conn, conn->t_first);
		did(t, conn->id, SERVER, now);
	} else if (conn->phase == SENT && is_alone(conn, c)) {
		reply_from_afar(conn, c, now);
	} else if (conn->phase == SENT || conn->phase == ARRIVED) {
		/* Its request was read by nobody that was seen, and counted then. */
		conn->phase = IDLE;
		conn->excused = 1;
	} else if (conn->phase == IDLE) {
		conn->t_early = now;
		if (how & HERE) {
			t = own(c);
			if (t && t->owes) {
				t->owes--;
				conn->excused = 1;
			}
		} else if (!(how & CONNECTED) && is_alone(conn, c)) {
			/* It was asked for by a socket that may send anywhere, and that was not seen, or is not over. */
			c->addresses |= WANTED;
			if (!conn->service)
				conn->service = service_of(conn, c, 0, 1);
			incomplete(conn);
			conn->excused = 1;
		}
	}
}

/* A reader may have taken one and not returned yet, and a second one meanwhile; not so often in a row. */
#define WITH_READERS 2
#define IN_A_ROW 8

/*
 * What waits is what was seen and not read: at least `low`, and at most `high` but for what readers have. Where it is not, nobody knows
 * which datagram is which until these are read.
 */
INLINE void check(struct queue *q, u32 taken, u32 low, u32 high)
{
	s32 early = q->early;
	u32 have = q->put - taken + (early < 0 ? -early : 0);
	q->more = have > high ? q->more + 1 : 0;
	if (have >= low && have <= high + WITH_READERS && q->more < IN_A_ROW)
		return;
	q->taken = q->put - high;
	q->unknown = q->put;
	q->more = q->early = 0;
}

INLINE int begin_look(struct queue *q)
{
	for (int tries = 0; tries < 128; tries++) {
		if (!__sync_val_compare_and_swap(&q->busy, 0, 1))
			return 1;
	}
	return 0;
}

/* The only thread that receives waits for something: it has not taken a datagram that it has not returned with. */
INLINE int reader_waits(struct queue *q)
{
	struct thread *t = q->many ? 0 : thread_of(q->reader);
	return t && t->state >= POLL && t->state != FAULT;
}

/* What it means for its connection that a datagram has arrived at the end of `role`. */
APART int datagram_counts(u64 id, u32 role, u32 bytes, u32 how)
{
	struct control *c = active();
	struct conn *conn = conn_of(id);
	if (!c || !conn)
		return 0;
	u64 now = monotonic_ns();
	if (role == SERVER)
		asks(conn, c, now, bytes, how & HERE);
	else
		answers(conn, c, now, how);
	return 0;
}

/*
 * A datagram has arrived. Those that become ready at once are all there when the first of them is told, one call each: it is the first one
 * that was not seen before. Where there is none, a reader has it already.
 */
NOINLINE int datagram_ready(struct sock *sk)
{
	u64 net = net_of(sk);
	struct end *e = socket_storage(&ends, sk, 0, 0);
	struct queue *q = socket_storage(&queues, sk, 0, 0);
	u32 how = e && e->datagrams ? WATCHED : 0, known = q != 0, waiting = 0, taken = 0, all = 0, there;
	u64 skb = 0;
	if (q) {
		if (!begin_look(q))
			return 0;
		taken = q->taken;
		waiting = waiting_at(sk);
		/* Kept there, so that the verifier forgets what it was. */
		q->new = unseen(sk, q->put != taken ? q->last : 0, &skb, &all);
		if (all && reader_waits(q)) {
			q->taken = taken = q->put;
			q->early = 0;
		} else if (!q->new) {
			__sync_fetch_and_add(&q->early, -1);
		}
		there = q->new;
	} else {
		/* Of what was there before nobody knows what it was. */
		skb = before((u64)&sk->sk_receive_queue);
		there = skb != (u64)&sk->sk_receive_queue;
	}
	struct seen seen = {};
	struct key key = { .net = net };
	if (there)
		there = look_at(skb, &seen);
	int side = there ? key_of_datagram(sk, &seen, &key) : -1;
	/* Within this machine the current process is the one that sends. */
	u32 here = sk->__sk_common.skc_family == AF_UNIX || seen.device == LOOPBACK;
	struct conn *conn = side < 0 ? 0 : conn_between(sk, &key, side, here ? how | MINE : how, net);
	/* A peer of what is watched is known by what comes to it. */
	if (!q && (conn || how))
		q = socket_storage(&queues, sk, 0, STORAGE_CREATE);
	if (!q)
		return 0;
	if (!known) {
		if (!begin_look(q))
			return 0;
		/* Nobody else may have made it meanwhile. */
		q->new = there && !q->put ? 1 : 0;
		waiting = waiting_at(sk);
		if (waiting > q->new && !q->put)
			q->early = q->new - waiting;
	}
	u32 role = CLIENT, bytes = seen.bytes;
	u64 id = conn ? conn->id : 0;
	if (conn) {
		/* Where nobody knows: who sends first asks. */
		if (!conn->server)
			serves(conn, side, side + 1, side ? key.b.port : key.a.port, side ? key.a.port : key.b.port);
		role = conn->server == side + 1u ? SERVER : CLIENT;
		if (q->reader)
			conn->reader[role & 1] = q->reader;
		if (role == SERVER)
			q->serves = 1;
		q->peer = id;
	}
	if (q->new) {
		struct datagram *place = &q->waiting[q->put % QUEUE];
		place->conn = id;
		place->role = role;
		place->bytes = bytes;
		q->last = skb;
		q->put++;
		q->new--;
	}
	if (known) {
		u32 new = q->new, high = waiting_at(sk);
		check(q, taken, waiting > new ? waiting - new : 0, high > new ? high - new : 0);
	}
	__sync_fetch_and_sub(&q->busy, 1);
	return id ? datagram_counts(id, role, bytes, (here ? HERE : 0) | (FAR_PORT(sk) ? CONNECTED : 0)) : 0;
}

/* How long a request of another host is waited for to be answered. */
#define PATIENCE 1000000000ull

/*
 * A request of another host was read: what this socket sends next answers it, unless another one waits for its answer as well, or one of
 * which nobody knows whose it is (0). Then nobody knows which.
 */
INLINE void opens(struct queue *q, struct control *c, struct conn *conn, u64 now)
{
	c->addresses |= WANTED;
	if (now - q->opened > PATIENCE)
		q->unanswered = 0;
	q->opened = now;
	q->unanswered++;
	if (conn && q->unanswered == 1) {
		q->open = conn->id;
		return;
	}
	struct conn *first = conn_of(q->open);
	if (first && first->phase == SERVED)
		incomplete(first);
	if (conn && conn->phase == SERVED)
		incomplete(conn);
	q->open = 0;
}

/* A datagram was read of which nobody knows whose it was. */
NOINLINE int datagram_unknown(struct sock *sk, struct control *c, struct queue *q)
{
	u32 local = sk->__sk_common.skc_family == AF_UNIX, port = PORT_OF(sk);
	if (q->serves || (!local && bit(&ports, port))) {
		struct address key = {};
		key.kind = 1;
		if (local)
			key.lo = (u32)PROCESS;
		else
			key.port = port;
		if (!q->service)
			q->service = numbered(c, &key);
		not_seen(q->service);
		struct thread *t = own(c);
		if (t)
			t->owes++;
		if (c->far && !(c->addresses & TOLD))
			opens(q, c, 0, monotonic_ns());
		return 0;
	}
	/* It may have been the reply. */
	struct conn *conn = conn_of(q->peer);
	if (conn && (conn->phase == SENT || conn->phase == SERVED || conn->phase == READY))
		incomplete(conn);
	return 0;
}

/* What it means for its connection that a datagram was read at the end of `role`; `all`: how long it was. 0: it cannot be this one. */
APART int datagram_taken(u64 id, u32 role, u32 bytes, u32 all)
{
	struct control *c = active();
	struct conn *conn = conn_of(id);
	struct thread *t = c && conn ? own(c) : 0;
	if (!c || !conn || !t)
		return 0;
	u64 now = monotonic_ns();
	if (role == SERVER) {
		if (conn->phase != ARRIVED && (conn->phase != SERVED || conn->got >= conn->asked)) {
			/* This one, or the one before, was not what it was taken for. */
			if (conn->phase == SERVED)
				incomplete(conn);
			return 0;
		}
		turn_away(t, conn->id, now);
		request_read(conn, c, t, now, bytes);
		/* What found no room in the buffer of the reader is gone. */
		conn->got += all - bytes;
	} else {
		if (conn->phase == IDLE && !conn->excused)
			unasked(conn);
		conn->excused = 0;
		conn->t_client = now;
		reply_read(conn, t, now, bytes);
		if (conn->phase == ANSWERED)
			finish(conn);
	}
	did(t, conn->id, role, now);
	return 1;
}

NOINLINE int datagram_read(struct sock *sk, struct control *c, u32 bytes)
{
	struct queue *q = socket_storage(&queues, sk, 0, 0);
	if (!q)
		return 0;
	if (q->reader && q->reader != CURRENT)
		q->many = 1;
	q->reader = CURRENT;
	s32 early = q->early;
	if (early < 0 || q->taken == q->put) {
		__sync_fetch_and_add(&q->early, 1);
		return datagram_unknown(sk, c, q);
	}
	u32 number = COUNT(q->taken);
	struct datagram *d = &q->waiting[number % QUEUE];
	u32 role = d->role, all = d->bytes, known = (s32)(number - q->unknown) >= 0 && q->put - number <= QUEUE && bytes <= all;
	/* Of a Unix socket without a name nobody can be answered. */
	if (!d->conn && sk->__sk_common.skc_family == AF_UNIX)
		return 0;
	struct conn *conn = known ? conn_of(d->conn) : 0;
	if (!conn || !datagram_taken(conn->id, role, bytes, all))
		return datagram_unknown(sk, c, q);
	if (role == SERVER) {
		q->service = conn->service;
		if (!(c->addresses & TOLD) && is_alone(conn, c))
			opens(q, c, conn, monotonic_ns());
	}
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
	u64 now = monotonic_ns();
	if (role == SERVER) {
		if (conn->phase != SERVED)
			return 0;
		/* For this host the request is over. */
		reply_begins(conn, t, now);
		reply_left(conn, c, now, bytes);
		finish(conn);
	} else {
		int answered = conn->t_early > conn->t_client;
		conn->reader[CLIENT] = CURRENT;
		conn->t_client = now;
		if (answered) {
			/* It may be counted already. */
			if (!conn->excused)
				incomplete(conn);
			return 0;
		}
		if (conn->phase == IDLE)
			request_begins(conn, c, now, 0);
		conn->asked += bytes;
		conn->t_out = now;
	}
	did(t, conn->id, role, now);
	return 0;
}

/* A datagram is given to a device, within the call that sends it: its headers tell where it goes. */
NOINLINE int datagram_leaves(struct sock *sk, struct control *c, struct sk_buff *skb)
{
	struct end *e = socket_storage(&ends, sk, 0, 0);
	if (!e || !e->datagrams)
		return 0;
	c->addresses |= TOLD;
	/* A connected socket tells by itself. */
	if (FAR_PORT(sk))
		return 0;
	struct key key = { .family = AF_INET | DATAGRAM, .net = net_of(sk) };
	struct address own = {}, far = {};
	if (addresses_of((u64)skb->head, skb->transport_header, skb->network_header, &own, &far))
		return 0;
	if (own.port != PORT_OF(sk) || !far.port || is_loopback(&far))
		return 0;
	u32 side = join(&key, &own, &far);
	struct queue *q = socket_storage(&queues, sk, 0, STORAGE_CREATE);
	if (!q)
		return 0;
	q->to = key;
	q->side = side;
	q->sender = CURRENT;
	return 0;
}

/* What goes to an end here was seen when it arrived there. */
NOINLINE int datagram_sent(struct sock *sk, struct control *c, u32 bytes)
{
	u64 net = net_of(sk);
	struct key key = { .family = AF_INET | DATAGRAM, .net = net };
	struct queue *q = socket_storage(&queues, sk, 0, 0);
	int side = sk->sk_protocol == IPPROTO_UDP ? key_of_addresses(sk, &key) : -1;
	struct conn *conn = 0;
	u32 role = SERVER;
	if (side < 0 && q && q->sender == CURRENT) {
		key = q->to;
		side = q->side & 1;
		q->sender = 0;
	}
	if (side >= 0) {
		conn = conn_between(sk, &key, side, MINE, net);
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
