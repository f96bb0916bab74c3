//! Hand-written plans of version 2, each right.

use serde_json::{Value, json};

/// One rank: threadblocks that all know all channels and remote buffers of the rank, under the gpu's own numbers.
pub struct Rank {
    pub chunks: [u32; 3],
    pub tbs: Vec<Vec<Value>>,
    /// Memory and port channels: the peer of each.
    pub memory: Vec<u32>,
    pub port: Vec<u32>,
    /// Buffer and ranks.
    pub switches: Vec<(&'static str, Vec<u32>)>,
    /// Rank and buffer; reachable by both types.
    pub remotes: Vec<(u32, &'static str)>,
    pub semaphores: Vec<u32>,
}

pub fn plan(name: &str, collective: &str, in_place: bool, double: bool, ranks: Vec<Rank>) -> Value {
    let packets = if double { "LL" } else { "Simple" };
    let gpus: Vec<Value> = ranks
        .into_iter()
        .enumerate()
        .map(|(id, rank)| {
            let all = |n: usize| (0..n).collect::<Vec<_>>();
            let switches = rank.switches.len();
            let tbs: Vec<Value> = rank
                .tbs
                .into_iter()
                .enumerate()
                .map(|(id, ops)| {
                    json!({
                        "id": id, "ops": ops,
                        "channels": [
                            {"channel_type": "memory", "channel_ids": all(rank.memory.len())},
                            {"channel_type": "port", "channel_ids": all(rank.port.len())},
                            {"channel_type": "switch", "channel_ids": all(switches)},
                        ],
                        "remote_buffer_refs": [
                            {"access_channel_type": "memory", "remote_buffer_ids": all(rank.remotes.len())},
                            {"access_channel_type": "port", "remote_buffer_ids": all(rank.remotes.len())},
                        ],
                    })
                })
                .collect();
            let mut channels = vec![
                json!({"channel_type": "memory", "connected_to": rank.memory}),
                json!({"channel_type": "port", "connected_to": rank.port}),
            ];
            for (buffer, ranks) in &rank.switches {
                channels.push(json!({
                    "channel_type": "switch", "buffer_type": buffer, "rank_groups": [{"size": ranks.len(), "ranks": ranks}],
                }));
            }
            let remotes: Vec<Value> = rank
                .remotes
                .iter()
                .map(|(rank, kind)| json!({"rank": rank, "type": kind, "access_channel_types": ["memory", "port"]}))
                .collect();
            let semaphores: Vec<Value> = rank.semaphores.iter().map(|init| json!({"init_value": init})).collect();
            json!({
                "id": id, "input_chunks": rank.chunks[0], "output_chunks": rank.chunks[1], "scratch_chunks": rank.chunks[2],
                "threadblocks": tbs, "channels": channels, "remote_buffers": remotes, "semaphores": semaphores,
            })
        })
        .collect();
    json!({
        "name": name, "collective": collective, "protocol": packets, "inplace": in_place, "reuse_resources": false,
        "use_double_scratch_buffer": double, "gpus": gpus,
    })
}

pub fn here(buffer: &str, index: u32, size: u32) -> Value {
    json!({"type": buffer, "index": index, "size": size})
}

pub fn there(id: u32, index: u32, size: u32) -> Value {
    json!({"buffer_id": id, "index": index, "size": size})
}

pub fn multi(index: u32, size: u32) -> Value {
    json!({"switch_channel_id": 0, "index": index, "size": size})
}

pub fn nop() -> Value {
    json!({"name": "nop"})
}

pub fn sync(name: &str, kind: &str, ids: &[u32]) -> Value {
    json!({"name": name, "channel_type": kind, "channel_ids": ids})
}

pub fn semaphore(name: &str, id: u32) -> Value {
    json!({"name": name, "semaphore_ids": [id]})
}

pub fn data(name: &str, kind: &str, sources: Vec<Value>, targets: Vec<Value>) -> Value {
    json!({"name": name, "channel_type": kind, "src_buff": sources, "dst_buff": targets})
}

pub fn local(name: &str, sources: Vec<Value>, targets: Vec<Value>) -> Value {
    json!({"name": name, "src_buff": sources, "dst_buff": targets})
}

fn peers(n: u32, rank: u32) -> Vec<u32> {
    (0..n).filter(|&peer| peer != rank).collect()
}

fn numbers(n: u32) -> Vec<u32> {
    (0..n - 1).collect()
}

fn handshake(n: u32) -> Vec<Value> {
    vec![sync("rlxsignal", "memory", &numbers(n)), sync("rlxwait", "memory", &numbers(n)), nop()]
}

fn blank(chunks: [u32; 3], n: u32, rank: u32, buffer: &'static str) -> Rank {
    Rank {
        chunks,
        tbs: Vec::new(),
        memory: peers(n, rank),
        port: peers(n, rank),
        switches: Vec::new(),
        remotes: peers(n, rank).into_iter().map(|peer| (peer, buffer)).collect(),
        semaphores: Vec::new(),
    }
}

/// Every rank puts its input into every output, and signals.
pub fn allgather_memory(n: u32) -> Value {
    let rank = |r: u32| {
        let mut rank = blank([1, n, 0], n, r, "o");
        let mut ops = handshake(n);
        ops.push(local("copy", vec![here("i", 0, 1)], vec![here("o", r, 1)]));
        let sources = numbers(n).iter().map(|_| here("i", 0, 1)).collect();
        let targets = numbers(n).into_iter().map(|id| there(id, r, 1)).collect();
        ops.push(data("put", "memory", sources, targets));
        ops.extend([nop(), sync("signal", "memory", &numbers(n)), sync("wait", "memory", &numbers(n)), nop()]);
        rank.tbs.push(ops);
        rank
    };
    plan("allgather_memory", "allgather", false, false, (0..n).map(rank).collect())
}

/// The same over ports, in place.
pub fn allgather_port(n: u32) -> Value {
    let rank = |r: u32| {
        let mut rank = blank([1, n, 0], n, r, "o");
        let mut ops = handshake(n);
        let sources = numbers(n).iter().map(|_| here("o", r, 1)).collect();
        let targets = numbers(n).into_iter().map(|id| there(id, r, 1)).collect();
        let mut put = data("pwsf", "port", sources, targets);
        put["channel_ids"] = json!(numbers(n));
        ops.extend([put, sync("wait", "port", &numbers(n)), nop()]);
        rank.tbs.push(ops);
        rank
    };
    plan("allgather_port", "allgather", true, false, (0..n).map(rank).collect())
}

/// One shot: packets to everybody, everybody adds.
pub fn allreduce_packets(n: u32) -> Value {
    let rank = |r: u32| {
        let mut rank = blank([1, 1, n], n, r, "s");
        let sources = numbers(n).iter().map(|_| here("i", 0, 1)).collect();
        let targets = numbers(n).into_iter().map(|id| there(id, r, 1)).collect();
        let mut parts = vec![here("i", 0, 1)];
        parts.extend(peers(n, r).into_iter().map(|peer| here("s", peer, 1)));
        let ops = vec![data("ppkt", "memory", sources, targets), local("repkt", parts, vec![here("i", 0, 1)])];
        rank.tbs.push(ops);
        rank
    };
    plan("allreduce_packets", "allreduce", true, true, (0..n).map(rank).collect())
}

/// Each rank reads its chunk everywhere, adds, and writes it everywhere.
pub fn allreduce_rres(n: u32) -> Value {
    let rank = |r: u32| {
        let mut rank = blank([n, n, 0], n, r, "i");
        let mut ops = handshake(n);
        let mut sources = vec![here("i", r, 1)];
        sources.extend(numbers(n).into_iter().map(|id| there(id, r, 1)));
        ops.push(data("rres", "memory", sources.clone(), sources));
        ops.extend([nop(), sync("signal", "memory", &numbers(n)), sync("wait", "memory", &numbers(n)), nop()]);
        rank.tbs.push(ops);
        rank
    };
    plan("allreduce_rres", "allreduce", true, false, (0..n).map(rank).collect())
}

/// Multicast, in a pipeline or not.
pub fn allreduce_switch(n: u32, pipeline: bool) -> Value {
    let rank = |r: u32| {
        let mut rank = blank([n, n, 0], n, r, "i");
        rank.switches.push(("i", (0..n).collect()));
        let mut ops = handshake(n);
        let glres = data("glres", "switch", vec![multi(r, 1)], vec![multi(r, 1)]);
        ops.push(if pipeline {
            json!({"name": "pipeline", "iter_context": {"unit_size": 1024, "num_chunks": 1}, "ops": [glres]})
        } else {
            glres
        });
        ops.extend([nop(), sync("signal", "memory", &numbers(n)), sync("wait", "memory", &numbers(n)), nop()]);
        rank.tbs.push(ops);
        rank
    };
    plan("allreduce_switch", "allreduce", true, false, (0..n).map(rank).collect())
}

/// Data goes through scratch of the receiver; a second threadblock takes it from there.
pub fn allgather_semaphore() -> Value {
    let rank = |r: u32| {
        let mut rank = blank([1, 2, 1], 2, r, "s");
        rank.semaphores.push(0);
        let mut ops = handshake(2);
        ops.push(data("put", "memory", vec![here("i", 0, 1)], vec![there(0, 0, 1)]));
        ops.extend([
            nop(),
            sync("signal", "memory", &[0]),
            sync("wait", "memory", &[0]),
            nop(),
            semaphore("sem_release", 0),
        ]);
        rank.tbs.push(ops);
        rank.tbs.push(vec![
            local("copy", vec![here("i", 0, 1)], vec![here("o", r, 1)]),
            semaphore("sem_acquire", 0),
            nop(),
            local("copy", vec![here("s", 0, 1)], vec![here("o", 1 - r, 1)]),
        ]);
        rank
    };
    plan("allgather_semaphore", "allgather", false, false, (0..2).map(rank).collect())
}

/// A pipeline of two threadblocks: one fills scratch at the peer, the other empties it.
pub fn allgather_pipeline() -> Value {
    let rank = |r: u32| {
        let mut rank = blank([1, 2, 1], 2, r, "s");
        let turn = |ops: Vec<Value>| json!({"name": "pipeline", "iter_context": {"unit_size": 1024, "num_chunks": 1}, "ops": ops});
        let mut ops = handshake(2);
        ops.push(turn(vec![
            data("put", "memory", vec![here("i", 0, 1)], vec![there(0, 0, 1)]),
            nop(),
            sync("signal", "memory", &[0]),
        ]));
        rank.tbs.push(ops);
        rank.tbs.push(vec![
            local("copy", vec![here("i", 0, 1)], vec![here("o", r, 1)]),
            turn(vec![
                sync("wait", "memory", &[1]),
                nop(),
                local("copy", vec![here("s", 0, 1)], vec![here("o", 1 - r, 1)]),
            ]),
        ]);
        // The second pair of channels, so that each counter has one waiting threadblock.
        rank.memory = vec![1 - r, 1 - r];
        rank.tbs[0][3]["ops"][2]["channel_ids"] = json!([1]);
        // The peer may read only what was sent to it in this call: end together.
        rank.tbs[1].extend([nop(), json!({"name": "barrier", "barrier_id": 0, "num_threadblocks": 2})]);
        rank.tbs[0].extend([
            json!({"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}),
            sync("signal", "memory", &[0]),
            sync("wait", "memory", &[0]),
        ]);
        rank
    };
    plan("allgather_pipeline", "allgather", false, false, (0..2).map(rank).collect())
}

/// Two threadblocks share each operand.
pub fn allgather_group() -> Value {
    let rank = |r: u32| {
        let mut rank = blank([1, 2, 0], 2, r, "o");
        rank.memory = vec![1 - r, 1 - r];
        for tb in 0..2 {
            let mut put = data("put", "memory", vec![here("i", 0, 1)], vec![there(0, r, 1)]);
            put["tbg_info"] = json!({"tb_id": tb, "tbg_size": 2});
            let mut copy = local("copy", vec![here("i", 0, 1)], vec![here("o", r, 1)]);
            copy["tbg_info"] = json!({"tb_id": tb, "tbg_size": 2});
            rank.tbs.push(vec![
                sync("rlxsignal", "memory", &[tb]),
                sync("rlxwait", "memory", &[tb]),
                nop(),
                put,
                copy,
                nop(),
                sync("signal", "memory", &[tb]),
                sync("wait", "memory", &[tb]),
            ]);
        }
        rank
    };
    plan("allgather_group", "allgather", false, false, (0..2).map(rank).collect())
}

/// Reads everything from the peer; the barrier joins the threadblocks before the end is signalled.
pub fn allgather_get() -> Value {
    let rank = |r: u32| {
        let mut rank = blank([2, 4, 0], 2, r, "i");
        let barrier = || json!({"name": "barrier", "barrier_id": 3, "num_threadblocks": 2});
        let mut first = handshake(2);
        first.extend([
            barrier(),
            local("copy", vec![here("i", 0, 2)], vec![here("o", 2 * r, 2)]),
            barrier(),
            sync("signal", "memory", &[0]),
            sync("wait", "memory", &[0]),
        ]);
        // Rank 1's data lies at other offsets in the output, so it goes through a reading reduction of nothing else: `get`
        // with equal offsets is right for rank 1 only.
        let base = 2 * (1 - r);
        let reads = if base == 0 {
            data("get", "memory", vec![there(0, 0, 2)], vec![here("o", 0, 2)])
        } else {
            data("get", "memory", vec![there(1, 2, 2)], vec![here("o", 2, 2)])
        };
        rank.remotes.push((1 - r, "o"));
        rank.tbs.push(first);
        rank.tbs.push(if base == 0 {
            vec![barrier(), reads, barrier()]
        } else {
            vec![barrier(), nop(), reads, barrier()]
        });
        rank
    };
    let mut plan = plan("allgather_get", "allgather", true, false, (0..2).map(rank).collect());
    // In place: the own part lies in the output already.
    for gpu in plan["gpus"].as_array_mut().unwrap() {
        let ops = gpu["threadblocks"][0]["ops"].as_array_mut().unwrap();
        ops.retain(|op| op["name"] != "copy");
        gpu["remote_buffers"][0]["type"] = json!("o");
    }
    plan
}

/// Two threadblocks fill scratch and release one semaphore; a third waits for both.
pub fn allgather_crowd() -> Value {
    let rank = |r: u32| {
        let mut rank = blank([2, 4, 2], 2, r, "s");
        rank.semaphores.push(0);
        rank.memory = vec![1 - r, 1 - r];
        for tb in 0..2 {
            rank.tbs.push(vec![
                sync("rlxsignal", "memory", &[tb]),
                sync("rlxwait", "memory", &[tb]),
                nop(),
                data("put", "memory", vec![here("i", tb, 1)], vec![there(0, tb, 1)]),
                nop(),
                sync("signal", "memory", &[tb]),
                sync("wait", "memory", &[tb]),
                nop(),
                semaphore("sem_release", 0),
            ]);
        }
        rank.tbs.push(vec![
            local("copy", vec![here("i", 0, 2)], vec![here("o", 2 * r, 2)]),
            semaphore("sem_acquire", 0),
            semaphore("sem_acquire", 0),
            nop(),
            local("copy", vec![here("s", 0, 2)], vec![here("o", 2 * (1 - r), 2)]),
        ]);
        rank
    };
    plan("allgather_crowd", "allgather", false, false, (0..2).map(rank).collect())
}

/// As `allgather_crowd`, but the third threadblock waits for one of the two, whichever comes first. If these met before they
/// release the semaphore, either is enough; if not, neither is.
pub fn allgather_either(meet: bool) -> Value {
    let mut plan = allgather_crowd();
    plan["name"] = json!("allgather_either");
    for rank in 0..2 {
        let tbs = plan.pointer_mut(&format!("/gpus/{rank}/threadblocks")).unwrap().as_array_mut().unwrap();
        for tb in &mut tbs[..2] {
            let nop = &mut tb["ops"][7];
            assert_eq!(nop["name"], "nop");
            if meet {
                *nop = json!({"name": "barrier", "barrier_id": 0, "num_threadblocks": 2});
            }
        }
        let ops = tbs[2]["ops"].as_array_mut().unwrap();
        let later = ops.remove(2);
        ops.extend([nop(), later]);
    }
    plan
}

/// Rank 0 sends packets, rank 1 adds, keeps a copy as packets and sends the sum back.
pub fn allreduce_copy_packets() -> Value {
    let rank = |r: u32| {
        let mut rank = blank([1, 1, 2], 2, r, "s");
        rank.tbs.push(if r == 0 {
            vec![
                data("ppkt", "memory", vec![here("i", 0, 1)], vec![there(0, 0, 1)]),
                local("upkt", vec![here("s", 1, 1)], vec![here("i", 0, 1)]),
            ]
        } else {
            let targets = vec![here("i", 0, 1), here("s", 1, 1), there(0, 1, 1)];
            vec![data("recspkt", "memory", vec![here("i", 0, 1), here("s", 0, 1)], targets)]
        });
        rank
    };
    plan("allreduce_copy_packets", "allreduce", true, true, (0..2).map(rank).collect())
}

/// Each rank sends the other's half to its scratch, which adds it.
pub fn reducescatter() -> Value {
    let rank = |r: u32| {
        let mut rank = blank([2, 1, 1], 2, r, "s");
        let mut ops = handshake(2);
        ops.push(data("put", "memory", vec![here("i", 1 - r, 1)], vec![there(0, 0, 1)]));
        ops.extend([nop(), sync("signal", "memory", &[0]), sync("wait", "memory", &[0]), nop()]);
        ops.push(local("re", vec![here("i", r, 1), here("s", 0, 1)], vec![here("o", 0, 1)]));
        rank.tbs.push(ops);
        rank
    };
    plan("reducescatter", "reducescatter", false, false, (0..2).map(rank).collect())
}

/// The same, and the sum goes back at once.
pub fn allreduce_res() -> Value {
    let rank = |r: u32| {
        let mut rank = blank([2, 2, 1], 2, r, "s");
        rank.remotes.push((1 - r, "i"));
        let mut ops = handshake(2);
        ops.push(data("put", "memory", vec![here("i", 1 - r, 1)], vec![there(0, 0, 1)]));
        ops.extend([nop(), sync("signal", "memory", &[0]), sync("wait", "memory", &[0]), nop()]);
        let sources = vec![here("i", r, 1), here("s", 0, 1)];
        ops.push(data("res", "memory", sources, vec![here("i", r, 1), there(1, r, 1)]));
        ops.extend([nop(), sync("signal", "memory", &[0]), sync("wait", "memory", &[0])]);
        rank.tbs.push(ops);
        rank
    };
    plan("allreduce_res", "allreduce", true, false, (0..2).map(rank).collect())
}

/// Everybody puts to everybody.
pub fn alltoall(n: u32) -> Value {
    let rank = |r: u32| {
        let mut rank = blank([n, n, 0], n, r, "o");
        let mut ops = handshake(n);
        ops.push(local("copy", vec![here("i", r, 1)], vec![here("o", r, 1)]));
        let sources = peers(n, r).into_iter().map(|peer| here("i", peer, 1)).collect();
        let targets = numbers(n).into_iter().map(|id| there(id, r, 1)).collect();
        ops.push(data("put", "memory", sources, targets));
        ops.extend([nop(), sync("signal", "memory", &numbers(n)), sync("wait", "memory", &numbers(n))]);
        rank.tbs.push(ops);
        rank
    };
    plan("alltoall", "alltoall", false, false, (0..n).map(rank).collect())
}

/// A multicast store.
pub fn allgather_gstore() -> Value {
    let rank = |r: u32| {
        let mut rank = blank([1, 2, 0], 2, r, "o");
        rank.switches.push(("o", vec![0, 1]));
        let mut ops = handshake(2);
        ops.push(data("gstore", "switch", vec![here("i", 0, 1)], vec![multi(r, 1)]));
        ops.extend([nop(), sync("signal", "memory", &[0]), sync("wait", "memory", &[0])]);
        rank.tbs.push(ops);
        rank
    };
    plan("allgather_gstore", "allgather", false, false, (0..2).map(rank).collect())
}

/// Packets are made in scratch and sent by the port.
pub fn allgather_port_packets() -> Value {
    let rank = |r: u32| {
        let mut rank = blank([1, 2, 2], 2, r, "s");
        let mut send = data("ppkt", "port", vec![here("s", 0, 1)], vec![there(0, 1, 1)]);
        send["channel_ids"] = json!([0]);
        rank.tbs.push(vec![
            local("cpkt", vec![here("i", 0, 1)], vec![here("s", 0, 1)]),
            nop(),
            send,
            local("copy", vec![here("i", 0, 1)], vec![here("o", r, 1)]),
            local("upkt", vec![here("s", 1, 1)], vec![here("o", 1 - r, 1)]),
        ]);
        rank
    };
    plan("allgather_port_packets", "allgather", false, true, (0..2).map(rank).collect())
}

/// Promises nothing and moves nothing.
pub fn safety_only() -> Value {
    let rank = |r: u32| {
        let mut rank = blank([1, 1, 0], 2, r, "o");
        rank.tbs.push(vec![nop()]);
        rank
    };
    plan("safety_only", "test", false, false, (0..2).map(rank).collect())
}

/// All of them.
pub fn all() -> Vec<Value> {
    vec![
        allgather_memory(2),
        allgather_memory(3),
        allgather_port(2),
        allgather_port(3),
        allreduce_packets(2),
        allreduce_packets(3),
        allreduce_rres(2),
        allreduce_rres(3),
        allreduce_switch(2, false),
        allreduce_switch(3, true),
        allgather_semaphore(),
        allgather_crowd(),
        allgather_pipeline(),
        allgather_group(),
        allgather_get(),
        allreduce_copy_packets(),
        reducescatter(),
        allreduce_res(),
        alltoall(2),
        alltoall(3),
        allgather_gstore(),
        allgather_port_packets(),
    ]
}
