//! What a plan file may hold, as types: the reader deserialises into these, and the JSON Schema is made from them.
//!
//! Only shapes are checked here (types, keys, lengths of rows, slots below 2³⁰); `check` turns the result into the types of
//! `rondo-ir` and looks at every id. Bulk rows are read by visitors straight into their final form.

use std::borrow::Cow;
use std::fmt;

use rondo_ir::collective::{Buffer, DataType, Place, ReduceOperator};
use rondo_ir::index::{DeviceId, GroupId, LinkId, PortId, RankId, RouteId, TreeId};
use rondo_ir::program::{Connection, Operation, OperationKind, OperationRef, SourceSpan};
use rondo_ir::schedule::{Flow, FlowOp, Path, PathKind};
use rondo_ir::topology::{Circuit, Hop, NodeKind, PortDirection};
use rondo_ir::units::Time;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer, StringDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::locate::shorten;

/// A plan of Rondo: either `problem` and `schedule`, or `claim` and `program`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Rondo plan")]
pub(super) struct PlanFile<'a> {
    /// Always `rondo.plan`.
    pub(super) format: Format,
    /// Version of the format; 1.x.
    pub(super) version: Version,
    /// Free text for people. It does not belong to the plan and is not kept when a plan is read and written again.
    #[serde(default, rename = "description")]
    pub(super) _description: Option<String>,
    /// What the file says about its price and checks. A reader recomputes all of it.
    #[serde(default)]
    pub(super) claimed: Option<ClaimedFile>,
    /// The problem that the schedule solves.
    #[serde(default, borrow)]
    pub(super) problem: Option<ProblemFile<'a>>,
    /// The schedule.
    #[serde(default)]
    pub(super) schedule: Option<ScheduleFile>,
    /// What the program claims to do.
    #[serde(default)]
    pub(super) claim: Option<ClaimFile>,
    /// The program.
    #[serde(default)]
    pub(super) program: Option<ProgramFile>,
}

/// Price and checks as the file claims them.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimedFile {
    /// Time of the whole schedule under the problem's cost model: exact seconds as `"numerator/denominator"`.
    #[serde(default)]
    pub(super) time: Option<ExactTime>,
    /// Time of each step, in the same form.
    #[serde(default)]
    pub(super) steps: Vec<ExactTime>,
    /// Names of the checks that were proved when the file was written.
    #[serde(default)]
    pub(super) checks: Vec<String>,
}

/// Topology, placement, initial circuits, groups and cost model.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProblemFile<'a> {
    /// What can move data.
    #[serde(borrow)]
    pub(super) topology: TopologyFile<'a>,
    /// Node of each rank, by rank.
    pub(super) placement: Vec<u32>,
    /// Circuits of each device before the first step, by device: pairs [from port, to port]. Needed if there are devices.
    #[serde(default)]
    pub(super) circuits: Vec<Vec<[u32; 2]>>,
    /// The groups, each a collective over some of the ranks.
    pub(super) groups: Vec<GroupFile>,
    /// Costs that belong to no link or node.
    pub(super) cost: CostFile,
}

/// Nodes, directed links, shared media and circuit devices.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TopologyFile<'a> {
    /// A name for reports.
    pub(super) name: String,
    /// The nodes; a node's number is its place in this list.
    pub(super) nodes: Vec<NodeFile>,
    /// The directed links; a link's number is its place in this list. A two-way cable is two links.
    #[serde(borrow)]
    pub(super) links: Vec<LinkRow<'a>>,
    /// Media that several links share.
    #[serde(default)]
    pub(super) media: Vec<MediumFile>,
    /// Devices that set circuits.
    #[serde(default, borrow)]
    pub(super) devices: Vec<DeviceFile<'a>>,
}

/// A node.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeFile {
    /// Unique name.
    pub(super) name: String,
    /// `compute` may host a rank, `switch` only moves data.
    #[schemars(with = "KindName")]
    pub(super) kind: NodeKind,
    /// Whether routes may pass through.
    pub(super) forwards: bool,
    /// Whether it can copy one incoming flow to several outgoing links.
    #[serde(default)]
    pub(super) multicasts: bool,
    /// Whether it can add incoming flows.
    #[serde(default)]
    pub(super) reduces: bool,
    /// Limit on what routes that start here send together (`"50 GB/s"`).
    #[serde(default)]
    pub(super) injection: Option<String>,
    /// Limit on what routes that end here receive together.
    #[serde(default)]
    pub(super) ejection: Option<String>,
    /// Limit on what passes through.
    #[serde(default)]
    pub(super) throughput: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
