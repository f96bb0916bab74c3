//! A machine that runs MSCCL XML in random orders: threadblocks, FIFOs of bounded depth, progress flags. It reads the text line
//! by line and uses nothing of Rondo. It cannot prove a file right, but a wrong one seldom survives many orders.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::attribute;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Simulated {
    /// Every output is what the collective says, and no message is left.
    Right,
    /// Why not.
    Wrong(String),
}

type Sum = BTreeMap<(usize, usize), u64>;

#[derive(Clone)]
struct Step {
    kind: String,
    src: (char, usize),
    dst: (char, usize),
    count: usize,
    after: Option<(usize, usize)>,
    publishes: bool,
}

#[derive(Clone)]
struct Block {
    send: Option<usize>,
    recv: Option<usize>,
    channel: usize,
    steps: Vec<Step>,
}

/// A file.
#[derive(Clone)]
pub struct Machine {
    collective: String,
    in_place: bool,
    chunks: usize,
    depth: usize,
    /// Threadblocks of each rank by id.
    ranks: Vec<Vec<Block>>,
    slots: Vec<[usize; 3]>,
}

impl Machine {
    /// Reads a file as Rondo writes it: one element a line.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut machine: Option<Self> = None;
        for line in text.lines() {
            let element = line.trim_start();
            let number = |key: &str| attribute(line, key).parse::<usize>().map_err(|error| format!("{key}: {error}"));
            let optional = |key: &str| attribute(line, key).parse::<usize>().ok();
            if element.starts_with("<algo") {
                machine = Some(Self {
                    collective: attribute(line, "coll").to_owned(),
                    in_place: attribute(line, "inplace") == "1",
                    chunks: number("nchunksperloop")?,
                    depth: if attribute(line, "proto") == "Simple" { 2 } else { 8 },
                    ranks: Vec::new(),
                    slots: Vec::new(),
                });
                continue;
            }
            let Some(machine) = &mut machine else { continue };
            if element.starts_with("<gpu") {
                if number("id")? != machine.ranks.len() {
                    return Err("ranks out of order".to_owned());
                }
                machine.ranks.push(Vec::new());
                machine.slots.push([number("i_chunks")?, number("o_chunks")?, number("s_chunks")?]);
            } else if element.starts_with("<tb") {
                let (send, recv, channel) = (optional("send"), optional("recv"), number("chan")?);
                machine.ranks.last_mut().ok_or("no gpu")?.push(Block { send, recv, channel, steps: Vec::new() });
            } else if element.starts_with("<step") {
                let place = |buffer: &str, offset: &str| -> Result<(char, usize), String> {
                    Ok((attribute(line, buffer).chars().next().ok_or("no buffer")?, optional(offset).unwrap_or(0)))
                };
                let after = optional("depid").zip(optional("deps"));
                let step = Step {
                    kind: attribute(line, "type").to_owned(),
                    src: place("srcbuf", "srcoff")?,
                    dst: place("dstbuf", "dstoff")?,
                    count: number("cnt")?,
                    after,
                    publishes: attribute(line, "hasdep") == "1",
                };
                machine.ranks.last_mut().and_then(|rank| rank.last_mut()).ok_or("no tb")?.steps.push(step);
            }
        }
        machine.ok_or_else(|| "no algo".to_owned())
    }

    /// The same with one message a chunk, as runtimes cut large messages.
    pub fn split(&self) -> Self {
        let mut machine = self.clone();
        for rank in &mut machine.ranks {
            // Where each instruction ends among the pieces.
            let ends: Vec<Vec<usize>> = rank
                .iter()
                .map(|block| {
                    let mut end = 0;
                    let pieces = |step: &Step| if moves(&step.kind) { step.count.max(1) } else { 1 };
                    block
                        .steps
                        .iter()
                        .map(|step| {
                            end += pieces(step);
                            end - 1
                        })
                        .collect()
                })
                .collect();
            for block in rank {
                let mut steps = Vec::new();
                for step in &block.steps {
                    let after = step.after.map(|(other, index)| {
                        (other, ends.get(other).and_then(|ends| ends.get(index)).copied().unwrap_or(usize::MAX))
                    });
                    if !moves(&step.kind) || step.count < 2 {
                        steps.push(Step { after, ..step.clone() });
                        continue;
                    }
                    for piece in 0..step.count {
                        steps.push(Step {
                            src: (step.src.0, step.src.1 + piece),
                            dst: (step.dst.0, step.dst.1 + piece),
                            count: 1,
                            after: after.filter(|_| piece == 0),
                            publishes: step.publishes && piece + 1 == step.count,
                            ..step.clone()
                        });
                    }
                }
                block.steps = steps;
            }
        }
        machine
    }

    /// Whether two instructions touch a place, one of them writing, and neither program order, nor a dependency, nor a
    /// message orders them: by clocks over one run.
    pub fn races(&self, seed: u64) -> bool {
        let n = self.ranks.len();
        let blocks: Vec<(usize, usize)> =
            (0..n).flat_map(|rank| (0..self.ranks[rank].len()).map(move |block| (rank, block))).collect();
        let mut clocks = vec![vec![0_usize; blocks.len()]; blocks.len()];
        let mut at = vec![0; blocks.len()];
        let mut progress: HashMap<(usize, usize), usize> = HashMap::new();
        let mut told: HashMap<(usize, usize, usize), Vec<usize>> = HashMap::new();
        let mut fifos: HashMap<(usize, usize, usize), VecDeque<Vec<usize>>> = HashMap::new();
        let mut seen: HashMap<(usize, char, usize), Vec<(usize, usize, bool)>> = HashMap::new();
        let mut random = seed.wrapping_mul(2).wrapping_add(1);
        loop {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let start = usize::try_from(random >> 33).expect("small") % blocks.len().max(1);
            let ready = (0..blocks.len()).map(|offset| (start + offset) % blocks.len()).find(|&index| {
                let (rank, block) = blocks[index];
                let tb = &self.ranks[rank][block];
                let Some(step) = tb.steps.get(at[index]) else { return false };
                let waiting =
                    |src: usize, dst: usize| fifos.get(&(src, dst, tb.channel)).is_some_and(|f| !f.is_empty());
                step.after.is_none_or(|(other, after)| after < progress.get(&(rank, other)).copied().unwrap_or(0))
                    && (!receives(&step.kind) || tb.recv.is_some_and(|peer| waiting(peer, rank)))
                    && (!sends(&step.kind) || tb.send.is_some())
            });
            let Some(me) = ready else { return false };
            let (rank, block) = blocks[me];
            let tb = &self.ranks[rank][block];
            let step = &tb.steps[at[me]];
            if let Some((other, after)) = step.after {
                // The first publication that is far enough.
                let first =
                    (after..).find(|&index| told.contains_key(&(rank, other, index))).expect("it was waited for");
                let clock = told[&(rank, other, first)].clone();
                join(&mut clocks[me], &clock);
            }
            if receives(&step.kind) {
                let key = (tb.recv.expect("checked"), rank, tb.channel);
                let clock = fifos.get_mut(&key).and_then(VecDeque::pop_front).expect("checked");
                join(&mut clocks[me], &clock);
            }
            clocks[me][me] += 1;
            let (source, destination, writes) = match step.kind.as_str() {
                "s" | "rrs" => (true, false, false),
                "r" | "rcs" => (false, false, true),
                "cpy" | "rrc" | "rrcs" => (true, false, true),
                "re" => (true, true, true),
                _ => (false, false, false),
            };
            let mut touched = Vec::new();
            for offset in 0..step.count {
                let place = |(buffer, first): (char, usize)| self.name(rank, (buffer, first + offset));
                if source {
                    touched.push((place(step.src), false));
                }
                if destination || writes {
                    touched.push((place(step.dst), writes));
                }
            }
            for (place, write) in touched {
                let list = seen.entry(place).or_default();
                if list.iter().any(|&(other, time, wrote)| other != me && (wrote || write) && clocks[me][other] < time)
                {
                    return true;
                }
                list.push((me, clocks[me][me], write));
            }
            if sends(&step.kind) {
                let key = (rank, tb.send.expect("checked"), tb.channel);
                fifos.entry(key).or_default().push_back(clocks[me].clone());
            }
            at[me] += 1;
            if step.publishes {
                told.insert((rank, block, at[me] - 1), clocks[me].clone());
                progress.insert((rank, block), at[me]);
            }
        }
    }

    /// Runs the file in an order that the seed chooses.
    pub fn run(&self, seed: u64) -> Simulated {
        match self.attempt(seed) {
            Ok(()) => Simulated::Right,
            Err(reason) => Simulated::Wrong(reason),
        }
    }

    fn attempt(&self, seed: u64) -> Result<(), String> {
        let mut state: HashMap<(usize, char, usize), Sum> = HashMap::new();
        let n = self.ranks.len();
        let inputs = if self.collective == "allgather" { self.chunks / n } else { self.chunks };
        for rank in 0..n {
            for slot in 0..inputs {
                state.insert(self.name(rank, ('i', slot)), Sum::from([((rank, slot), 1)]));
            }
        }
        // Each threadblock of each rank has its own program counter; the flag of a threadblock is what it published last.
        let blocks: Vec<(usize, usize)> =
            (0..n).flat_map(|rank| (0..self.ranks[rank].len()).map(move |block| (rank, block))).collect();
        let mut counter: HashMap<(usize, usize), usize> = HashMap::new();
        let mut published: HashMap<(usize, usize), usize> = HashMap::new();
        let mut fifos: HashMap<(usize, usize, usize), VecDeque<Vec<Sum>>> = HashMap::new();
        let mut random = seed.wrapping_mul(2).wrapping_add(1);
        let mut draw = move |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random % below as u64).expect("small")
        };
        // Threadblocks have moods: each is fast or slow for a whole run, so that unusual orders come up.
        let moods: Vec<usize> = blocks.iter().map(|_| [1, 1, 4, 40][draw(4)]).collect();
        loop {
            let ready: Vec<usize> = (0..blocks.len())
                .filter(|&index| {
                    let (rank, block) = blocks[index];
                    let at = counter.get(&(rank, block)).copied().unwrap_or(0);
                    self.ranks[rank][block]
                        .steps
                        .get(at)
                        .is_some_and(|step| self.can_run(rank, block, step, &published, &fifos))
                })
                .collect();
            if ready.is_empty() {
                break;
            }
            let mut chosen = ready[draw(ready.len())];
            for _ in 0..4 {
                if draw(moods[chosen]) == 0 {
                    break;
                }
                chosen = ready[draw(ready.len())];
            }
            let (rank, block) = blocks[chosen];
            let at = counter.entry((rank, block)).or_default();
            let step = &self.ranks[rank][block].steps[*at];
            *at += 1;
            if step.publishes {
                published.insert((rank, block), *at);
            }
            self.execute(rank, block, step, &mut state, &mut fifos)?;
        }
        for &(rank, block) in &blocks {
            let at = counter.get(&(rank, block)).copied().unwrap_or(0);
            if at < self.ranks[rank][block].steps.len() {
                return Err(format!("rank {rank}, threadblock {block} hangs at {at}"));
            }
        }
        if fifos.values().any(|fifo| !fifo.is_empty()) {
            return Err("a message is left".to_owned());
        }
        self.check(&state)
    }

    fn can_run(
        &self,
        rank: usize,
        block: usize,
        step: &Step,
        published: &HashMap<(usize, usize), usize>,
        fifos: &HashMap<(usize, usize, usize), VecDeque<Vec<Sum>>>,
    ) -> bool {
        let tb = &self.ranks[rank][block];
        let length = |src: usize, dst: usize| fifos.get(&(src, dst, tb.channel)).map_or(0, VecDeque::len);
        step.after.is_none_or(|(other, index)| index < published.get(&(rank, other)).copied().unwrap_or(0))
            && (!receives(&step.kind) || tb.recv.is_some_and(|peer| 0 < length(peer, rank)))
            && (!sends(&step.kind) || tb.send.is_some_and(|peer| length(rank, peer) < self.depth))
    }

    fn name(&self, rank: usize, (buffer, slot): (char, usize)) -> (usize, char, usize) {
        match (self.in_place, buffer, self.collective.as_str()) {
            (true, 'i', "allreduce") => (rank, 'o', slot),
            (true, 'i', "allgather") => (rank, 'o', rank * (self.chunks / self.ranks.len()) + slot),
            (true, ..) if !matches!(self.collective.as_str(), "allreduce" | "allgather") => panic!("not known here"),
            _ => (rank, buffer, slot),
        }
    }

    fn execute(
        &self,
        rank: usize,
        block: usize,
        step: &Step,
        state: &mut HashMap<(usize, char, usize), Sum>,
        fifos: &mut HashMap<(usize, usize, usize), VecDeque<Vec<Sum>>>,
    ) -> Result<(), String> {
        let tb = &self.ranks[rank][block];
        if step.kind == "nop" {
            return Ok(());
        }
        let mut arrived = vec![Sum::new(); step.count];
        if receives(&step.kind) {
            let fifo = fifos.get_mut(&(tb.recv.expect("checked"), rank, tb.channel)).expect("checked");
            arrived = fifo.pop_front().expect("checked");
            if arrived.len() != step.count {
                return Err("counts of a pair differ".to_owned());
            }
        }
        let (reads_src, reads_dst, stores) = match step.kind.as_str() {
            "s" => (true, false, false),
            "r" | "rcs" => (false, false, true),
            "cpy" | "rrc" | "rrcs" => (true, false, true),
            "re" => (true, true, true),
            "rrs" => (true, false, false),
            other => return Err(format!("no instruction {other}")),
        };
        let mut values = Vec::new();
        for (offset, mut value) in arrived.into_iter().enumerate() {
            for (used, (buffer, first)) in [(reads_src, step.src), (reads_dst, step.dst)] {
                if used {
                    let place = self.place(rank, (buffer, first + offset))?;
                    let held = state.get(&place).ok_or_else(|| format!("{place:?} is read before it is written"))?;
                    for (&term, &count) in held {
                        *value.entry(term).or_default() += count;
                    }
                }
            }
            if stores {
                if step.dst.0 == 'i' && !self.in_place {
                    return Err("the input is written".to_owned());
                }
                state.insert(self.place(rank, (step.dst.0, step.dst.1 + offset))?, value.clone());
            }
            values.push(value);
        }
        if sends(&step.kind) {
            fifos.entry((rank, tb.send.expect("checked"), tb.channel)).or_default().push_back(values);
        }
        Ok(())
    }

    fn place(&self, rank: usize, (buffer, slot): (char, usize)) -> Result<(usize, char, usize), String> {
        // The caller's buffers are as large as the collective says; what the file declares only bounds scratch.
        let each = self.chunks / self.ranks.len();
        let limit = match (buffer, self.collective.as_str()) {
            ('i', "allgather") | ('o', "reduce_scatter" | "reducescatter") => each,
            ('i' | 'o', _) => self.chunks,
            _ => self.slots[rank][2],
        };
        if slot < limit { Ok(self.name(rank, (buffer, slot))) } else { Err(format!("no {buffer}[{slot}]")) }
    }

    fn check(&self, state: &HashMap<(usize, char, usize), Sum>) -> Result<(), String> {
        let n = self.ranks.len();
        let each = self.chunks / n;
        for rank in 0..n {
            let outputs = if self.collective.starts_with("reduce") { each } else { self.chunks };
            for slot in 0..outputs {
                let wanted: Sum = match self.collective.as_str() {
                    "allreduce" => (0..n).map(|p| ((p, slot), 1)).collect(),
                    "allgather" => Sum::from([((slot / each, slot % each), 1)]),
                    "reduce_scatter" | "reducescatter" => (0..n).map(|p| ((p, rank * each + slot), 1)).collect(),
                    "alltoall" => Sum::from([((slot / each, rank * each + slot % each), 1)]),
                    other => return Err(format!("{other} is not known here")),
                };
                if state.get(&self.name(rank, ('o', slot))) != Some(&wanted) {
                    return Err(format!("output {slot} of rank {rank} is wrong"));
                }
            }
        }
        Ok(())
    }
}

fn join(clock: &mut [usize], other: &[usize]) {
    clock.iter_mut().zip(other).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
}

fn moves(kind: &str) -> bool {
    receives(kind) || sends(kind)
}

fn receives(kind: &str) -> bool {
    matches!(kind, "r" | "rcs" | "rrc" | "rrs" | "rrcs")
}

fn sends(kind: &str) -> bool {
    matches!(kind, "s" | "rcs" | "rrs" | "rrcs")
}
