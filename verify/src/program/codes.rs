//! The codes of program verification.

use rondo_ir::diagnostic::CodeEntry;

/// The codes V101 … V139.
pub const CODES: &[CodeEntry] = &[
    CodeEntry {
        code: "V101",
        title: "a program does not fit its claim",
        explanation: "The number of ranks or the chunk count of the program differs from that of the collective it is checked \
                      against, or its connections hold no message. Nothing else can be checked then.",
    },
    CodeEntry {
        code: "V102",
        title: "an instruction leaves a buffer",
        explanation: "The first slot plus the count runs past the end of the input, output or scratch buffer. Runtimes check the \
                      first slot at most, so such an instruction reads or writes foreign memory.",
    },
    CodeEntry {
        code: "V103",
        title: "a peer does not exist",
        explanation: "An instruction names a rank that the program does not have, or sends to or receives from its own rank \
                      through a FIFO.",
    },
    CodeEntry {
        code: "V104",
        title: "two threadblocks own one end of a connection",
        explanation: "A connection (source rank, destination rank, channel) is one FIFO. Each of its ends must belong to one \
                      threadblock; two of them would race for its messages and counters. Use another channel for the second one.",
    },
    CodeEntry {
        code: "V105",
        title: "sends and receives do not pair up",
        explanation: "The k-th send of a connection is received by its k-th receive. Their counts must be equal, and there must be \
                      as many sends as receives: a message that is left over breaks the next call on the same communicator, a \
                      receive without a message hangs.",
    },
    CodeEntry {
        code: "V106",
        title: "a dependency names nothing",
        explanation: "An instruction waits for a threadblock or an instruction that does not exist on its rank, or for itself. \
                      Runtimes do not check this; they spin for ever or read foreign memory.",
    },
    CodeEntry {
        code: "V107",
        title: "a dependency is never published",
        explanation: "A threadblock publishes its progress only after instructions that say so (MSCCL: hasdep=\"1\"). Neither the \
                      instruction that is waited for nor any later one of its threadblock does, so the waiter hangs.",
    },
    CodeEntry {
        code: "V108",
        title: "a barrier never opens for all",
        explanation: "All threadblocks that take part in a barrier must agree on who takes part, and come equally often.",
    },
    CodeEntry {
        code: "V109",
        title: "an instruction does nothing or has no value",
        explanation: "It moves 0 slots, has no source, or has no destination. A value must be received or read before it can be \
                      stored or sent.",
    },
    CodeEntry {
        code: "V110",
        title: "an instruction overlaps itself",
        explanation: "Source and destination range of one instruction share memory but are shifted against each other (or several \
                      sources touch the destination). The result would depend on how the runtime cuts and orders the copy.",
    },
    CodeEntry {
        code: "V111",
        title: "a program is too large to decide",
        explanation: "Unrolled loops, buffers or sums exceed the work limit. The program is neither proved nor refuted.",
    },
    CodeEntry {
        code: "V112",
        title: "a wait can never be satisfied",
        explanation: "A wait asks for a higher value of a counter than all signals of the program together give it.",
    },
    CodeEntry {
        code: "V113",
        title: "signals that nobody waits for",
        explanation: "A counter gets more signals than the highest wait asks for. Within one call that does no harm; where counters \
                      outlive the call, the next one starts with a wrong value. Also, the call may end before they arrive.",
    },
    CodeEntry {
        code: "V114",
        title: "deadlock",
        explanation: "Threadblocks wait for each other in a cycle through dependencies, messages, counters or barriers, however \
                      deep the FIFOs are. The cycle is listed.",
    },
    CodeEntry {
        code: "V115",
        title: "deadlock at this FIFO depth",
        explanation: "A send waits while its connection is full, and threadblocks wait for each other in a cycle that contains such a \
                      send. The program finishes with deeper FIFOs; the report says from which depth on.",
    },
    CodeEntry {
        code: "V116",
        title: "deadlock when messages are split",
        explanation: "Runtimes split a message of several slots when it is large: each part takes its own place in the FIFO. With one \
                      slot a message the program hangs at this depth, though with whole messages it does not: it works for \
                      small sizes and hangs for large ones.",
    },
    CodeEntry {
        code: "V117",
        title: "data race",
        explanation: "Two instructions touch one place, at least one of them writes, and nothing orders them: neither their \
                      threadblock, nor a dependency, a message, a counter or a barrier. The result depends on timing. Room in a FIFO \
                      does not count as order. Messages count slot by slot, because runtimes split large ones.",
    },
    CodeEntry {
        code: "V118",
        title: "a read of something undefined",
        explanation: "Scratch, and the output of an out-of-place call, hold nothing at the start. The instruction reads, sends or adds \
                      a slot before anything was written there.",
    },
    CodeEntry {
        code: "V119",
        title: "the caller's input is overwritten",
        explanation: "Out of place the input buffer belongs to the caller and is constant in the interface of every collective \
                      library. No runtime objects when a schedule writes to it.",
    },
    CodeEntry {
        code: "V120",
        title: "a wrong result",
        explanation: "After the program an output slot does not hold exactly the contributions that the collective asks for: one is \
                      missing, counted twice, or foreign. The message names the slot and the instruction at which it went wrong: \
                      the one that adds what is there already, or else the last one that writes the slot.",
    },
    CodeEntry {
        code: "V121",
        title: "an order was not decided",
        explanation: "Several threadblocks signal one counter and a wait asks for less than their total. Which signals it waits for \
                      depends on timing; too many pairs of accesses rest on it to try them all.",
    },
    CodeEntry {
        code: "V122",
        title: "replicas that may differ in rounding",
        explanation: "Each rank of an all_reduce has the right sum, but not all add in the same order. Floating-point addition does not \
                      associate, so the results can differ in their last bits, and training runs diverge from replica to replica. \
                      One-shot algorithms do this, where every rank adds what came from all others. The sum is right; the file is \
                      not refuted.",
    },
    CodeEntry {
        code: "V130",
        title: "a program makes other transfers than the schedule",
        explanation: "Between the same ranks the schedule moves a value that the program does not move, or the other way round. A \
                      value is an input slot or a sum in a certain order; staging through scratch does not matter.",
    },
    CodeEntry {
        code: "V131",
        title: "a program ends with another value than the schedule",
        explanation: "An output slot ends with a sum that was added in another order than in the schedule, or with another value.",
    },
    CodeEntry {
        code: "V132",
        title: "a schedule and a program cannot be compared",
        explanation: "They are about different collectives, rank counts or chunk counts, or the schedule has several groups, which a \
                      program of one group cannot be.",
    },
];