#[allow(dead_code)]
enum KindName {
    Compute,
    Switch,
}

/// A shared medium.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MediumFile {
    /// Unique name.
    pub(super) name: String,
    /// Rate of all its links together (`"25 GB/s"`).
    pub(super) capacity: String,
    /// The links that share it.
    pub(super) links: Vec<u32>,
}

/// A device that sets circuits between its ports.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeviceFile<'a> {
    /// Unique name.
    pub(super) name: String,
    /// Time that one change takes (`"10 us"`).
    pub(super) reconfiguration_delay: String,
    /// The ports; a port's number is its place in this list.
    #[serde(borrow)]
    pub(super) ports: Vec<PortRow<'a>>,
    /// What the device can be set to.
    pub(super) legal: LegalFile,
}

/// Which configurations a device can take.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LegalFile {
    /// `any-matching`, `only` (any matching of the listed circuits) or `cycle` (the listed configurations in their order).
    pub(super) rule: RuleName,
    /// With `only`: the circuits, pairs [from port, to port].
    #[serde(default)]
    pub(super) circuits: Option<Vec<[u32; 2]>>,
    /// With `cycle`: the configurations, lists of such pairs.
    #[serde(default)]
    pub(super) configurations: Option<Vec<Vec<[u32; 2]>>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) enum RuleName {
    AnyMatching,
    Only,
    Cycle,
}

/// A collective and the ranks that take part.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupFile {
    /// The collective.
    pub(super) collective: CollectiveFile,
    /// The ranks in order: a rank's place in this list is its position in the collective.
    pub(super) ranks: Vec<u32>,
}

/// A collective with its size.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CollectiveFile {
    /// Which collective.
    pub(super) kind: CollectiveName,
    /// With `broadcast`, `reduce`, `gather` and `scatter`: position of the root.
    #[serde(default)]
    pub(super) root: Option<u32>,
    /// With `all_to_all`, where blocks differ: elements from position p to position q as `matrix[p][q]`.
    #[serde(default)]
    pub(super) matrix: Option<Vec<Vec<u64>>>,
    /// With `send_receive`: the position that each position sends to, or null.
    #[serde(default)]
    pub(super) targets: Option<Vec<Option<u32>>>,
    /// With `custom`: input slots of each position.
    #[serde(default)]
    pub(super) input_slots: Option<Vec<u32>>,
    /// With `custom`: per position and output slot what it must hold, as [origin, input slot, count] in order, or null for
    /// anything.
    #[serde(default)]
    pub(super) output: Option<Vec<Vec<Option<Vec<HeldRow>>>>>,
    /// How values are added.
    #[schemars(with = "OperatorName")]
    pub(super) operator: ReduceOperator,
    /// Element type.
    #[schemars(with = "DataTypeName")]
    pub(super) dtype: DataType,
    /// The larger of a rank's input and output buffers (`"1 MiB"`), a multiple of the element size. Not with `matrix`.
    #[serde(default)]
    pub(super) buffer_size: Option<String>,
    /// Whether input and output are one buffer.
    pub(super) in_place: bool,
    /// Whether the input may be overwritten out of place.
    #[serde(default)]
    pub(super) input_writable: bool,
}

/// A contribution of a custom collective and how often it occurs: `[origin, input slot, count]`.
#[derive(Deserialize, JsonSchema)]
pub(super) struct HeldRow(pub(super) u32, pub(super) u32, pub(super) u64);

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(super) enum CollectiveName {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast,
    Reduce,
    Gather,
    Scatter,
    SendReceive,
    Custom,
}

#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[allow(dead_code)]
enum OperatorName {
    Sum,
    Avg,
    Max,
    Min,
    Prod,
}

#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[allow(dead_code)]
enum DataTypeName {
    Int8,
    Uint8,
    Int32,
    Uint32,
    Int64,
    Uint64,
    Float16,
    Float32,
    Float64,
    Bfloat16,
    Float8,
}

