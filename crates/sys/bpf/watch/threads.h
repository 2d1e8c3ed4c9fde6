/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What threads do: running totals, and copies of them that fit together. */
#pragma once
#include "types.h"

INLINE struct thread *thread_of(s32 pid)
{
	u32 word = (u32)pid / 4;
	u64 *four = pid > 0 ? map_lookup(&places, &word) : 0;
	u32 place = four ? *four >> (u32)pid % 4 * 16 & 0xffff : 0;
	return place ? map_lookup(&threads, &place) : 0;
}

/* Makes a place that of a thread, or takes it away. */
INLINE void set_place(s32 pid, u64 place, int on)
{
	u32 word = (u32)pid / 4, shift = (u32)pid % 4 * 16;
	u64 *four = map_lookup(&places, &word);
	if (!four)
		return;
	if (on)
		__sync_fetch_and_or(four, place << shift);
	else
		__sync_fetch_and_and(four, ~(0xffffull << shift));
}

/* The current thread, known from now on. */
NOINLINE struct thread *own(struct control *c)
{
	s32 pid = CURRENT;
	struct thread *t = thread_of(pid);
	if (t || pid <= 0)
		return t;
	for (int tries = 0; tries < 16; tries++) {
		u32 place = COUNT(c->next_thread) % THREADS;
		t = place ? map_lookup(&threads, &place) : 0;
		if (!t || __sync_val_compare_and_swap(&t->pid, 0, pid))
			continue;
		__builtin_memset(&t->seq, 0, sizeof(*t) - __builtin_offsetof(struct thread, seq));
		t->state = ON_CPU;
		t->since = monotonic_ns();
		t->tgid = PROCESS;
		current_name(t->name, sizeof(t->name));
		set_place(pid, place, 1);
		return t;
	}
	COUNT(c->no_room);
	return 0;
}

INLINE void forget(struct thread *t, s32 pid)
{
	set_place(pid, 0, 0);
	t->pid = 0;
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

/* The totals up to now, as they are. The mark's time is that of the totals. */
INLINE void copy_totals(struct thread *t, struct mark *m, u64 now)
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

/* The same of a thread that may be changing: 0 where it always was. */
INLINE int mark_other(struct thread *t, struct mark *m, u64 now)
{
	for (int tries = 0; tries < 4; tries++) {
		u64 seq = __sync_fetch_and_add(&t->seq, 0);
		if (seq & 1)
			continue;
		copy_totals(t, m, now);
		if (__sync_fetch_and_add(&t->seq, 0) == seq)
			return 1;
	}
	return 0;
}

/* Of the current thread, which only interrupts change meanwhile, on this CPU: nothing but the compiler must be kept in order. */
INLINE void mark_own(struct thread *t, struct mark *m, u64 now)
{
	for (int tries = 0; tries < 4; tries++) {
		u64 seq = *(volatile u64 *)&t->seq;
		asm volatile("" ::: "memory");
		copy_totals(t, m, now);
		asm volatile("" ::: "memory");
		if (*(volatile u64 *)&t->seq == seq)
			return;
	}
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
INLINE void parts_of(u64 *parts, const struct mark *from, const struct mark *to, struct row *row)
{
	parts[0] = blocked(from, to, row);
	parts[1] = between(from, to, WAKING, row);
	parts[2] = between(from, to, RUNNABLE, row);
	parts[3] = between(from, to, ON_CPU, row) + between(from, to, INTERRUPT, row) + between(from, to, PAGING, row);
}

/* The thread did something on this connection: what it did before on another one is over. Totals are up to date in `m`. */
INLINE void did(struct thread *t, u64 conn, u32 role, const struct mark *m)
{
	struct last *last = &t->last[role & 1];
	last->conn = conn;
	last->at = *m;
}
