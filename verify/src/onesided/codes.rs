//! The codes of one-sided programs.

use rondo_ir::diagnostic::CodeEntry;

/// The codes V140 … V160; V102, V112, V114, V117 … V120 mean the same as for other programs.
pub const CODES: &[CodeEntry] = &[
    CodeEntry {
        code: "V140",
        title: "signals and waits do not balance",
        explanation: "A counter must get as many signals as there are waits on it in each call, because it outlives the call. With too few, a wait \
                      hangs; with too many, a wait of the next call passes too early.",
    },
    CodeEntry {
        code: "V141",
        title: "a packet that nobody writes",
        explanation: "An operation waits for packets that no operation writes in the same call. It hangs.",
    },
    CodeEntry {
        code: "V142",
        title: "threads of one threadblock are not ordered",
        explanation: "Operations of a threadblock are issued by all its threads without a barrier between them. Two that touch one place, one of them \
                      writing, need a `nop` between them unless every thread handles the same elements in both. Copies, sums and multicasts at the same offset probably \
                      agree on that, so these are left undecided. A `signal` needs a `nop` before it to \
                      cover what other threads wrote, and a `wait` a `nop` behind it before other threads may rely on it.",
    },
    CodeEntry {
        code: "V143",
        title: "a buffer is touched after its owner's call returned",
        explanation: "A peer reads or writes a rank's input or output, and nothing makes the rank wait for that before its kernel ends. The caller may \
                      read an incomplete result, or overwrite what is still read.",
    },
    CodeEntry {
        code: "V144",
        title: "a buffer may be touched before its owner's call began",
        explanation: "A peer reads or writes a rank's input or output without having heard from that rank in this call. If the peer is \
                      ahead, the owner may still be using the buffer. It is safe only if the caller lets ranks wait for each other between calls, so \
                      the plan is left undecided. Begin with a signal and a wait (relaxed ones will do).",
    },
    CodeEntry {
        code: "V145",
        title: "the next call overtakes",
        explanation: "Called twice in a row, a fast rank of the second call touches a place that a slow rank of the first call still uses. Synchronise at \
                      the end, or use two scratch halves in turn.",
    },
    CodeEntry {
        code: "V146",
        title: "written data is ordered by something relaxed only",
        explanation: "The write and the access behind it are ordered only through relaxed signals, packets of other data, or a `flush` that is suspected \
                      to do nothing. These count, but do not promise that the data is visible. Within a call the plan is left undecided; \
                      at the end of a call this is a warning, because the end of a kernel usually makes up for it.",
    },
    CodeEntry {
        code: "V160",
        title: "a one-sided program was not decided",
        explanation: "Something in it is outside what can be modelled exactly, or it is too large. The message says what.",
    },
];