/// The cost model.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CostFile {
    /// Fixed cost of a step with communication (`"1 us"`).
    pub(super) startup: String,
    /// Time per byte to reduce (`"1 ps/B"`, or a rate such as `"1 TB/s"`).
    pub(super) reduce_cost: String,
    /// Time per byte to copy within a rank, in the same form.
    pub(super) copy_cost: String,
    /// Added to each reconfiguration.
    pub(super) synchronisation: String,
    /// Whether a device may change ports that the step before leaves idle while that step runs; false if left out.
    #[serde(default)]
    pub(super) overlap_reconfiguration: bool,
}

/// Steps of flows over interned routes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScheduleFile {
    /// Which algorithm made it, for reports.
    pub(super) algorithm: String,
    /// Chunks a block, by group.
    pub(super) chunks: Vec<u32>,
    /// By group, by position, by scratch slot: `[position, buffer, slot]`, a place whose number of elements the slot has. Left
    /// out where no group has scratch.
    #[serde(default)]
    pub(super) scratch: Option<Vec<Vec<Vec<(u32, Letter, u32)>>>>,
    /// The routes; a route's number is its place in this list.
    #[serde(default)]
    pub(super) routes: Vec<RouteRow>,
    /// The multicast and aggregation trees; a tree's number is its place in this list.
    #[serde(default)]
    pub(super) trees: Vec<TreeFile>,
    /// Symmetries that make flows from representatives; a generator's number is its place in this list.
    #[serde(default)]
    pub(super) generators: Vec<GeneratorFile>,
    /// The steps in order.
    pub(super) steps: Vec<StepFile>,
    /// `[before, after]`, numbers of flows counted over all steps, sorted. If it is there, even empty, these replace the
    /// barriers between steps.
    #[serde(default)]
    pub(super) dependencies: Option<Vec<[u32; 2]>>,
    /// Circuits of each device after the last step, by device. Needed if there are devices.
    #[serde(default)]
    pub(super) leaves_circuits: Vec<Vec<[u32; 2]>>,
}

/// A tree for multicast or aggregation.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TreeFile {
    /// Its hops, in any order.
    pub(super) hops: Vec<HopRow>,
    /// Ranks at its leaves: destinations of a multicast, sources of an aggregation.
    pub(super) leaves: Vec<u32>,
}

/// A symmetry: a permutation of ranks, slots, routes and trees.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GeneratorFile {
    /// Image of each rank.
    pub(super) ranks: Vec<u32>,
    /// By group: images of the input, output and scratch slots.
    pub(super) slots: Vec<[Vec<u32>; 3]>,
    /// Image of each route.
    pub(super) routes: Vec<u32>,
    /// Image of each tree.
    pub(super) trees: Vec<u32>,
}

/// A step: circuits change first, then all flows run at once. It has `flows`, or `representatives` and `generators`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StepFile {
    /// Devices that are set before the flows: `[device, [[from port, to port], …]]`.
    #[serde(default)]
    pub(super) set: Vec<(u32, Vec<[u32; 2]>)>,
    /// The flows.
    #[serde(default)]
    pub(super) flows: Option<Vec<FlowRow>>,
    /// One flow of each orbit.
    #[serde(default)]
    pub(super) representatives: Option<Vec<FlowRow>>,
    /// The generators that act on the representatives.
    #[serde(default)]
    pub(super) generators: Option<Vec<u32>>,
}

/// What a program claims to do.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimFile {
    /// The collective.
    pub(super) collective: CollectiveFile,
    /// Number of ranks.
    pub(super) ranks: u32,
    /// Chunks a block.
    pub(super) chunks: u32,
}

/// What each rank runs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProgramFile {
    /// A name for reports.
    pub(super) name: String,
    /// Chunks a block, where they differ from the claim's.
    #[serde(default)]
    pub(super) chunks: Option<u32>,
    /// Messages that a connection holds.
    pub(super) fifo_depth: u32,
    /// The ranks in order.
    pub(super) ranks: Vec<Located<RankFile>>,
}

/// What one rank runs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RankFile {
    /// Slots of the scratch buffer.
    #[serde(default)]
    pub(super) scratch_slots: u32,
    /// Threadblocks, which run at once.
    pub(super) threadblocks: Vec<Located<ThreadblockFile>>,
}

/// A sequential list of operations.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ThreadblockFile {
    /// Its number in reports.
    pub(super) id: u32,
    /// What it does, in order.
    pub(super) operations: Vec<OperationRow>,
}

