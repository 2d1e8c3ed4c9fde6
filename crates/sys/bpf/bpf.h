/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the objects here need of the BPF interface and of the kernel's types. No header of a library is included, so that an object
 * does not depend on the version of somebody's library.
 */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef short s16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))
/* Checked by the verifier once, for whatever numbers it is called with, and not anew for each call. */
#define APART __attribute__((noinline))
#define UNROLL _Pragma("unroll")

/* Helper functions, by their numbers in the kernel's interface. */
#define HELPER __attribute__((unused)) static
HELPER void *(*map_lookup)(void *map, const void *key) = (void *)1;
HELPER long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
HELPER long (*map_delete)(void *map, const void *key) = (void *)3;
HELPER u64 (*monotonic_ns)(void) = (void *)5;
HELPER u32 (*this_cpu)(void) = (void *)8;
HELPER u64 (*process_and_thread)(void) = (void *)14;
HELPER long (*current_name)(void *name, u32 size) = (void *)16;
HELPER void *(*socket_storage)(void *map, void *sk, void *value, u64 flags) = (void *)107;
HELPER long (*read_user)(void *to, u32 size, const void *from) = (void *)112;
HELPER long (*read_kernel)(void *to, u32 size, const void *from) = (void *)113;
HELPER u64 (*ancestor_cgroup)(int level) = (void *)123;
HELPER long (*ring_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
HELPER u64 (*ring_query)(void *ring, u64 what) = (void *)134;
HELPER void *(*as_tcp_socket)(void *sk) = (void *)137;
HELPER void *(*current_task)(void) = (void *)158;
HELPER void *(*task_registers)(void *task) = (void *)175;
HELPER void *(*as_unix_socket)(void *sk) = (void *)178;

#define ANY 0
#define NO_EXIST 1
#define STORAGE_CREATE 1
#define NO_WAKEUP 1
#define FORCE_WAKEUP 2
#define WAITING_DATA 0

/* The members of a map's definition say what they mean by their types. */
#define UINT(name, value) int (*name)[value]
#define HASH 1
#define ARRAY 2
#define PERCPU_ARRAY 6
#define LRU_HASH 9
#define SK_STORAGE 24
#define RINGBUF 27
#define NO_PREALLOC 1
#define MMAPABLE (1 << 10)

#define MAP(name, kind, flags, entries, key_type, value_type) \
	struct { UINT(type, kind); UINT(map_flags, flags); UINT(max_entries, entries); key_type *key; value_type *value; } \
	name SEC(".maps")

/* Only the members that are read; their places are relocated against the running kernel's BTF at load time. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
/* What the hypervisor took is kept with a CPU's run queue (CONFIG_PARAVIRT_TIME_ACCOUNTING), which a task's leads to. */
struct rq { u64 prev_steal_time_rq; };
/* How long a queue stood still for a quota, its own or that of a group above it; the name has changed. */
struct cfs_rq { struct rq *rq; u64 throttled_clock_self_time, throttled_clock_pelt_time, throttled_clock_task_time; };
struct sched_entity { struct cfs_rq *cfs_rq; };
struct task_struct { s32 pid; s32 tgid; u32 in_iowait : 1, frozen : 1; struct sched_entity se; char comm[16]; };
/* The state of a task was `long state` before kernel 5.14. */
struct task_struct___renamed { u32 __state; };
struct task_struct___before { long state; };
struct pt_regs___x86 { u64 orig_ax; };
struct pt_regs___arm { s32 syscallno; };
struct in6_addr { union { u32 u6_addr32[4]; } in6_u; };
typedef struct { void *net; } possible_net_t;
typedef struct { long long counter; } atomic64_t;
struct sock;
struct sk_buff { u32 len, data_len; void *data, *head; struct sock *sk; struct sk_buff *next, *prev; u16 transport_header, network_header; s32 skb_iif; };
struct sk_buff_head { struct sk_buff *prev; u32 qlen; };
struct sock_common {
	u16 skc_family;
	volatile u8 skc_state;
	u16 skc_num, skc_dport;
	u32 skc_daddr, skc_rcv_saddr;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
	possible_net_t skc_net;
	atomic64_t skc_cookie;
};
struct kernfs_node { u64 id; };
struct cgroup;
struct cgroup_subsys_state { struct cgroup *cgroup; struct cgroup_subsys_state *parent; };
struct cgroup { struct cgroup_subsys_state self; struct kernfs_node *kn; };
struct sock_cgroup_data { struct cgroup *cgroup; };
struct sock {
	struct sock_common __sk_common;
	u16 sk_protocol, sk_type;
	struct sk_buff_head sk_receive_queue;
	struct sock_cgroup_data sk_cgrp_data;
};
struct tcp_sock {
	u64 bytes_sent;
	volatile u64 bytes_received, bytes_acked;
	volatile u32 rcv_nxt, snd_una;
	u32 copied_seq, write_seq, snd_nxt, packets_out, mss_cache;
	u8 nonagle : 4;
};
struct udp_sock { struct sk_buff_head reader_queue; };
struct unix_sock { void *addr; struct sock *peer; };
struct iov_iter { u8 iter_type; u64 iov_offset; const void *ubuf; const void *__iov; u64 count; u64 nr_segs; };
struct msghdr { struct iov_iter msg_iter; };
#pragma clang attribute pop

#define EXISTS(field) __builtin_preserve_field_info(field, 2)

#define CURRENT ((s32)process_and_thread())
#define PROCESS ((s32)(process_and_thread() >> 32))
#define COUNT(counter) __sync_fetch_and_add(&(counter), 1)

/* A map of bits, 64 to an entry. */
INLINE int bit(void *map, u32 number)
{
	u32 word = number / 64;
	u64 *bits = map_lookup(map, &word);
	return bits && (*bits >> (number % 64) & 1);
}

/* The state of a task that leaves its CPU, where the tracepoint does not tell it (before kernel 5.18). */
INLINE u32 state_of(struct task_struct *task)
{
	struct task_struct___renamed *renamed = (void *)task;
	struct task_struct___before *before = (void *)task;
	if (EXISTS(renamed->__state))
		return renamed->__state;
	if (EXISTS(before->state))
		return before->state;
	return 0;
}
