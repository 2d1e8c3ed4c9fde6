/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Requests and replies by turns: what the client sends before it was answered is one request, what the server sends until the client
 * speaks again is one reply. A connection on which this cannot be (a reply to something the server has not read) is marked, and its
 * turns are only counted.
 */
#pragma once
#include "log.h"
#include "sockets.h"
#include "tls.h"

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

/* Requests under way, while windows are there: a window that closes waits for them. */
INLINE void is_under_way(struct conn *conn, struct control *c)
{
	if (!c->window || conn->open == c->window)
		return;
	conn->open = c->window;
	COUNT(c->open);
}

INLINE void is_over(struct conn *conn, struct control *c)
{
	if (!conn->open || conn->open != c->window)
		return;
	conn->open = 0;
	__sync_fetch_and_add(&c->open, -1);
}

/* The turn is over: it is counted, and written where it was slow or its turn to be sampled. */
APART int finish_turn(u64 id)
{
	struct control *c = active();
	struct conn *conn = conn_of(id);
	if (!c || !conn)
		return 0;
	conn->phase = IDLE;
	is_over(conn, c);
	conn->turns++;
	conn->clean++;
	u32 number = conn->service - 1;
	struct service *s = map_lookup(&services, &number);
	if (!s || conn->paired)
		return 0;
	struct row *row = &conn->row;
	if (conn->tls && speaks_tls(conn, s, 1))
		return 0;
	if (conn->http2) {
		COUNT(s->in_flight);
		return 0;
	}
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
	row->flags |= conn->nagled * NAGLED;
	row->port = conn->port;
	if (ring_output(&rows, row, sizeof(*row), wakes(&rows, ROWS_RING)))
		COUNT(c->lost);
	return 0;
}

INLINE void finish(struct conn *conn) { finish_turn(conn->id); }

/* Nothing is under way on it, and it is not followed further in this window. */
INLINE void leave_window(struct conn *conn, struct control *c)
{
	if (conn->phase == ANSWERED)
		finish(conn);
	if (LOGGED(conn))
		log_gone(conn->id, monotonic_ns());
	conn->logged = 0;
	conn->window = c->window - 1;
}

/* The server has sent what nobody had asked for. */
INLINE void unasked(struct conn *conn)
{
	u32 number = conn->service - 1;
	struct service *s = conn->service ? map_lookup(&services, &number) : 0;
	if (s && !conn->paired && !conn->http2)
		COUNT(s->unasked);
}

INLINE void incomplete(struct conn *conn)
{
	u32 number = conn->service - 1;
	struct service *s = map_lookup(&services, &number);
	if (s && !conn->paired && !conn->http2 && !(conn->tls && speaks_tls(conn, s, 0)))
		COUNT(s->incomplete);
	conn->phase = IDLE;
	struct control *c = alive();
	if (c)
		is_over(conn, c);
}

/* ---- data on its way ---- */

/* The thread was stopped while the request waited for it. */
INLINE void stopped_after(struct conn *conn, struct thread *t, u64 from)
{
	if (t->stop_ended > from)
		conn->row.stop = t->stop;
}

/* It is there: behind what the thread did on other connections, or by what it did since the data was ready. */
INLINE void arrived(struct conn *conn, u32 role, struct thread *t, u64 now, struct arrival *to, struct who *run)
{
	struct last *last = &t->last[role];
	s32 pid = t->pid;
	u64 ready = conn->t_ready, waited = until(ready, now, &conn->row);
	int others = last->conn && last->conn != conn->id && last->t > ready;
	to->queued = others ? last->t - ready : 0;
	UNROLL for (int i = 0; i < PARTS_OF_TIME; i++)
		to->parts[i] = 0;
	to->thread = others || conn->reader[role] == pid ? did_since(t, ready + to->queued, now, to->parts) : waited;
	*run = t->run_before;
	if (t->run_ended < ready)
		run->ns = 0;
	stopped_after(conn, t, ready);
	conn->reader[role] = pid;
}

/* ---- a request ---- */

INLINE void request_begins(struct conn *conn, struct control *c, u64 now, int born)
{
	conn->phase = SENT;
	conn->t_sent = now;
	conn->nagled = conn->joined = 0;
	conn->tls &= ~(FLIGHT | ALERT | CLOSED);
	is_under_way(conn, c);
	UNROLL for (int i = 0; i < HEAD / 8; i++)
		((u64 *)conn->row.head)[i] = 0;
	begin_log(conn, c, born);
}

/* What the client sends belongs to the request that is under way, or begins one. */
INLINE void client_sends(struct conn *conn, struct control *c, struct sock *sk, u64 now)
{
	if (conn->phase == ANSWERED)
		finish(conn);
	if (conn->phase == IDLE) {
		struct tcp_sock *tcp = conn->begun ? 0 : as_tcp_socket(sk);
		request_begins(conn, c, now, tcp && !tcp->bytes_sent && !tcp->bytes_received);
		return;
	}
	if (conn->phase >= SERVED)
		conn->row.flags |= AGAIN;
	if (conn->phase == READY)
		sign(conn);
	if (LOGGED(conn))
		conn->paired = 1;
}