/// One operation. Which members it has depends on `op`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Operation")]
pub(super) struct OperationFile {
    /// What it does.
    op: OperationName,
    /// `move`: takes the next message of this connection: `[peer, channel]`.
    #[serde(default)]
    receive: Option<[u32; 2]>,
    /// `move`: reads this place, `[buffer, slot]`; added to the message if there is one.
    #[serde(default)]
    local: Option<(Letter, u32)>,
    /// `move`: writes the value to this place.
    #[serde(default)]
    store: Option<(Letter, u32)>,
    /// `move`: sends the value on this connection.
    #[serde(default)]
    send: Option<[u32; 2]>,
    /// `reduce`: the places to add to `dst`.
    #[serde(default)]
    sources: Option<Vec<(Letter, u32)>>,
    /// `reduce`, `get`: the place that is written.
    #[serde(default)]
    dst: Option<(Letter, u32)>,
    /// `put`: the place that is read.
    #[serde(default)]
    src: Option<(Letter, u32)>,
    /// `put`: places at peers that are written, `[rank, buffer, slot]`.
    #[serde(default)]
    to: Option<Vec<(u32, Letter, u32)>>,
    /// `get`: places at peers that are read; their sum is what arrives.
    #[serde(default)]
    from: Option<Vec<(u32, Letter, u32)>>,
    /// `put`, `get`: adds to what is there instead of replacing it.
    #[serde(default)]
    reduce: Option<bool>,
    /// `move`, `reduce`, `put`, `get`: number of slots.
    #[serde(default)]
    count: Option<u32>,
    /// `signal`: whose counter.
    #[serde(default)]
    peer: Option<u32>,
    /// `signal`, `wait`: which counter.
    #[serde(default)]
    counter: Option<u32>,
    /// `wait`: goes on when the counter is at least this.
    #[serde(default)]
    value: Option<u64>,
    /// `wait`: added to `value` on each further turn of the innermost loop.
    #[serde(default)]
    stride: Option<u64>,
    /// `barrier`: which barrier of this rank.
    #[serde(default)]
    barrier: Option<u32>,
    /// `barrier`: places in the rank's list of the threadblocks that take part.
    #[serde(default)]
    threadblocks: Option<Vec<u32>>,
    /// `loop`: how often.
    #[serde(default)]
    times: Option<u32>,
    /// `loop`: the operations of a turn.
    #[serde(default)]
    body: Option<Vec<OperationRow>>,
    /// Operations of the same rank that must have published before: `[threadblock, operation]`, places in the lists.
    #[serde(default)]
    after: Vec<[u32; 2]>,
    /// Whether others may wait for it.
    #[serde(default)]
    publishes: bool,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum OperationName {
    Nop,
    Move,
    Reduce,
    Put,
    Get,
    Signal,
    Wait,
    Barrier,
    Loop,
}

impl OperationName {
    const fn name(self) -> &'static str {
        match self {
            Self::Nop => "nop",
            Self::Move => "move",
            Self::Reduce => "reduce",
            Self::Put => "put",
            Self::Get => "get",
            Self::Signal => "signal",
            Self::Wait => "wait",
            Self::Barrier => "barrier",
            Self::Loop => "loop",
        }
    }
}

/// An operation in its final form; its span holds the address of its first key until `check` replaces it.
pub(super) struct OperationRow(pub(super) Operation);

/// Where an object begins: the address of its first key in the text, 0 if that key has escapes.
///
/// serde does not say where it is, but a key without escapes is borrowed from the text, so its address tells.
pub(super) fn address_of(span: SourceSpan) -> usize {
    usize::try_from(u64::from(span.line) << 32 | u64::from(span.column)).unwrap_or(0)
}

fn span_of(address: usize) -> SourceSpan {
    let address = address as u64;
    SourceSpan { line: (address >> 32) as u32, column: address as u32 }
}

impl<'de> Deserialize<'de> for OperationRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Located { address, value } = Located::<OperationFile>::deserialize(deserializer)?;
        let mut operation = value.build().map_err(D::Error::custom)?;
        operation.span = span_of(address);
        Ok(Self(operation))
    }
}

