/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * TLS (RFC 8446, section 5.1): records of a type, a version and a length. What they contain is not read. A turn in which the client
 * sends no application data is a flight of the handshake and no request; requests are turns of what it sends behind it. A connection
 * that begins as HTTP/2 does is left to user space; where that cannot follow it, its turns are counted as what is not told apart.
 */
#pragma once
#include "log.h"

/* Of `payload`: TLS and HTTP/2 are recognised. */
#define RECOGNISES 2
/* Types of records. */
#define CHANGE_OF_CIPHER 0x14
#define ALERTS 0x15
#define HANDSHAKE 0x16
#define DATA_RECORD 0x17
/* Bytes in front of a record, and the most behind them. */
#define RECORD 5
#define LONGEST_RECORD 16640
/* A change of cipher: a record of one byte. */
#define CHANGE 6
/* An encrypted alert of version 1.3: two bytes, its type and the tag. */
#define ALERT_RECORD 19

/*
 * Bits of `tls`. The connection speaks it; this turn is a flight of the handshake; the client's part of that is over; the connection
 * is counted; what the client has sent may be an alert; the server has closed.
 */
enum { SPEAKS = 1, FLIGHT = 2, FINISHED = 4, COUNTED = 8, ALERT = 16, CLOSED = 32 };

INLINE u32 length_of(const u8 *record) { return record[3] << 8 | record[4]; }

INLINE int is_record(const u8 *at)
{
	return at[0] >= CHANGE_OF_CIPHER && at[0] <= DATA_RECORD && at[1] == 3 && at[2] <= 4 && length_of(at) - 1 < LONGEST_RECORD;
}

/* An encrypted Finished message alone: a hash of 32 or 48 bytes, 4 bytes in front, its type, and a tag of 8 or 16 bytes. */
INLINE int is_finished(u32 length) { return length == 45 || length == 53 || length == 69; }

/* Whether the turn that is over was no request. */
INLINE int speaks_tls(struct conn *conn, struct service *s, int answered)
{
	if (!(conn->tls & COUNTED))
		COUNT(s->tls);
	conn->tls |= COUNTED;
	/* Two bytes that were answered by more than an alert are a request. */
	int ends = conn->tls & ALERT && (!answered || conn->row.bytes_back <= RECORD + ALERT_RECORD);
	if (!(conn->tls & FLIGHT) && !ends)
		return 0;
	COUNT(s->handshakes);
	return 1;
}

/* A flight that the first request follows in the same turn. */
INLINE void over(struct conn *conn)
{
	u32 number = conn->service - 1;
	struct service *s = map_lookup(&services, &number);
	if (s)
		speaks_tls(conn, s, 0);
	conn->out_of_turn = conn->signs = 0;
}

/* Whether these bytes are of the client's handshake alone. */
INLINE int is_flight(struct conn *conn, const u8 *head, u64 bytes)
{
	if (head[0] == HANDSHAKE)
		return 1;
	u64 at = head[0] == CHANGE_OF_CIPHER ? CHANGE : 0;
	u32 kind = head[0], length = length_of(head), next = head[CHANGE], next_length = length_of(head + CHANGE);
	/* Else the compiler chooses between pointers in a way that the verifier does not follow. */
	asm volatile("" : "+r"(kind), "+r"(length), "+r"(next), "+r"(next_length));
	if (at) {
		kind = next;
		length = next_length;
	}
	if (at && (bytes <= CHANGE || kind == HANDSHAKE))
		return 1;
	if (kind != DATA_RECORD || conn->tls & FINISHED)
		return 0;
	/* A certificate may come first. */
	if (at && !is_finished(length))
		return 1;
	conn->tls |= is_finished(length) ? FINISHED : 0;
	return is_finished(length) && bytes <= at + RECORD + length;
}

/* The first bytes of a send call. Whether a request begins with them, although a turn is under way. */
NOINLINE int looks_at(struct conn *conn, u32 role, u32 idle, struct msghdr *msg)
{
	u8 head[16] = {};
	struct buffer buffer;
	buffer_of(msg, 0, &buffer);
	u64 bytes = msg->msg_iter.count;
	u32 known = buffer.bytes < CHANGE + RECORD ? buffer.bytes : CHANGE + RECORD;
	asm volatile("" : "+r"(known));
	if (known > CHANGE + RECORD || read_user(head, known, (void *)buffer.at))
		return 0;
	if (role == SERVER) {
		/* The client's part was not seen: it is on another host. */
		if (!conn->tls && conn->far && conn->phase == SENDING && head[0] == HANDSHAKE && is_record(head) && head[5] == 2)
			conn->tls = SPEAKS;
		if (conn->tls && !conn->row.head[0] && (head[0] == HANDSHAKE || head[0] == CHANGE_OF_CIPHER))
			conn->tls |= FLIGHT;
		int closes = head[0] == ALERTS || (head[0] == DATA_RECORD && bytes == RECORD + ALERT_RECORD);
		if (conn->tls && closes && (conn->phase == ANSWERED || conn->phase == IDLE))
			conn->tls |= CLOSED;
		return 0;
	}
	if (!conn->tls) {
		if (idle && *(u64 *)head == 0x5448202a20495250ull /* PRI * HT */) {
			conn->http2 = 1;
			conn->paired = conn->logged;
		}
		int hello = head[0] == HANDSHAKE && head[5] == 1;
		/* One that is older begins with data. */
		int older = head[0] == DATA_RECORD && head[2] == 3 && bytes >= RECORD + length_of(head);
		if (!idle || !is_record(head) || (!hello && !older))
			return 0;
		conn->tls = SPEAKS | (hello ? 0 : FINISHED);
		conn->logged = conn->paired = 0;
	}
	if (!is_record(head))
		return 0;
	int was = conn->tls & FLIGHT, flight = is_flight(conn, head, bytes);
	if (head[0] == ALERTS || (head[0] == DATA_RECORD && bytes == RECORD + ALERT_RECORD))
		conn->tls |= idle ? ALERT : 0;
	if (flight && idle)
		conn->tls |= FLIGHT;
	return !idle && was && !flight && head[0] != ALERTS;
}
