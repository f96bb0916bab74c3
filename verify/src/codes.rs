//! The codes of the checks of schedules, with what `rondo explain` says about them.

use rondo_ir::diagnostic::CodeEntry;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $title:literal, $explanation:literal;)*) => {
        /// A fault that a check of schedules can find.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum Code { $($name),* }

        impl Code {
            /// Its code.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code),* }
            }
        }

        /// The entries for the registry.
        pub(crate) const CODES: &[CodeEntry] =
            &[$(CodeEntry { code: $code, title: $title, explanation: $explanation }),*];
    };
}

codes! {
    Tables = "V001", "the schedule's tables do not fit the problem",
        "A schedule gives one chunk count and one scratch table for each group of the problem, and a scratch table has one row \
         for each rank of the group. Give the tables the length that the message names, and a chunk count that the collective \
         can be cut into.";
    Member = "V002", "a flow names a group, or a rank of it, that does not exist",
        "Source and destination of a flow have to be members of the flow's group, because only members have buffers in it. \
         Name another group, or route the data through members only.";
    Slots = "V003", "a flow leaves the buffer",
        "A flow moves at least one slot, and all its slots have to lie in the named buffer at its source and at its destination. \
         The number of slots follows from the collective and its chunk count; scratch slots from the schedule's scratch table.";
    Elements = "V004", "source and destination slot differ in size",
        "Slots of a flow are paired one by one, and each pair must have the same number of elements, or data would be lost or \
         invented. Sizes differ where the element count is no multiple of the slots: the first slots have one more. Pair slots \
         of one number, or give the scratch slot the size of the data that it holds.";
    PathKind = "V005", "a flow between ranks has no path, or local work has one",
        "Only work within one rank is without a path. A flow between two ranks needs a route; a flow with source and \
         destination rank the same must be marked as local.";
    Unknown = "V006", "a route or tree that does not exist",
        "The flow names a path by a number that the schedule's tables do not have. Add the route, or name one that is there.";
    Weights = "V007", "the shares of a split route do not add up to 1",
        "A route that is split lists for each part the share of the data that takes it. Shares are positive, exact and add up \
         to 1.";
    Connection = "V008", "a route does not lead from the source to the destination",
        "Each part of a route is an unbroken chain of links and circuits from the node of the source rank to the node of the \
         destination rank. Correct the hop that the message names, or the placement of the ranks.";
    LinkDown = "V009", "a route uses a link that is down",
        "The topology marks the link as not working. Compile again with that failure, or bring the link up in the topology.";
    NoForwarding = "V010", "a route passes through a node that does not forward",
        "Switches and torus nodes pass traffic on, a GPU normally does not. Send the data in two flows through scratch of the \
         rank in between, or mark the node as forwarding if its hardware does that.";
    RepeatedHop = "V011", "a route or tree uses a hop twice",
        "A path that comes back to a link has a loop in it, which costs time and brings nothing. Remove the loop.";
    Reconfiguration = "V012", "a device is set to something that it cannot take",
        "Before a step each device can be set once, in device order, to a configuration that its rule allows: ports exist and serve \
         the direction, each carries one circuit a direction, and a rotor moves to the next position of its cycle only.";
    CircuitDown = "V013", "a flow uses a circuit that is not up in its step",
        "A circuit exists only while its device is set to it. Set the device before the step, or move the flow to a step in \
         which the circuit is up.";
    Leaves = "V014", "the schedule leaves other circuits than it says",
        "A plan states the configuration that it leaves behind, so that the next one can start from it. Correct the \
         statement, or add the change that makes it true.";
    Tree = "V015", "a multicast or aggregation tree is malformed",
        "The hops of a tree lead from its root to each leaf on exactly one way (or back, for an aggregation), and end nowhere \
         else. Its root is the node of the source rank (aggregation: destination rank), and its leaves are different \
         members of the group, the flow's own end first.";
    Branch = "V016", "a tree branches at a node that cannot copy or add",
        "A multicast is copied, an aggregation added, where the tree branches. Nodes say whether they can do that. Move the \
         branch, or use unicast flows.";
    Symmetry = "V017", "a generator is not a symmetry",
        "Flows made from representatives are believed only if each generator maps topology, circuits, placement and \
         collective onto themselves: rates, latencies and sizes are kept, and routes lead between the images of their ends.";
    Orbit = "V018", "a generator cannot be applied",
        "A generator is a permutation of ranks and of slots with an image for each route and tree, and it maps neighbouring \
         slots of one flow to neighbouring slots.";
    Dependencies = "V019", "the list of dependencies is malformed",
        "Each dependency names an earlier and a later flow that exist; the list is sorted and has no duplicates.";
    ScratchTable = "V020", "a scratch slot has the size of a place that does not exist",
        "The size of a scratch slot is given by naming an input or output place of the collective that is as large.";
    Conflict = "V030", "two flows write one place in one step",
        "Writes of a step land together, so their order is open: two copies, or a copy and a reduction, to one place would leave \
         either value. Only reductions may meet. Move one of the flows to a later step.";
    UndefinedRead = "V031", "a flow sends what nobody wrote",
        "The flow reads a place that is undefined at that time: neither an input nor written by an earlier step. Writes of the \
         same step come too late, because all flows of a step read the state from before it.";
    UndefinedReduce = "V032", "a flow adds to what nobody wrote",
        "A reduction needs a value to add to. The first flow that writes a scratch or output place has to be a copy.";
    ReadOnly = "V033", "a flow writes a read-only input",
        "Out of place the input belongs to the caller and may not change, unless the job says that it may. Write to output or \
         scratch.";
    Missing = "V034", "an output lacks a contribution",
        "At the end the place does not hold all that the collective promises: the value of some rank's input slot never got \
         there. The message says which; the flows listed are all that made the value.";
    Twice = "V035", "an output counts a contribution twice",
        "The value of one input slot was added more than once on its way. For a sum the result is wrong; max and min do not \
         mind, and are not reported. The message names the first flow after which it could not be right any more.";
    Extra = "V036", "an output holds a contribution that does not belong there",
        "The place holds data that the collective does not put there. The message names the flow that brought it.";
    Unwritten = "V037", "an output was never written",
        "The collective promises a value for the place, but it is undefined after the last step: no flow writes it.";
    Unordered = "V040", "two flows that touch one place may run in either order",
        "With explicit dependencies the runtime may choose any order that they allow. Two flows that touch one place, one of them \
         writing, must be ordered by a chain of dependencies; two reductions too, because a runtime that adds two arrivals at once \
         may lose one. Add the dependency that the message names.";
}