impl OperationFile {
    /// The operation, or what is wrong with it.
    fn build(mut self) -> Result<Operation, String> {
        let name = self.op.name();
        let needs = |key: &str| format!("a `{name}` needs `{key}`");
        let connection = |[peer, channel]: [u32; 2]| Connection { peer: RankId::from(peer), channel };
        let counted = |count: Option<u32>| match count {
            None => Err(needs("count")),
            Some(0) => Err(format!("a `{name}` takes at least 1 slot")),
            Some(count) => Ok(count),
        };
        let adds = |reduce: Option<bool>| if reduce == Some(true) { FlowOp::Reduce } else { FlowOp::Copy };
        let kind = match self.op {
            OperationName::Nop => OperationKind::Nop,
            OperationName::Move => {
                let count = counted(self.count.take())?;
                let place = |place: Option<(Letter, u32)>| place.map(|(b, s)| range(b, s, count)).transpose();
                OperationKind::Move {
                    receive: self.receive.take().map(connection),
                    local: place(self.local.take())?,
                    store: place(self.store.take())?,
                    send: self.send.take().map(connection),
                    count,
                }
            }
            OperationName::Reduce => {
                let count = counted(self.count.take())?;
                let sources = self.sources.take().ok_or_else(|| needs("sources"))?;
                let (buffer, slot) = self.dst.take().ok_or_else(|| needs("dst"))?;
                OperationKind::Reduce {
                    sources: sources.into_iter().map(|(b, s)| range(b, s, count)).collect::<Result<_, _>>()?,
                    dst: range(buffer, slot, count)?,
                    count,
                }
            }
            OperationName::Put => {
                let count = counted(self.count.take())?;
                let (buffer, slot) = self.src.take().ok_or_else(|| needs("src"))?;
                OperationKind::Put {
                    src: range(buffer, slot, count)?,
                    to: remote(self.to.take().ok_or_else(|| needs("to"))?, count)?,
                    op: adds(self.reduce.take()),
                    count,
                }
            }
            OperationName::Get => {
                let count = counted(self.count.take())?;
                let (buffer, slot) = self.dst.take().ok_or_else(|| needs("dst"))?;
                OperationKind::Get {
                    from: remote(self.from.take().ok_or_else(|| needs("from"))?, count)?,
                    dst: range(buffer, slot, count)?,
                    op: adds(self.reduce.take()),
                    count,
                }
            }
            OperationName::Signal => OperationKind::Signal {
                peer: RankId::from(self.peer.take().ok_or_else(|| needs("peer"))?),
                counter: self.counter.take().ok_or_else(|| needs("counter"))?,
            },
            OperationName::Wait => OperationKind::Wait {
                counter: self.counter.take().ok_or_else(|| needs("counter"))?,
                value: self.value.take().ok_or_else(|| needs("value"))?,
                stride: self.stride.take().unwrap_or(0),
            },
            OperationName::Barrier => OperationKind::Barrier {
                barrier: self.barrier.take().ok_or_else(|| needs("barrier"))?,
                threadblocks: self.threadblocks.take().ok_or_else(|| needs("threadblocks"))?,
            },
            OperationName::Loop => OperationKind::Loop {
                times: self.times.take().ok_or_else(|| needs("times"))?,
                body: self.body.take().ok_or_else(|| needs("body"))?.into_iter().map(|row| row.0).collect(),
            },
        };
        if let Some(key) = self.left_over() {
            return Err(format!("a `{name}` has no `{key}`"));
        }
        let waits_for =
            self.after.into_iter().map(|[threadblock, operation]| OperationRef { threadblock, operation }).collect();
        Ok(Operation { kind, waits_for, publishes: self.publishes, span: SourceSpan::default() })
    }

    /// A member that nobody took.
    fn left_over(&self) -> Option<&'static str> {
        let Self {
            op: _,
            receive,
            local,
            store,
            send,
            sources,
            dst,
            src,
            to,
            from,
            reduce,
            count,
            peer,
            counter,
            value,
            stride,
            barrier,
            threadblocks,
            times,
            body,
            after: _,
            publishes: _,
        } = self;
        let members = [
            ("receive", receive.is_some()),
            ("local", local.is_some()),
            ("store", store.is_some()),
            ("send", send.is_some()),
            ("sources", sources.is_some()),
            ("dst", dst.is_some()),
            ("src", src.is_some()),
            ("to", to.is_some()),
            ("from", from.is_some()),
            ("reduce", reduce.is_some()),
            ("count", count.is_some()),
            ("peer", peer.is_some()),
            ("counter", counter.is_some()),
            ("value", value.is_some()),
            ("stride", stride.is_some()),
            ("barrier", barrier.is_some()),
            ("threadblocks", threadblocks.is_some()),
            ("times", times.is_some()),
            ("body", body.is_some()),
        ];
        members.iter().find(|(_, there)| *there).map(|(key, _)| *key)
    }
}

