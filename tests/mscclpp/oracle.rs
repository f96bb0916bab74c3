//! A small interpreter of plans that takes the JSON as it stands: threads, elements, counters, packets and ports, three calls
//! in a row, every step chosen at random. It shares nothing with Rondo. Memory is sequentially consistent, so that
//! what only relaxed operations would spoil does not show.

use std::collections::HashMap;

use serde_json::Value;

/// Elements a chunk, threads a threadblock, turns a pipeline, calls.
const ELEMENTS: u64 = 6;
const THREADS: usize = 4;
const TURNS: u64 = 2;
const CALLS: u64 = 3;

/// splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }
}

type Cell = (usize, char, u64);

/// One element-wise move: sources, targets, whether each is packets.
#[derive(Clone)]
struct Element {
    sources: Vec<(Cell, bool)>,
    targets: Vec<(Cell, bool)>,
}

#[derive(Clone)]
enum Act {
    Sync,
    Barrier(u64, usize),
    /// By thread.
    Signal(Vec<String>),
    Wait(Vec<String>),
    /// By thread.
    Move(Vec<Vec<Element>>),
    /// By thread: queue, elements, signal.
    Post(Vec<(usize, Vec<Element>, Option<String>)>),
    Flush(Vec<usize>),
}

struct Machine {
    ranks: usize,
    in_place: bool,
    collective: String,
    halves: u64,
    /// Input, output chunks.
    chunks: Vec<[u64; 2]>,
    /// By rank and threadblock.
    programs: Vec<Vec<Vec<Act>>>,
    initial: HashMap<String, u64>,
    /// By rank and port channel.
    queues: HashMap<(usize, usize), usize>,
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn token(call: u64, rank: usize, element: u64) -> u64 {
    Random((call << 48) ^ ((rank as u64) << 32) ^ element).next() | 1
}

impl Machine {
    fn new(plan: &Value) -> Self {
        let gpus = list(&plan["gpus"]);
        let mut machine = Self {
            ranks: gpus.len(),
            in_place: plan["inplace"] == true,
            collective: plan["collective"].as_str().unwrap().to_owned(),
            halves: if plan["use_double_scratch_buffer"] == true { 2 } else { 1 },
            chunks: gpus.iter().map(|gpu| [number(&gpu["input_chunks"]), number(&gpu["output_chunks"])]).collect(),
            programs: Vec::new(),
            initial: HashMap::new(),
            queues: HashMap::new(),
        };
        for (rank, gpu) in gpus.iter().enumerate() {
            for (id, semaphore) in list(&gpu["semaphores"]).iter().enumerate() {
                machine.initial.insert(format!("sem {rank} {id}"), number(&semaphore["init_value"]));
            }
            let mut programs = Vec::new();
            for tb in list(&gpu["threadblocks"]) {
                let mut acts = Vec::new();
                for op in list(&tb["ops"]) {
                    if op["name"] == "pipeline" {
                        for turn in 0..TURNS {
                            for inner in list(&op["ops"]) {
                                machine.op(rank, gpu, tb, inner, Some(turn), &mut acts);
                            }
                        }
                    } else {
                        machine.op(rank, gpu, tb, op, None, &mut acts);
                    }
                }
                programs.push(acts);
            }
            machine.programs.push(programs);
        }
        machine
    }

    /// The peers of all channels of a type, and the gpu's number of the threadblock's channel.
    fn channel(gpu: &Value, tb: &Value, kind: &str, id: usize) -> (Vec<u64>, usize) {
        let of = |value: &&Value| value["channel_type"] == kind;
        let all = list(&gpu["channels"]).iter().filter(of).flat_map(|c| list(&c["connected_to"])).map(number).collect();
        let own: Vec<u64> =
            list(&tb["channels"]).iter().filter(of).flat_map(|c| list(&c["channel_ids"])).map(number).collect();
        (all, own[id] as usize)
    }

    fn counter(rank: usize, gpu: &Value, tb: &Value, kind: &str, id: usize, waits: bool) -> String {
        let (all, number) = Self::channel(gpu, tb, kind, id);
        let peer = all[number] as usize;
        let ordinal = all[..number].iter().filter(|&&p| p as usize == peer).count();
        let (from, to) = if waits { (peer, rank) } else { (rank, peer) };
        format!("{kind} {from} {to} {ordinal}")
    }

