/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The log of a connection: what happens at its sockets, with the threads' totals and the first bytes of what is sent. User space
 * tells messages apart in it, and pairs requests and replies where several are in flight.
 *
 * A connection has one from its first turn on, or where it was there before, after a few turns without a sign of several requests
 * in flight: nothing is under way then. It ends when such turns go on.
 */
#pragma once
#include "threads.h"

/* Several requests seem to be in flight. */
INLINE void sign(struct conn *conn)
{
	conn->out_of_turn++;
	conn->signs++;
	conn->clean = 0;
	if (LOGGED(conn))
		conn->paired = 1;
}

/* A turn begins. `born`: nothing was sent on this connection before. */
INLINE void begin_log(struct conn *conn, struct control *c, int born)
{
	int first = !conn->begun;
	conn->begun = 1;
	/* Of a connection to another host one half is missing; datagrams are messages as they are. */
	if (!looks_into || !c->payload || conn->far || conn->datagrams || conn->tls)
		return;
	/* It is seldom looked for, because that is a call; nothing is lost where it is found a few turns later. */
	int asks = conn->logged || conn->clean == CLEAN || conn->turns % 16 == 0;
	u32 *found = asks && conn->ever && conn->turns - conn->since < 1u << 16 ? map_lookup(&verdicts, &conn->id) : 0;
	u32 verdict = found ? *found : 0;
	if (verdict == UNTOLD) {
		conn->http2 = 1;
		verdict = UNKNOWN;
	}
	if (verdict == UNKNOWN)
		conn->paired = conn->several = 0;
	if (conn->logged) {
		if (verdict == SEVERAL)
			conn->paired = conn->several = 1;
		if (verdict == UNKNOWN || verdict == ONE || (!conn->paired && conn->turns - conn->since >= LOOKED_AT))
			conn->logged = conn->paired = conn->several = 0;
		if (verdict == ONE)
			map_delete(&verdicts, &conn->id);
		return;
	}
	int begins = conn->clean == CLEAN ? !conn->ever || conn->signs : conn->clean > CLEAN && verdict == SEVERAL;
	if (first)
		begins = born;
	if (!begins || verdict == UNKNOWN)
		return;
	conn->logged = conn->ever = 1;
	conn->paired = verdict == SEVERAL;
	conn->since = conn->turns;
	conn->flags = first && born ? FRESH | BORN : FRESH;
}

INLINE void fill(struct event *e, struct conn *conn, u32 kind, u32 role, s32 pid, const struct mark *m)
{
	e->conn = conn->id;
	e->t = m->t;
	e->last = e->run_ended = 0;
	UNROLL for (int i = 0; i < KINDS; i++)
		e->ns[i] = m->ns[i];
	UNROLL for (int i = 0; i < PARTS_OF_TIME; i++)
		e->since[i] = 0;
	e->seq = COUNT(conn->seq);
	e->turns = conn->turns;
	e->pid = pid;
	e->tgid = 0;
	e->bytes = e->copied = e->faults = 0;
	e->service = conn->service;
	e->port = conn->port;
	e->kind = kind;
	e->role = role;
	e->flags = conn->flags | (conn->paired ? PAIRED : 0);
	e->unused = 0;
	e->run.ns = e->block.ns = 0;
	((u64 *)e->name)[0] = ((u64 *)e->name)[1] = 0;
}

/* Of the current thread, which has done it. */
INLINE void fill_own(struct event *e, struct conn *conn, u32 kind, u32 role, struct thread *t, u64 now)
{
	struct mark m;
	mark_own(t, &m, now);
	fill(e, conn, kind, role, t->pid, &m);
	e->tgid = t->tgid;
	e->faults = t->faults;
	copy_name(e->name, t->name);
}

INLINE void put(struct event *e, u32 payload)
{
	/* Where there is no room it is missing, which its number tells. */
	struct control *c;
	if (ring_output(&events, e, sizeof(*e) + (payload & (2 * PAYLOAD - 1)), wakes(&events, EVENTS_RING)) && (c = active()))
		COUNT(c->holes);
}

