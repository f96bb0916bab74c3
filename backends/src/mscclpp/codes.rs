//! The codes of MSCCL++ plans, for `rondo explain`.

use rondo_ir::diagnostic::CodeEntry;

const fn entry(code: &'static str, title: &'static str, explanation: &'static str) -> CodeEntry {
    CodeEntry { code, title, explanation }
}

/// Codes B200 … B237.
pub const CODES: &[CodeEntry] = &[
    entry(
        "B200",
        "the file is no well-formed JSON",
        "An MSCCL++ execution plan is one JSON object with \"name\", \"collective\" and \"gpus\". The text breaks a rule of JSON at the place \
         that is shown, or ends too early. Nesting is limited to 128 levels.",
    ),
    entry(
        "B201",
        "a plan of version 1",
        "MSCCL++ changed the format between 0.7 and 0.8 without a version number: version 1 says \"inputChunks\", version 2 says \
         \"input_chunks\". One operation, `cpkt`, kept its name and changed its meaning (from unpacking to packing). Rondo does not guess: \
         write the plan again with the DSL of MSCCL++ 0.8 or newer.",
    ),
    entry(
        "B202",
        "a key is missing, doubled, or has no legal value",
        "The executor stops at a missing key or a value of another type with an exception of its JSON library, on each rank by itself. The \
         message names the object and what is allowed.",
    ),
    entry(
        "B203",
        "the runtime does not know the operation",
        "The executor refuses the plan with \"Invalid operation type\". The DSL knows one operation more than the executor: `glre`.",
    ),
    entry(
        "B204",
        "an id is not its position",
        "The executor finds a gpu by its place in the list and compares the id (\"GPU rank does not match\"); operations of a threadblock are \
         stored by position, its channels by id. Number both 0, 1, 2, … in the order of the lists.",
    ),
    entry(
        "B205",
        "a buffer has no chunks",
        "The executor divides by input_chunks and output_chunks. With 0 the process dies when the plan is run. Write the chunk count of the \
         collective even where the buffer is not used.",
    ),
    entry(
        "B206",
        "an index is out of range",
        "Channels, remote buffers and semaphores are named by number. Operations use the lists of their threadblock, threadblocks use those of \
         their gpu. The executor checks none of them and reads beyond its arrays.",
    ),
    entry(
        "B207",
        "an operand leaves its buffer",
        "First chunk plus size is more than the chunks of the buffer (for a remote or multicast place: of each rank it leads to). The executor \
         does not check: the operation reads or writes foreign memory.",
    ),
    entry(
        "B208",
        "an operation has the wrong operands",
        "Each operation takes certain operands in a certain order: `put` local to remote, `re` a local destination and at least two local sources, \
         `respkt` data and packets, and so on; all with the same number of chunks. The executor does not check; a source that is missing \
         is read at offset 0.",
    ),
    entry(
        "B209",
        "an operation and its channel type do not go together",
        "`get` and reading reductions run on memory channels only, `flush` on port channels, multicast on switch channels; a remote buffer must \
         list the channel type by which it is reached.",
    ),
    entry(
        "B210",
        "a channel has no partner",
        "The k-th channel of a type from rank a to rank b is the partner of the k-th from b to a. A wait on a channel without partner hangs, and an \
         operation whose channel leads to another rank than its buffer writes to the wrong one.",
    ),
    entry(
        "B211",
        "a barrier does not open for all",
        "All threadblocks that use a barrier number of a gpu must agree on how many they are, be that many, and come equally often. Otherwise it \
         hangs, or opens too early.",
    ),
    entry(
        "B212",
        "a threadblock has too many operations",
        "The executor refuses a threadblock of more than 64 operations, those inside pipelines included. Spread the work over more threadblocks.",
    ),
    entry(
        "B213",
        "more than the runtime has room for",
        "The executor keeps 16 channels and 16 remote buffers of a type a threadblock, 8 channels, 16 semaphores and 10 operands a side an \
         operation, and 16 barriers a device. It does not check: more overrun an array. A warning, because nobody ran it; an error with \
         --runtime mscclpp.",
    ),
    entry(
        "B214",
        "a switch group is not one group",
        "A multicast channel needs the same list of ranks and the same buffer on all its ranks, its own rank among them, no rank twice.",
    ),
    entry(
        "B215",
        "a pipeline that cannot run",
        "A pipeline runs its operations once for every unit of its chunks. It cannot hold another pipeline, and it needs a unit and chunks above 0.",
    ),
    entry(
        "B216",
        "a slice that does not exist",
        "In a thread-block group of n threadblocks each does slice 0 … n - 1 of every operand.",
    ),
    entry(
        "B217",
        "one operation names a channel or semaphore twice",
        "Thread j of the threadblock serves entry j of the list, so two threads would work on one counter at once.",
    ),
    entry(
        "B218",
        "sizes that serve no call",
        "The largest message is below the smallest, the alignment is 0, or a block would have no threads, more than 1024, or fewer than an operation has channels, each of \
         which takes a thread.",
    ),
    entry(
        "B219",
        "the chunk counts do not fit the collective",
        "Among n ranks: allreduce has as many input as output chunks, allgather n times as many output chunks, reducescatter n times as many \
         input chunks, alltoall equally many, a multiple of n; the same on all ranks.",
    ),
    entry("B220", "an operand of 0 chunks", "The operation moves nothing."),
    entry(
        "B230",
        "a key that nobody reads",
        "The executor ignores keys that it does not know. A misspelt key takes its default.",
    ),
    entry(
        "B231",
        "`get` with unequal offsets",
        "By reading the kernel source, `get` swaps the offsets of source and destination, so that it is right only where both are equal. Nobody ran \
         it. The plan is checked as it is meant and left undecided.",
    ),
    entry(
        "B232",
        "`flush` waits for nothing",
        "By reading the kernel source, `flush` loops over the outputs of the operation, of which it has none, and so does not wait. Where the \
         correctness rests on it, the plan is left undecided. `pwsf` does wait.",
    ),
    entry(
        "B233",
        "`pws` on a memory channel loses its signal",
        "By reading the kernel source, a put with signal on a memory channel is a plain put: the waiting rank hangs. The plan is checked as it is \
         meant and left undecided. Write `put`, `nop`, `signal`.",
    ),
    entry(
        "B234",
        "the reduction operator is not read",
        "The DSL writes reduce_op, the executor always adds. A plan for min or max gives a sum.",
    ),
    entry(
        "B235",
        "multicast needs sm_90",
        "Multicast loads and stores are compiled for sm_90 and newer; elsewhere the operation is silently empty.",
    ),
    entry(
        "B236",
        "sizes that are no multiple of 16 bytes",
        "By reading the kernel source, tails that are no multiple of 16 bytes are wrong in reductions. Keep buffer_alignment and unit_size \
         multiples of 16.",
    ),
    entry(
        "B237",
        "a put from several buffers",
        "By reading the kernel source, a put over memory takes the buffer type of its first source for all sources.",
    ),
];