fn remote(places: Vec<(u32, Letter, u32)>, count: u32) -> Result<Vec<(RankId, Place)>, String> {
    places.into_iter().map(|(rank, buffer, slot)| Ok((RankId::from(rank), range(buffer, slot, count)?))).collect()
}

/// The first of `count` places; all of them and the one behind must be numbered.
fn range(Letter(buffer): Letter, slot: u32, count: u32) -> Result<Place, String> {
    let end = u64::from(slot) + u64::from(count);
    if end < u64::from(Place::SLOT_LIMIT) {
        Ok(Place::new(buffer, slot))
    } else {
        Err(format!("slots {slot} … {} are out of range; a buffer has fewer than {}", end - 1, Place::SLOT_LIMIT))
    }
}

/// An object with the address of its first key in the text; 0 if there is none or it has escapes.
pub(super) struct Located<T> {
    pub(super) address: usize,
    pub(super) value: T,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Located<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Located<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Located<T>, A::Error> {
                let mut tap = Tap { map, address: 0 };
                let value = T::deserialize(MapAccessDeserializer::new(&mut tap))?;
                Ok(Located { address: tap.address, value })
            }
        }
        deserializer.deserialize_map(ObjectVisitor(std::marker::PhantomData))
    }
}

/// Passes a map on and remembers the address of its first key.
struct Tap<A> {
    map: A,
    address: usize,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Tap<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        match self.map.next_key::<Text<'de>>()? {
            None => Ok(None),
            Some(Text(Cow::Borrowed(key))) => {
                if self.address == 0 {
                    self.address = key.as_ptr() as usize;
                }
                seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
            }
            Some(Text(Cow::Owned(key))) => seed.deserialize(StringDeserializer::new(key)).map(Some),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// A text that borrows from the file where it has no escapes.
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

/// Makes `Deserialize` for a row: a visitor of a sequence with the text that says what it should be.
macro_rules! row {
    ($name:ident $(<$life:lifetime>)?, $expecting:expr, |$seq:ident| $body:block) => {
        impl<'de $(: $life, $life)?> Deserialize<'de> for $name $(<$life>)? {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct RowVisitor;
                impl<'de> Visitor<'de> for RowVisitor {
                    type Value = row!(@value $name $(<$life>)?);
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                        let mut row = Row { seq, taken: 0, expecting: $expecting };
                        let $seq = &mut row;
                        let value = $body;
                        row.end()?;
                        Ok(value)
                    }
                }
                deserializer.deserialize_seq(RowVisitor)
            }
        }
    };
    (@value $name:ident) => { $name };
    (@value $name:ident <$life:lifetime>) => { $name<'de> };
}

/// Takes the columns of a row one by one.
struct Row<A> {
    seq: A,
    taken: usize,
    expecting: &'static str,
}

impl<'de, A: SeqAccess<'de>> Row<A> {
    fn next<T: Deserialize<'de>>(&mut self) -> Result<T, A::Error> {
        self.optional()?.ok_or_else(|| A::Error::invalid_length(self.taken, &self.expecting))
    }

    fn optional<T: Deserialize<'de>>(&mut self) -> Result<Option<T>, A::Error> {
        let value = self.seq.next_element()?;
        self.taken += usize::from(value.is_some());
        Ok(value)
    }

    fn end(mut self) -> Result<(), A::Error> {
        match self.seq.next_element::<IgnoredAny>()? {
            None => Ok(()),
            Some(_) => Err(A::Error::invalid_length(self.taken + 1, &self.expecting)),
        }
    }
}

const FLOW: &str =
    "a flow, [rank, buffer, slot, rank, buffer, slot, count, \"copy\" or \"reduce\", path, group if not 0]";

/// A flow in its final form.
#[repr(transparent)]
pub(super) struct FlowRow(pub(super) Flow);