/*
 * The beginning of a send call. Of a new connection user space says who counts its turns, and until then those that it may have to
 * pair are not counted: it is woken, but not more often than it looks by itself where connections come and go, every 20 ms.
 */
#define TOLD_EVERY 20000000ull

INLINE void put_begin(struct event *e, u32 payload)
{
	struct control *c = active();
	if (c && e->flags & FRESH && e->t - c->told > TOLD_EVERY) {
		c->told = e->t;
		if (ring_output(&events, e, sizeof(*e) + (payload & (2 * PAYLOAD - 1)), FORCE_WAKEUP))
			COUNT(c->holes);
		return;
	}
	put(e, payload);
}

struct buffer { u64 at, bytes; };

/* A buffer of a send call, by its number; empty where there is none, or it is not in memory of the process. */
INLINE void buffer_of(struct msghdr *msg, u32 number, struct buffer *to)
{
	u64 skip = number ? 0 : msg->msg_iter.iov_offset;
	u8 type = msg->msg_iter.iter_type;
	to->at = to->bytes = 0;
	if (type == ITER_UBUF && !number) {
		to->at = (u64)msg->msg_iter.ubuf;
		to->bytes = msg->msg_iter.count + skip;
	} else if (type == ITER_IOVEC && number < msg->msg_iter.nr_segs) {
		u64 vectors = (u64)msg->msg_iter.__iov;
		if (read_kernel(to, sizeof(*to), (void *)(vectors + number * sizeof(*to))))
			to->bytes = 0;
	}
	to->at += skip;
	to->bytes = to->bytes > skip ? to->bytes - skip : 0;
}

/* The first bytes of a request, for its row. */
INLINE void copy_head(struct conn *conn, struct msghdr *msg)
{
	struct buffer buffer;
	buffer_of(msg, 0, &buffer);
	u32 bytes = buffer.bytes < HEAD ? buffer.bytes : HEAD;
	asm volatile("" : "+r"(bytes));
	if (bytes <= HEAD)
		read_user(conn->row.head, bytes, (void *)buffer.at);
}

/* Up to PAYLOAD bytes of what a send call was given, of its first buffers. */
INLINE u32 copy_sent(struct message *m, struct msghdr *msg)
{
	u32 at = 0;
	for (u32 i = 0; i < 8 && at < PAYLOAD; i++) {
		struct buffer buffer;
		buffer_of(msg, i, &buffer);
		if (!buffer.bytes)
			break;
		u32 bytes = buffer.bytes < PAYLOAD - at ? buffer.bytes : PAYLOAD - at;
		asm volatile("" : "+r"(bytes), "+r"(at));
		if (bytes > PAYLOAD || at >= PAYLOAD || read_user(m->data + at, bytes, (void *)buffer.at))
			break;
		at += bytes;
	}
	return at;
}

/* Of a call with several buffers the first bytes of each: frames of HTTP/2 begin there. Each has a place of its own. */
INLINE u32 copy_pieces(struct message *m, struct msghdr *msg)
{
	u32 i = 0;
	for (; i < PAYLOAD / PIECE; i++) {
		struct buffer buffer;
		buffer_of(msg, i, &buffer);
		if (!buffer.bytes)
			break;
		struct piece *piece = (void *)(m->data + i * PIECE);
		u32 bytes = buffer.bytes < PIECE - sizeof(*piece) ? buffer.bytes : PIECE - sizeof(*piece);
		u64 skipped = buffer.bytes - bytes;
		asm volatile("" : "+r"(bytes));
		if (bytes > PIECE - sizeof(*piece) || read_user(piece + 1, bytes, (void *)buffer.at))
			break;
		piece->known = bytes;
		piece->skipped = skipped < 1u << 31 ? skipped : 1u << 31;
	}
	return i * PIECE;
}