    fn cells(rank: usize, gpu: &Value, tb: &Value, op: &Value, operand: &Value, turn: Option<u64>) -> Vec<Vec<Cell>> {
        let (mut start, mut count) = (number(&operand["index"]) * ELEMENTS, number(&operand["size"]) * ELEMENTS);
        if let Some(turn) = turn {
            count /= TURNS;
            start += turn * count;
        }
        if op["tbg_info"].is_object() {
            count /= number(&op["tbg_info"]["tbg_size"]);
            start += count * number(&op["tbg_info"]["tb_id"]);
        }
        let letter = |value: &Value| value.as_str().unwrap().chars().next().unwrap();
        let mut owners: Vec<(usize, char)> = Vec::new();
        if operand["buffer_id"].is_u64() {
            let kind = &op["channel_type"];
            let refs = list(&tb["remote_buffer_refs"]).iter().filter(|r| r["access_channel_type"] == *kind);
            let ids: Vec<u64> = refs.flat_map(|r| list(&r["remote_buffer_ids"])).map(number).collect();
            let remote = &gpu["remote_buffers"][ids[number(&operand["buffer_id"]) as usize] as usize];
            owners.push((number(&remote["rank"]) as usize, letter(&remote["type"])));
        } else if operand["switch_channel_id"].is_u64() {
            let channel = list(&gpu["channels"]).iter().find(|c| c["channel_type"] == "switch").unwrap();
            for peer in list(&channel["rank_groups"][0]["ranks"]) {
                owners.push((number(peer) as usize, letter(&channel["buffer_type"])));
            }
        } else {
            owners.push((rank, letter(&operand["type"])));
        }
        owners.into_iter().map(|(rank, letter)| (start..start + count).map(|e| (rank, letter, e)).collect()).collect()
    }

    fn op(&mut self, rank: usize, gpu: &Value, tb: &Value, op: &Value, turn: Option<u64>, acts: &mut Vec<Act>) {
        let name = op["name"].as_str().unwrap();
        let kind = op["channel_type"].as_str().unwrap_or("memory").to_owned();
        let ids: Vec<usize> = list(&op["channel_ids"]).iter().map(|id| number(id) as usize).collect();
        let side = |key: &str| -> Vec<Vec<Vec<Cell>>> {
            list(&op[key]).iter().map(|operand| Self::cells(rank, gpu, tb, op, operand, turn)).collect()
        };
        match name {
            "nop" => acts.push(Act::Sync),
            "barrier" => acts.push(Act::Barrier(number(&op["barrier_id"]), number(&op["num_threadblocks"]) as usize)),
            "signal" | "rlxsignal" if kind == "port" => {
                let posts = ids.iter().map(|&id| {
                    let (_, number) = Self::channel(gpu, tb, "port", id);
                    (self.queue(rank, number), Vec::new(), Some(Self::counter(rank, gpu, tb, "port", id, false)))
                });
                let posts = posts.collect();
                acts.push(Act::Post(posts));
            }
            "signal" | "rlxsignal" => {
                acts.push(Act::Signal(ids.iter().map(|&id| Self::counter(rank, gpu, tb, &kind, id, false)).collect()));
            }
            "wait" | "rlxwait" => {
                acts.push(Act::Wait(ids.iter().map(|&id| Self::counter(rank, gpu, tb, &kind, id, true)).collect()));
            }
            "sem_release" | "sem_acquire" => {
                let names = list(&op["semaphore_ids"]).iter().map(|id| format!("sem {rank} {id}")).collect();
                acts.push(if name == "sem_release" { Act::Signal(names) } else { Act::Wait(names) });
            }
            "flush" => {
                let queues = ids.iter().map(|&id| self.queue(rank, Self::channel(gpu, tb, "port", id).1)).collect();
                acts.push(Act::Flush(queues));
            }
            _ => {
                let (sources, targets) = (side("src_buff"), side("dst_buff"));
                let sums = name.starts_with("re") || name.starts_with("rre") || name == "rppkt";
                let source_packet = |at: usize| match name {
                    "rppkt" | "upkt" => true,
                    "repkt" | "respkt" | "recpkt" | "recspkt" => 0 < at,
                    "ppkt" => kind == "port",
                    _ => false,
                };
                let target_packet = |at: usize| match name {
                    "ppkt" | "rppkt" | "cpkt" | "gstorepkt" => true,
                    "respkt" | "recpkt" | "recspkt" => 0 < at,
                    _ => false,
                };
                let flat = |side: &[Vec<Vec<Cell>>], first: usize, packet: &dyn Fn(usize) -> bool, e: usize| {
                    side.iter()
                        .enumerate()
                        .flat_map(|(at, owners)| owners.iter().map(move |cells| (cells[e], at)))
                        .map(|(cell, at)| (cell, packet(at + first)))
                        .collect::<Vec<_>>()
                };
                let groups: Vec<(usize, std::ops::Range<usize>)> = if sums {
                    vec![(0, 0..sources.len())]
                } else {
                    (0..targets.len()).map(|at| (at, at..at + 1)).collect()
                };
                let mut moves: Vec<Vec<Element>> = Vec::new();
                for (first, range) in groups {
                    let own = if sums { 0..targets.len() } else { range.clone() };
                    let count = targets[first][0].len();
                    let elements = (0..count).map(|e| Element {
                        sources: flat(&sources[range.clone()], range.start, &source_packet, e),
                        targets: flat(&targets[own.clone()], own.start, &target_packet, e),
                    });
                    moves.push(elements.collect());
                }
                if kind == "port" {
                    let signals = name.starts_with("pws");
                    let posts: Vec<_> = moves
                        .into_iter()
                        .zip(&ids)
                        .map(|(elements, &id)| {
                            let queue = self.queue(rank, Self::channel(gpu, tb, "port", id).1);
                            (queue, elements, signals.then(|| Self::counter(rank, gpu, tb, "port", id, false)))
                        })
                        .collect();
                    let queues = posts.iter().map(|post| post.0).collect();
                    acts.push(Act::Post(posts));
                    if name == "pwsf" {
                        acts.push(Act::Flush(queues));
                    }
                    return;
                }
                let mut threads = vec![Vec::new(); THREADS];
                for elements in moves {
                    for (e, element) in elements.into_iter().enumerate() {
                        threads[e % THREADS].push(element);
                    }
                }
                acts.push(Act::Move(threads));
            }
        }
    }