row!(FlowRow, FLOW, |row| {
    let src = RankId::from(row.next::<u32>()?);
    let (src_buffer, src_slot) = (row.next()?, row.next()?);
    let dst = RankId::from(row.next::<u32>()?);
    let (dst_buffer, dst_slot) = (row.next()?, row.next()?);
    let count = row.next()?;
    if count == 0 {
        return Err(A::Error::custom("a flow moves at least 1 slot"));
    }
    let src_place = range(src_buffer, src_slot, count).map_err(A::Error::custom)?;
    let dst_place = range(dst_buffer, dst_slot, count).map_err(A::Error::custom)?;
    let OpColumn(op) = row.next()?;
    let PathColumn(path) = row.next()?;
    let group = GroupId::from(row.optional::<u32>()?.unwrap_or(0));
    FlowRow(Flow { src, dst, src_place, dst_place, count, path, group, op })
});

const LINK: &str = "a link, [node, node, capacity, latency, \"down\" if it is]";

/// `[source node, destination node, capacity, latency]`, and `"down"` if it may not be used.
pub(super) struct LinkRow<'a> {
    pub(super) src: u32,
    pub(super) dst: u32,
    pub(super) capacity: Text<'a>,
    pub(super) latency: Text<'a>,
    pub(super) up: bool,
}

row!(LinkRow<'a>, LINK, |row| {
    LinkRow {
        src: row.next()?,
        dst: row.next()?,
        capacity: row.next()?,
        latency: row.next()?,
        up: row.optional::<Down>()?.is_none(),
    }
});

#[derive(Deserialize)]
enum Down {
    #[serde(rename = "down")]
    Down,
}

const PORT: &str = "a port, [node, \"tx\", \"rx\" or \"duplex\", capacity, latency]";

/// `[node, direction, capacity, latency]`.
pub(super) struct PortRow<'a> {
    pub(super) node: u32,
    pub(super) direction: PortDirection,
    pub(super) capacity: Text<'a>,
    pub(super) latency: Text<'a>,
}

row!(PortRow<'a>, PORT, |row| {
    PortRow { node: row.next()?, direction: row.next()?, capacity: row.next()?, latency: row.next()? }
});

/// `"i"`, `"o"` or `"s"`.
#[derive(Clone, Copy)]
pub(super) struct Letter(pub(super) Buffer);

/// Makes `Deserialize` for a word out of a short list.
macro_rules! word {
    ($name:ident, $expecting:literal, $($word:literal => $value:expr),+) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct WordVisitor;
                impl Visitor<'_> for WordVisitor {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_str<E: Error>(self, text: &str) -> Result<$name, E> {
                        match text {
                            $($word => Ok($name($value)),)+
                            _ => Err(E::invalid_value(serde::de::Unexpected::Str(&shorten(text, 40)), &self)),
                        }
                    }
                }
                deserializer.deserialize_str(WordVisitor)
            }
        }
    };
}

word!(
    Letter,
    "a buffer, \"i\" (input), \"o\" (output) or \"s\" (scratch)",
    "i" => Buffer::Input, "o" => Buffer::Output, "s" => Buffer::Scratch
);

struct OpColumn(FlowOp);
word!(OpColumn, "\"copy\" or \"reduce\"", "copy" => FlowOp::Copy, "reduce" => FlowOp::Reduce);

struct TreeUse(fn(TreeId) -> PathKind);
word!(
    TreeUse,
    "\"multicast\" or \"aggregate\"",
    "multicast" => PathKind::Multicast, "aggregate" => PathKind::Aggregate
);

const PATH: &str = "a path, \"local\", the number of a route, [\"multicast\", tree] or [\"aggregate\", tree]";

struct PathColumn(Path);

/// Routes and trees are numbered below this.
const PATH_LIMIT: u64 = 1 << 30;

fn path_id<E: Error>(id: u64) -> Result<u32, E> {
    match u32::try_from(id) {
        Ok(number) if id < PATH_LIMIT => Ok(number),
        _ => Err(E::custom(format!("path {id} is out of range; a schedule has fewer than {PATH_LIMIT}"))),
    }
}

impl<'de> Deserialize<'de> for PathColumn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PathVisitor;
        impl<'de> Visitor<'de> for PathVisitor {
            type Value = PathColumn;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(PATH)
            }
            fn visit_u64<E: Error>(self, route: u64) -> Result<PathColumn, E> {
                Ok(PathColumn(Path::route(RouteId::from(path_id::<E>(route)?))))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<PathColumn, E> {
                match text {
                    "local" => Ok(PathColumn(Path::LOCAL)),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(&shorten(text, 40)), &self)),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<PathColumn, A::Error> {
                let mut row = Row { seq, taken: 0, expecting: PATH };
                let TreeUse(kind) = row.next()?;
                let tree = TreeId::from(path_id::<A::Error>(row.next()?)?);
                row.end()?;
                Ok(PathColumn(Path::new(kind(tree))))
            }
        }
        deserializer.deserialize_any(PathVisitor)
    }
}