/* A send call begins. */
NOINLINE int log_begin(struct conn *conn, u32 role, struct thread *t, u64 now, struct msghdr *msg)
{
	u32 zero = 0;
	struct message *message = map_lookup(&blank_message, &zero);
	if (!message)
		return 0;
	struct event *e = &message->event;
	fill_own(e, conn, BEGIN, role, t, now);
	conn->flags = 0;
	u64 bytes = msg->msg_iter.count;
	e->bytes = bytes < 1u << 31 ? bytes : 1u << 31;
	e->run = t->run;
	e->block = t->block;
	u32 copied;
	if (conn->http2 && msg->msg_iter.iter_type == ITER_IOVEC && msg->msg_iter.nr_segs > 1) {
		e->flags |= PIECES;
		copied = copy_pieces(message, msg);
	} else {
		copied = copy_sent(message, msg);
	}
	e->copied = copied;
	put_begin(e, copied);
	return 0;
}

/* The same of a Unix socket: what was sent is in the queue of the other end. */
NOINLINE int log_queued(struct conn *conn, u32 role, struct thread *t, u64 now, struct sk_buff *skb)
{
	u32 zero = 0;
	struct message *message = map_lookup(&blank_message, &zero);
	if (!message)
		return 0;
	struct event *e = &message->event;
	fill_own(e, conn, BEGIN, role, t, now);
	conn->flags = 0;
	e->flags |= WHOLE;
	e->run = t->run;
	e->block = t->block;
	u32 all = skb->len, paged = skb->data_len;
	e->bytes = all;
	u32 bytes = paged < all ? all - paged : 0;
	if (bytes > PAYLOAD)
		bytes = PAYLOAD;
	asm volatile("" : "+r"(bytes));
	if (bytes > PAYLOAD || read_kernel(message->data, bytes, skb->data))
		bytes = 0;
	e->copied = bytes;
	put_begin(e, bytes);
	return 0;
}

/* The call has ended, and so many bytes were taken. */
APART int log_sent(u64 id, u32 role, u64 now, u32 bytes)
{
	u32 kind = SENT_ALL;
	struct conn *conn = conn_of(id);
	struct thread *t = thread_of(CURRENT);
	struct event *e = map_lookup(&blank_event, &kind);
	if (!e || !conn || !t)
		return 0;
	fill_own(e, conn, kind, role, t, now);
	e->bytes = bytes;
	put(e, 0);
	return 0;
}

/* Data is ready at the end of `role`, for the thread that is expected to read it. */
APART int log_ready(u64 id, u32 role, u64 now)
{
	u32 kind = DATA;
	struct conn *conn = conn_of(id);
	struct event *e = map_lookup(&blank_event, &kind);
	if (!e || !conn)
		return 0;
	struct mark m = {};
	s32 pid = conn->reader[role & 1];
	struct thread *t = thread_of(pid);
	if (!t || !mark_other(t, &m, now)) {
		m.t = now;
		pid = 0;
	}
	fill(e, conn, kind, role, pid, &m);
	put(e, 0);
	return 0;
}

APART int log_read(u64 id, u32 role, u64 now, u32 bytes)
{
	u32 kind = READ;
	struct conn *conn = conn_of(id);
	struct thread *t = thread_of(CURRENT);
	struct event *e = map_lookup(&blank_event, &kind);
	if (!e || !conn || !t)
		return 0;
	fill_own(e, conn, kind, role, t, now);
	e->bytes = bytes;
	struct last *last = &t->last[role & 1];
	if (last->conn) {
		e->last = last->t;
		did_since(t, last->t, e->t, e->since);
	}
	e->run_ended = t->run_ended;
	e->run = t->run_before;
	put(e, 0);
	return 0;
}

APART int log_gone(u64 id, u64 now)
{
	u32 kind = GONE;
	struct conn *conn = conn_of(id);
	struct event *e = map_lookup(&blank_event, &kind);
	if (!e || !conn)
		return 0;
	struct mark m = { .t = now };
	fill(e, conn, kind, CLIENT, 0, &m);
	put(e, 0);
	return 0;
}

/* The other end is on another host: what it does is not in the log. */
INLINE void leave_log(struct conn *conn, u64 now)
{
	if (LOGGED(conn))
		log_gone(conn->id, now);
	conn->logged = conn->paired = 0;
}