INLINE void request_ready(struct conn *conn, struct control *c, u64 now)
{
	/* Unix sockets, other hosts, and kernels that do not tell when a send begins. */
	if (conn->phase == ANSWERED)
		finish(conn);
	/* The next request of another host is here before the call that sends the reply is over: when it left is not known. */
	if (conn->phase == SENDING && conn->far)
		incomplete(conn);
	if (conn->phase == IDLE)
		request_begins(conn, c, conn->far ? received_from(now) : now, 0);
	if (conn->phase >= SERVED)
		conn->row.flags |= AGAIN;
	if (conn->phase != SENT)
		return;
	conn->phase = ARRIVED;
	conn->t_ready = now;
}

/* The number of a server + 1, given to it where it has none. */
INLINE u32 numbered(struct control *c, struct address *key)
{
	u32 *known = map_lookup(&numbers, key);
	if (known)
		return *known + 1;
	u32 number = COUNT(c->services);
	if (number >= SERVICES - 1)
		number = SERVICES - 1; /* all that find no room, together */
	map_update(&numbers, key, &number, NO_EXIST);
	known = map_lookup(&numbers, key);
	return (known ? *known : number) + 1;
}

/* `away`: the server is on another host. */
INLINE u32 service_of(struct conn *conn, struct control *c, s32 process, int away)
{
	struct address key = {};
	key.port = conn->port;
	if (away)
		key = conn->other;
	else if (!key.port)
		key.lo = (u32)process;
	key.kind = conn->datagrams;
	return numbered(c, &key);
}

/* The thread goes on with a request that it had put off, or with another one on that connection. */
INLINE void takes_up(struct conn *conn, struct thread *t)
{
	if (conn->done_is && conn->reads == t->pid && t->put_off)
		t->put_off--;
	conn->done_is = 0;
}

INLINE void request_read(struct conn *conn, struct control *c, struct thread *t, u64 now, u32 bytes)
{
	struct row *row = &conn->row;
	s32 pid = t->pid;
	if (!conn->service)
		conn->service = service_of(conn, c, t->tgid, 0);
	u32 number = conn->service - 1;
	struct service *s = map_lookup(&services, &number);
	if (s)
		COUNT(s->followed);
	conn->got += bytes;
	if (conn->phase == SERVED)
		row->bytes_there += bytes;
	if (conn->phase != ARRIVED) {
		conn->reader[SERVER] = pid;
		return;
	}
	mark_own(t, &conn->read, now);
	now = conn->read.t;
	conn->phase = SERVED;
	row->flags = 0;
	row->t0 = conn->t_sent;
	row->send = until(conn->t_sent, conn->t_ready, row);
	row->out = row->away = row->reply_out = row->back_softirq = row->softirq = 0;
	row->stop.ns = 0;
	if (conn->far) {
		row->softirq = row->send;
		row->send = 0;
	}
	arrived(conn, SERVER, t, now, &row->there, &row->run_there);
	row->server = pid;
	row->server_process = t->tgid;
	copy_name(row->server_name, t->name);
	row->bytes_there = bytes;
	takes_up(conn, t);
	conn->reads = pid;
	conn->faults = t->faults;
	conn->hands = 0;
	t->open = conn->id;
	t->block.ns = t->run.ns = 0;
}

/* The thread turns to another request: with the one that it read before it is done for now. */
INLINE void turn_away(struct thread *t, u64 to, u64 now)
{
	u64 open = t->open;
	if (!open || open == to)
		return;
	struct conn *before = conn_of(open);
	if (before && before->phase == SERVED && !before->done_is) {
		mark_own(t, &before->done, now);
		before->done_is = 1;
		t->put_off++;
	}
}

/* ---- a reply ---- */

INLINE void reply_begins(struct conn *conn, struct thread *t, u64 now)
{
	struct row *row = &conn->row;
	s32 pid = t->pid;
	u64 held = 0, elsewhere = 0;
	s64 wrong = 0;
	struct mark m;
	mark_own(t, &m, now);
	/* It answers although the client has sent what it has not read: something earlier. */
	if (conn->asked > conn->got)
		sign(conn);
	if (pid == conn->reads) {
		int away = conn->done_is && t->last[SERVER].conn != conn->id && t->served.t > conn->done.t;
		UNROLL for (int i = 0; i < KINDS; i++) {
			u64 ns = between(&conn->read, &m, i, &wrong);
			/* What it did on a CPU for others is not work on this request; where it slept meanwhile, it waited for something. */
			if (away && i <= WAKING) {
				u64 others = between(&conn->done, &t->served, i, &wrong);
				ns -= others;
				held += others;
			}
			row->work[i] = ns;
		}
	} else if (conn->hands == pid) {
		row->flags |= HANDED;
		UNROLL for (int i = 0; i < KINDS; i++)
			row->work[i] = between(&conn->read, &conn->handed_from, i, &wrong) + between(&conn->handed_to, &m, i, &wrong);
		t->takes_over = 1;
	} else if (t->takes_over && t->served.t > conn->read.t && t->last[SERVER].conn != conn->id) {
		/* It was busy with another request when this one was read, and has taken it from a queue since. */
		row->flags |= HANDED;
		row->there.thread += t->served.t - conn->read.t;
		UNROLL for (int i = 0; i < KINDS; i++)
			row->work[i] = between(&t->served, &m, i, &wrong);
	} else {
		t->takes_over = 1;
		UNROLL for (int i = 0; i < KINDS; i++)
			row->work[i] = 0;
		elsewhere = until(conn->read.t, m.t, row);
	}
	/* A thread that waits in a poll has sent what it could send: the reply was not there yet. */
	if (held && row->work[POLL]) {
		row->work[POLL] += held;
		held = 0;
	}
	takes_up(conn, t);
	stopped_after(conn, t, conn->read.t);
	if (wrong < 0)
		row->flags |= TORN;
	row->held = held;
	row->elsewhere = elsewhere;
	row->block = t->block;
	row->run_work = t->run;
	if (elsewhere)
		row->block.ns = row->run_work.ns = 0;
	row->faults = t->faults - (pid == conn->reads ? conn->faults : t->faults);
	conn->t_first = m.t;
	conn->phase = SENDING;
}