const HOP: &str = "a hop, the number of a link, or [device, from port, to port]";

/// A link, or a circuit as `[device, from port, to port]`.
#[repr(transparent)]
pub(super) struct HopRow(pub(super) Hop);

impl<'de> Deserialize<'de> for HopRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HopVisitor;
        impl<'de> Visitor<'de> for HopVisitor {
            type Value = HopRow;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(HOP)
            }
            fn visit_u64<E: Error>(self, link: u64) -> Result<HopRow, E> {
                let link = u32::try_from(link).map_err(|_| E::custom(format!("link {link} is out of range")))?;
                Ok(HopRow(Hop::Link(LinkId::from(link))))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<HopRow, A::Error> {
                let mut row = Row { seq, taken: 0, expecting: HOP };
                let device = DeviceId::from(row.next::<u32>()?);
                let from = PortId::from(row.next::<u32>()?);
                let to = PortId::from(row.next::<u32>()?);
                row.end()?;
                Ok(HopRow(Hop::Circuit(device, Circuit { from, to })))
            }
        }
        deserializer.deserialize_any(HopVisitor)
    }
}

/// A list of hops, or the parts of a route that is split.
pub(super) enum RouteRow {
    Whole(Vec<HopRow>),
    Split(SplitRoute),
}

/// A route that is split.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SplitRoute {
    /// Its parts, in the order in which they cut the data.
    pub(super) parts: Vec<PartFile>,
}

/// A part of a split route.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PartFile {
    /// Share of the data as a fraction, `"1/3"`; the shares of a route add up to 1.
    pub(super) weight: String,
    /// The way, from the source's node to the destination's.
    pub(super) hops: Vec<HopRow>,
}

impl<'de> Deserialize<'de> for RouteRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RouteVisitor;
        impl<'de> Visitor<'de> for RouteVisitor {
            type Value = RouteRow;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a route, a list of hops or {\"parts\": …}")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<RouteRow, A::Error> {
                let mut hops = Vec::new();
                while let Some(hop) = seq.next_element()? {
                    hops.push(hop);
                }
                Ok(RouteRow::Whole(hops))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RouteRow, A::Error> {
                SplitRoute::deserialize(MapAccessDeserializer::new(map)).map(RouteRow::Split)
            }
        }
        deserializer.deserialize_any(RouteVisitor)
    }
}

/// An exact time. Longer numbers than any schedule needs are refused before they cost anything.
pub(super) struct ExactTime(pub(super) Time);

impl<'de> Deserialize<'de> for ExactTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Checked in the visitor: there an error is at the value, afterwards it is at whatever follows.
        struct TimeVisitor;
        impl Visitor<'_> for TimeVisitor {
            type Value = ExactTime;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("exact seconds as \"numerator/denominator\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ExactTime, E> {
                const LIMIT: usize = 1000;
                if LIMIT < text.len() {
                    return Err(E::custom(format!("a time of {} characters; at most {LIMIT} are read", text.len())));
                }
                Time::deserialize(StringDeserializer::new(text.to_owned())).map(ExactTime)
            }
        }
        deserializer.deserialize_str(TimeVisitor)
    }
}

/// Always `rondo.plan`.
pub(super) struct Format;

impl<'de> Deserialize<'de> for Format {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        if text == super::FORMAT {
            return Ok(Self);
        }
        let text = shorten(&text, 60);
        Err(D::Error::custom(format!("{WRONG_FORMAT} of `{text}`, a plan of Rondo says `{}`", super::FORMAT)))
    }
}

/// How messages begin that are about the format and version and not about one value: the reader gives them their codes.
pub(super) const WRONG_FORMAT: &str = "the file has the format";
pub(super) const WRONG_VERSION: &str = "this plan is version";

/// `1.0`, or a later one of version 1.
pub(super) struct Version;

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        let minor = text.strip_prefix("1.").unwrap_or("");
        if !minor.is_empty() && minor.len() <= 9 && minor.bytes().all(|b| b.is_ascii_digit()) {
            return Ok(Self);
        }
        Err(D::Error::custom(format!("{WRONG_VERSION} {}; this rondo reads 1.x", shorten(&text, 60))))
    }
}