    fn queue(&mut self, rank: usize, number: usize) -> usize {
        let next = self.queues.len();
        *self.queues.entry((rank, number)).or_insert(next)
    }

    /// In place both names are one.
    fn canonical(&self, (rank, letter, element): Cell) -> Cell {
        if !self.in_place {
            return (rank, letter, element);
        }
        let block = |chunks: u64| rank as u64 * chunks * ELEMENTS + element;
        match (self.collective.as_str(), letter) {
            ("allreduce", 'i') => (rank, 'o', element),
            ("allgather", 'i') => (rank, 'o', block(self.chunks[rank][0])),
            ("reducescatter", 'o') => (rank, 'i', block(self.chunks[rank][1])),
            _ => (rank, letter, element),
        }
    }
}

#[derive(Default, Clone)]
struct Thread {
    act: usize,
    step: usize,
    /// Came to the sync or barrier that it stands at.
    arrived: bool,
}

struct Run<'m> {
    machine: &'m Machine,
    memory: HashMap<Cell, u64>,
    /// By half.
    scratch: HashMap<(Cell, u64), u64>,
    packets: HashMap<(Cell, u64), (u64, u64)>,
    counters: HashMap<String, u64>,
    posted: Vec<Vec<(u64, Vec<Element>, Option<String>)>>,
    carried: Vec<usize>,
    /// By rank, threadblock.
    threads: Vec<Vec<Vec<Thread>>>,
    barriers: HashMap<(usize, u64), usize>,
    call: Vec<u64>,
    /// The rank's caller still looks at its result.
    idle: Vec<bool>,
}

/// Why a run went wrong.
type Wrong = String;

