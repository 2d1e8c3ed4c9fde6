/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What threads do: running totals, and copies of them that fit together. */
#pragma once
#include "types.h"

/* Whatever is known of it, be it from an earlier window. */
INLINE struct thread *place_of(s32 pid)
{
	u32 word = (u32)pid / 4;
	u64 *four = pid > 0 ? map_lookup(&places, &word) : 0;
	u32 place = four ? *four >> (u32)pid % 4 * 16 & 0xffff : 0;
	return place ? map_lookup(&threads, &place) : 0;
}

/* Known since this window began. */
INLINE struct thread *thread_of(s32 pid)
{
	u32 zero = 0;
	struct control *c = map_lookup(&control, &zero);
	struct thread *t = place_of(pid);
	return c && t && t->window == c->window ? t : 0;
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

/* Where the kernel keeps it. */
INLINE int tells_steal(void)
{
	struct cfs_rq *queue = 0;
	struct rq *rq = 0;
	return EXISTS(queue->rq) && EXISTS(rq->prev_steal_time_rq);
}

/*
 * What the hypervisor has taken so far of the CPU on which this task is, as the kernel has seen it: it looks at every switch, at
 * every tick, and where a task becomes runnable there. 0 where it does not.
 */
INLINE u64 steal_of(struct task_struct *task)
{
	if (!tells_steal())
		return 0;
	struct cfs_rq *queue = task->se.cfs_rq;
	struct rq *rq = queue ? queue->rq : 0;
	return rq ? rq->prev_steal_time_rq : 0;
}

/* How long the run queue of a task has stood still because a quota was used up. */
INLINE u64 throttled_of(struct task_struct *task)
{
	struct cfs_rq *queue = task->se.cfs_rq;
	if (!queue)
		return 0;
	if (EXISTS(queue->throttled_clock_self_time))
		return queue->throttled_clock_self_time;
	if (EXISTS(queue->throttled_clock_pelt_time))
		return queue->throttled_clock_pelt_time;
	if (EXISTS(queue->throttled_clock_task_time))
		return queue->throttled_clock_task_time;
	return 0;
}

/* It waits for a CPU from now on. */
INLINE void begins_to_wait(struct thread *t, struct task_struct *task)
{
	t->queue = (u64)task->se.cfs_rq;
	t->throttled = throttled_of(task);
}

INLINE int was_throttled(struct thread *t, struct task_struct *task)
{
	return t->queue == (u64)task->se.cfs_rq && throttled_of(task) > t->throttled;
}

/*
 * The same of this CPU. Apart, because the verifier looks through all the kernel's types for each pointer that is followed, on each way
 * that leads there.
 */
APART u64 steal_here(void) { return steal_of(current_task()); }

NOINLINE struct thread *get_to_know(struct control *c, s32 pid)
{
	struct thread *t;
	for (int tries = 0; tries < 16; tries++) {
		u32 place = COUNT(c->next_thread) % THREADS;
		t = place ? map_lookup(&threads, &place) : 0;
		if (!t || __sync_val_compare_and_swap(&t->pid, 0, pid))
			continue;
		__builtin_memset(&t->seq, 0, sizeof(*t) - __builtin_offsetof(struct thread, seq));
		t->state = ON_CPU;
		t->since = monotonic_ns();
		t->history[t->changes++ % HISTORY] = t->since << PART_BITS | RAN;
		t->tgid = PROCESS;
		t->stolen = steal_here();
		t->window = c->window;
		current_name(t->name, sizeof(t->name));
		set_place(pid, place, 1);
		return t;
	}
	COUNT(c->no_room);
	return 0;
}

INLINE int lock(struct thread *t);
INLINE void unlock(struct thread *t);

/* What it did between two windows nobody saw. It has a CPU now. 0: it is changing. */
NOINLINE struct thread *known_from(struct thread *t, u32 window, u64 stolen, u64 now)
{
	s32 process = t->tgid;
	if (!lock(t))
		return 0;
	__builtin_memset(&t->since, 0, __builtin_offsetof(struct thread, window) - __builtin_offsetof(struct thread, since));
	__builtin_memset(t->history, 0, sizeof(t->history));
	t->tgid = process;
	t->state = ON_CPU;
	t->since = now;
	t->stolen = stolen;
	t->history[t->changes++ % HISTORY] = now << PART_BITS | RAN;
	t->window = window;
	unlock(t);
	return t;
}

/* The current thread, known from now on. */
INLINE struct thread *own(struct control *c)
{
	s32 pid = CURRENT;
	struct thread *t = place_of(pid);
	if (t && t->window != c->window)
		return known_from(t, c->window, steal_here(), monotonic_ns());
	return t || pid <= 0 ? t : get_to_know(c, pid);
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

INLINE u32 part_of(u32 state)
{
	return state == STOPPED ? HALTED : state >= POLL ? BLOCKED : state == WAKING ? WOKEN : state == RUNNABLE ? QUEUED : RAN;
}

/* Begins a new state. Where the thread is locked. */
INLINE void go(struct thread *t, u32 state, u64 now)
{
	u32 old = t->state, part = part_of(state);
	if (old < KINDS && now > t->since)
		t->ns[old] += now - t->since;
	if (now > t->since)
		t->since = now;
	t->state = state;
	if (part != part_of(old))
		t->history[t->changes++ % HISTORY] = t->since << PART_BITS | part;
}

/*
 * Takes from the time on the CPU what the hypervisor took of it. Where the kernel has seen that late, as much as is not copied yet: no
 * copy must be larger than a later one. Where the thread is locked.
 */
INLINE void take_stolen(struct thread *t, u64 stolen, u64 now)
{
	u64 taken = stolen > t->stolen ? stolen - t->stolen : 0;
	u64 open = t->state == ON_CPU && now > t->since ? now - t->since : 0;
	s64 whole = t->ns[ON_CPU] + open - t->copied;
	t->stolen = stolen;
	if (whole <= 0)
		return;
	if (taken > (u64)whole)
		taken = whole;
	/* Of an open interval this may be less than nothing, until the interval is added. */
	t->ns[ON_CPU] -= taken;
	t->ns[STOLEN] += taken;
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

/* Waits for whoever is changing the thread: as long as one that is not held up takes for it. */
INLINE u64 settled(struct thread *t)
{
	u64 seq = 1;
	for (int looks = 0; looks < 64 && seq & 1; looks++)
		seq = __sync_fetch_and_add(&t->seq, 0);
	return seq;
}

/* The same of a thread that may be changing: 0 where it always was. */
INLINE int mark_other(struct thread *t, struct mark *m, u64 now)
{
	for (int tries = 0; tries < 4; tries++) {
		u64 seq = settled(t);
		if (seq & 1)
			continue;
		copy_totals(t, m, now);
		if (__sync_fetch_and_add(&t->seq, 0) == seq) {
			t->copied = m->ns[ON_CPU];
			return 1;
		}
	}
	return 0;
}

/* Of the current thread, which only interrupts change meanwhile, on this CPU: nothing but the compiler must be kept in order. */
INLINE void mark_own(struct thread *t, struct mark *m, u64 now)
{
	u64 stolen = steal_here();
	if (stolen != t->stolen && lock(t)) {
		take_stolen(t, stolen, now);
		unlock(t);
	}
	for (int tries = 0; tries < 4; tries++) {
		u64 seq = *(volatile u64 *)&t->seq;
		asm volatile("" ::: "memory");
		copy_totals(t, m, now);
		asm volatile("" ::: "memory");
		if (*(volatile u64 *)&t->seq == seq) {
			t->copied = m->ns[ON_CPU];
			return;
		}
	}
}

/* What a thread did between two marks, of a kind. A total that went back, which makes a row worthless, leaves `wrong` below 0. */
INLINE u64 between(const struct mark *from, const struct mark *to, int kind, s64 *wrong)
{
	s64 ns = to->ns[kind] - from->ns[kind];
	*wrong |= ns;
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

/*
 * What the current thread did between two moments of which the later one is now, added to `parts`. Returned is what nobody knows: more
 * has happened since than is remembered, or the thread was not known yet.
 */
INLINE u64 did_since(struct thread *t, u64 from, u64 to, u64 *parts)
{
	for (u32 i = 1; i <= HISTORY && to > from; i++) {
		u64 change = t->history[(t->changes - i) % HISTORY];
		if (!change)
			break;
		u64 begun = change >> PART_BITS > from ? change >> PART_BITS : from;
		u32 part = change & ((1 << PART_BITS) - 1);
		if (begun < to && part < PARTS_OF_TIME) {
			parts[part] += to - begun;
			to = begun;
		}
	}
	return to > from ? to - from : 0;
}

/* The thread did something on this connection: what it did before on another one is over. */
INLINE void did(struct thread *t, u64 conn, u32 role, u64 now)
{
	struct last *last = &t->last[role & 1];
	last->conn = conn;
	last->t = now;
	if (role != SERVER || !(t->put_off | t->takes_over))
		return;
	mark_own(t, &t->served, now);
	if (t->takes_over)
		t->block.ns = t->run.ns = 0;
}