INLINE void reply_ready(struct conn *conn, u64 now)
{
	conn->t_ready = now;
	conn->row.reply = until(conn->t_first, conn->t_ready, &conn->row);
	conn->phase = READY;
}

INLINE void reply_read(struct conn *conn, struct thread *t, u64 now, u32 bytes)
{
	struct row *row = &conn->row;
	/* The server has closed what it has long answered. */
	if (conn->tls & CLOSED)
		return;
	if (conn->phase == ANSWERED) {
		conn->reader[CLIENT] = t->pid;
		row->rest = until(conn->t_first, now, row);
		row->total = until(row->t0, now, row);
		row->bytes_back += bytes;
		row->flags |= PARTS;
		return;
	}
	if (conn->phase != READY) {
		conn->reader[CLIENT] = t->pid;
		return;
	}
	arrived(conn, CLIENT, t, now, &row->back, &row->run_back);
	row->rest = 0;
	row->client = t->pid;
	row->client_process = t->tgid;
	copy_name(row->client_name, t->name);
	row->bytes_back = bytes;
	row->total = until(row->t0, now, row);
	conn->t_first = now;
	conn->phase = ANSWERED;
	struct control *c = active();
	if (c)
		is_over(conn, c);
}

/* ---- the other end is on another host ---- */

INLINE void nobody(s32 *thread, s32 *process, char *name)
{
	*thread = *process = 0;
	((u64 *)name)[0] = ((u64 *)name)[1] = 0;
}

/*
 * The reply of another host is ready. From the end of the send call on the request was on its way, there, and on its way back, until
 * the softirq began that received the reply.
 */
INLINE void reply_from_afar(struct conn *conn, struct control *c, u64 now)
{
	struct row *row = &conn->row;
	leave_log(conn, now);
	is_far(conn, c);
	if (!conn->service)
		conn->service = service_of(conn, c, 0, 1);
	u64 received = received_from(now);
	conn->t_ready = now;
	__builtin_memset(&row->send, 0, STAGES_SIZE);
	if (received < conn->t_sent)
		received = conn->t_sent;
	/* The reply may be here before the call that has sent the request is over. */
	u64 out = conn->t_out >= conn->t_sent && conn->t_out < received ? conn->t_out : received;
	row->flags = 0;
	row->t0 = conn->t_sent;
	row->out = out - conn->t_sent;
	row->away = received - out;
	row->back_softirq = until(received, conn->t_ready, row);
	row->run_there.ns = row->block.ns = row->run_work.ns = row->stop.ns = 0;
	row->faults = 0;
	row->bytes_there = conn->asked - conn->got;
	conn->got = conn->asked;
	nobody(&row->server, &row->server_process, row->server_name);
	conn->phase = READY;
}

/* A part of the reply was given to the device, or waits in the socket for room: for this host the request is over. */
INLINE void reply_left(struct conn *conn, struct control *c, u64 now, u32 bytes)
{
	struct row *row = &conn->row;
	if (conn->phase == ANSWERED) {
		row->rest = until(conn->t_first, now, row);
		row->bytes_back += bytes;
		row->flags |= PARTS;
	} else {
		leave_log(conn, now);
		is_far(conn, c);
		__builtin_memset(&row->back, 0, sizeof(row->back));
		row->reply = row->rest = row->run_back.ns = 0;
		row->reply_out = until(conn->t_first, now, row);
		row->bytes_back = bytes;
		nobody(&row->client, &row->client_process, row->client_name);
		conn->t_first = now;
		conn->phase = ANSWERED;
		is_over(conn, c);
	}
	row->total = until(row->t0, now, row);
}

/* Before kernel 6.16 a send to another host is known when it is over. */
INLINE void sent_in_silence(struct conn *conn, struct control *c, struct sock *sk, struct thread *t, u32 role, u64 now)
{
	if (role == CLIENT)
		client_sends(conn, c, sk, now);
	else if (conn->phase == SERVED)
		reply_begins(conn, t, now);
}