impl Run<'_> {
    fn read(&self, cell: Cell, packet: bool, call: u64, waits: bool) -> Result<Option<u64>, Wrong> {
        let half = call % self.machine.halves;
        if packet {
            let held = self.packets.get(&(cell, half));
            return match held {
                Some(&(value, flag)) if flag == call || !waits => Ok(Some(value)),
                _ if waits => Ok(None),
                _ => Err("a packet that was not written is sent".to_owned()),
            };
        }
        let held = if cell.1 == 's' {
            self.scratch.get(&(cell, half))
        } else {
            self.memory.get(&self.machine.canonical(cell))
        };
        held.copied().map(Some).ok_or_else(|| format!("{cell:?} is read and undefined"))
    }

    fn element(&mut self, element: &Element, call: u64, waits: bool) -> Result<bool, Wrong> {
        let mut sum = 0_u64;
        for &(cell, packet) in &element.sources {
            match self.read(cell, packet, call, waits)? {
                None => return Ok(false),
                Some(value) => sum = sum.wrapping_add(value),
            }
        }
        let half = call % self.machine.halves;
        for &(cell, packet) in &element.targets {
            if packet {
                self.packets.insert((cell, half), (sum, call));
            } else if cell.1 == 's' {
                self.scratch.insert((cell, half), sum);
            } else {
                self.memory.insert(self.machine.canonical(cell), sum);
            }
        }
        Ok(true)
    }

    fn begin(&mut self, rank: usize) {
        let [input, output] = self.machine.chunks[rank];
        let call = self.call[rank];
        for element in 0..output * ELEMENTS {
            self.memory.remove(&(rank, 'o', element));
        }
        for element in 0..input * ELEMENTS {
            let cell = self.machine.canonical((rank, 'i', element));
            self.memory.insert(cell, token(call, rank, element));
        }
        for tb in &mut self.threads[rank] {
            tb.iter_mut().for_each(|thread| *thread = Thread::default());
        }
    }

    fn result_is_right(&self, rank: usize) -> Result<(), Wrong> {
        let (call, n) = (self.call[rank], self.machine.ranks);
        let [input, output] = self.machine.chunks[rank];
        for element in 0..output * ELEMENTS {
            let sum = |element: u64| (0..n).fold(0_u64, |sum, peer| sum.wrapping_add(token(call, peer, element)));
            let wanted = match self.machine.collective.as_str() {
                "allreduce" => sum(element),
                "allgather" => {
                    let block = input * ELEMENTS;
                    token(call, (element / block) as usize, element % block)
                }
                "alltoall" => {
                    let block = output * ELEMENTS / n as u64;
                    token(call, (element / block) as usize, rank as u64 * block + element % block)
                }
                "reducescatter" => sum(rank as u64 * output * ELEMENTS + element),
                _ => continue,
            };
            let held = self.memory.get(&self.machine.canonical((rank, 'o', element)));
            if held != Some(&wanted) {
                return Err(format!("rank {rank} call {call}: output element {element} is wrong"));
            }
        }
        Ok(())
    }

    /// One step of a thread; whether it did something.
    fn step(&mut self, rank: usize, tb: usize, t: usize) -> Result<bool, Wrong> {
        let machine = self.machine;
        let thread = self.threads[rank][tb][t].clone();
        let Some(act) = machine.programs[rank][tb].get(thread.act) else { return Ok(false) };
        let next = |run: &mut Self| {
            run.threads[rank][tb][t] = Thread { act: thread.act + 1, ..Thread::default() };
            Ok(true)
        };
        let call = self.call[rank];
        match act {
            Act::Sync | Act::Barrier(..) if !thread.arrived => {
                self.threads[rank][tb][t].arrived = true;
                if let Act::Barrier(id, _) = act
                    && self.threads[rank][tb].iter().all(|other| other.act == thread.act && other.arrived)
                {
                    *self.barriers.entry((rank, *id)).or_default() += 1;
                }
                Ok(true)
            }
            Act::Sync => {
                let all = self.threads[rank][tb]
                    .iter()
                    .all(|other| thread.act < other.act || other.act == thread.act && other.arrived);
                if all { next(self) } else { Ok(false) }
            }
            Act::Barrier(id, count) => {
                // The turn is counted by the thread's own earlier barriers.
                let earlier = machine.programs[rank][tb][..thread.act].iter();
                let per_call =
                    machine.programs[rank][tb].iter().filter(|a| matches!(a, Act::Barrier(i, _) if i == id)).count();
                let turn =
                    earlier.filter(|a| matches!(a, Act::Barrier(i, _) if i == id)).count() + call as usize * per_call;
                let came = self.barriers.get(&(rank, *id)).copied().unwrap_or(0);
                if (turn + 1) * count <= came { next(self) } else { Ok(false) }
            }
            Act::Signal(names) => {
                if let Some(name) = names.get(t) {
                    *self.counters.entry(name.clone()).or_default() += 1;
                }
                next(self)
            }
            Act::Wait(names) => {
                let Some(name) = names.get(t) else { return next(self) };
                let taken = format!("taken {name}");
                let (signals, waits) =
                    (self.counters.get(name).copied().unwrap_or(0), self.counters.get(&taken).copied().unwrap_or(0));
                if waits < signals {
                    *self.counters.entry(taken).or_default() += 1;
                    return next(self);
                }
                Ok(false)
            }
            Act::Move(threads) => {
                let Some(element) = threads[t].get(thread.step) else { return next(self) };
                let done = self.element(element, call, true)?;
                if done {
                    self.threads[rank][tb][t].step += 1;
                }
                Ok(done)
            }
            Act::Post(posts) => {
                if let Some((queue, elements, signal)) = posts.get(t) {
                    self.posted[*queue].push((call, elements.clone(), signal.clone()));
                }
                next(self)
            }
            Act::Flush(queues) => match queues.get(t) {
                Some(&queue) if self.carried[queue] < self.posted[queue].len() => Ok(false),
                _ => next(self),
            },
        }
    }

    fn carry(&mut self, queue: usize) -> Result<bool, Wrong> {
        let Some((call, elements, signal)) = self.posted[queue].get(self.carried[queue]).cloned() else {
            return Ok(false);
        };
        for element in &elements {
            self.element(element, call, false)?;
        }
        if let Some(signal) = signal {
            *self.counters.entry(signal).or_default() += 1;
        }
        self.carried[queue] += 1;
        Ok(true)
    }
}

/// Runs a plan once; tells what went wrong, if anything did.
pub fn run(plan: &Value, seed: u64) -> Result<(), Wrong> {
    let machine = Machine::new(plan);
    let mut random = Random(seed);
    let threads = |tbs: &Vec<Vec<Act>>| vec![vec![Thread::default(); THREADS]; tbs.len()];
    let mut run = Run {
        machine: &machine,
        memory: HashMap::new(),
        scratch: HashMap::new(),
        packets: HashMap::new(),
        counters: machine.initial.clone(),
        posted: vec![Vec::new(); machine.queues.len()],
        carried: vec![0; machine.queues.len()],
        threads: machine.programs.iter().map(threads).collect(),
        barriers: HashMap::new(),
        call: vec![0; machine.ranks],
        idle: vec![false; machine.ranks],
    };
    (0..machine.ranks).for_each(|rank| run.begin(rank));
    let mut actors: Vec<(usize, usize, usize)> = Vec::new();
    for (rank, tbs) in machine.programs.iter().enumerate() {
        for tb in 0..tbs.len() {
            actors.extend((0..THREADS).map(|t| (rank, tb, t)));
        }
        actors.push((rank, usize::MAX, 0));
    }
    actors.extend((0..machine.queues.len()).map(|queue| (queue, usize::MAX, 1)));
    // Some actors are slow, now these and now those, so that others run far ahead.
    let mut slow: Vec<bool> = vec![false; actors.len()];
    let mut idle_steps = 0;
    loop {
        if random.below(24) == 0 {
            let whole_rank = random.below(machine.ranks * 2);
            for (at, slow) in slow.iter_mut().enumerate() {
                *slow = random.below(3) == 0 || actors[at].0 == whole_rank;
            }
        }
        let mut done = false;
        let offset = random.below(actors.len());
        for pass in 0..2 {
            for at in 0..actors.len() {
                let at = (at + offset) % actors.len();
                if slow[at] != (pass == 1) {
                    continue;
                }
                let (a, b, c) = actors[at];
                done = match (b, c) {
                    (usize::MAX, 0) => {
                        // The rank's caller.
                        let ended = run.threads[a]
                            .iter()
                            .zip(&machine.programs[a])
                            .all(|(tb, acts)| tb.iter().all(|t| t.act == acts.len()));
                        if CALLS <= run.call[a] || !ended {
                            false
                        } else {
                            run.result_is_right(a)?;
                            if run.idle[a] {
                                run.call[a] += 1;
                                if run.call[a] < CALLS {
                                    run.begin(a);
                                }
                            }
                            run.idle[a] = !run.idle[a];
                            true
                        }
                    }
                    (usize::MAX, _) => run.carry(a)?,
                    _ if CALLS <= run.call[a] || run.idle[a] => false,
                    _ => run.step(a, b, c)?,
                };
                if done {
                    break;
                }
            }
            if done {
                break;
            }
        }
        if !done {
            idle_steps += 1;
            if run.call.iter().all(|&call| CALLS <= call) {
                break;
            }
            if 1 < idle_steps {
                return Err("deadlock".to_owned());
            }
        } else {
            idle_steps = 0;
        }
    }
    let counters = run.counters.iter().filter(|(name, _)| !name.starts_with("taken "));
    for (name, &signals) in counters {
        let taken = run.counters.get(&format!("taken {name}")).copied().unwrap_or(0);
        if signals != taken + machine.initial.get(name).copied().unwrap_or(0) {
            return Err(format!("{name} does not end as it began"));
        }
    }
    Ok(())
}
