//! Hostile input: a short, seeded run of what the fuzz targets do for hours, crashes that were found, and inputs that are
//! refused by name. Memory is counted: it stays in proportion to the input.

#![allow(clippy::unwrap_used)]

#[path = "common/hostile.rs"]
mod hostile;

use std::path::{Path, PathBuf};

use hostile::CHECKS;
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// What any input may take, and what each of its bytes may take.
const BASE: usize = 64 << 20;
const PER_BYTE: usize = 4096;

/// Runs a check and compares its peak memory with the length of the input.
fn within_memory(name: &str, run: fn(&[u8]), input: &[u8]) {
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    run(input);
    let peak = ALLOCATOR.peak_usage().saturating_sub(before);
    let limit = BASE + PER_BYTE * input.len();
    assert!(peak <= limit, "{name}: {peak} bytes for an input of {} bytes", input.len());
}

/// A generator of numbers that needs no crate: xorshift.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }
}

/// Numbers that parsers stumble over.
const NUMBERS: [&str; 16] = [
    "0",
    "-1",
    "1",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "99999999999999999999999999999999",
    "0x7fffffff",
    "017",
    "1e308",
    "1e999",
    "3abc",
];

/// Changes the input in one to three ways.
fn mutate(input: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut out = input.to_vec();
    for _ in 0..=numbers.below(3) {
        if out.is_empty() {
            break;
        }
        let at = numbers.below(out.len());
        match numbers.below(9) {
            0 => out.truncate(at),
            1 => out[at] ^= 1 << numbers.below(8),
            2 => out[at] = u8::try_from(numbers.below(256)).unwrap(),
            3 => {
                let end = (at + numbers.below(64)).min(out.len());
                out.drain(at..end);
            }
            4 => {
                let end = (at + numbers.below(400)).min(out.len());
                let piece = out[at..end].to_vec();
                let to = numbers.below(out.len());
                out.splice(to..to, piece);
            }
            // A number becomes another.
            5..=7 => {
                if let Some(start) = out[at..].iter().position(u8::is_ascii_digit).map(|offset| at + offset) {
                    let length = out[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                    let number = NUMBERS[numbers.below(NUMBERS.len())];
                    out.splice(start..start + length, number.bytes());
                }
            }
            _ => {
                let words: [&[u8]; 8] =
                    [b"\0", b"\xff\xfe", b"\t", b"<!--", b"]]>", b"\"", b"&lt;", "\u{1F600}".as_bytes()];
                out.splice(at..at, words[numbers.below(words.len())].iter().copied());
            }
        }
    }
    out
}

fn files(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let mut entries: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        entries.iter().for_each(|entry| files(entry, found));
    } else {
        found.push(path.to_path_buf());
    }
}

fn seeds(folders: &[&str]) -> Vec<(PathBuf, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in folders {
        files(&root.join(folder), &mut found);
    }
    assert!(!found.is_empty(), "{folders:?}");
    found.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Deep nesting, bombs and long runs, in every language that is read.
fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let deep = 100_000;
    let entities = "<!DOCTYPE a [<!ENTITY b \"bbbbbbbbbb\">".to_owned()
        + &(0..20).map(|k| format!("<!ENTITY c{k} \"{}\">", "&b;".repeat(20))).collect::<String>()
        + "]><algo name=\"&c19;\"/>";
    let huge = |ranks: &str| {
        format!(
            "<algo name=\"a\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"{ranks}\" ngpus=\"{ranks}\" coll=\"allgather\" \
             inplace=\"0\" outofplace=\"1\" minBytes=\"0\" maxBytes=\"0\">\n<gpu id=\"0\" i_chunks=\"1\" o_chunks=\"{ranks}\" \
             s_chunks=\"16777216\">\n<tb id=\"0\" send=\"-1\" recv=\"-1\" chan=\"0\">\n<step s=\"0\" type=\"cpy\" srcbuf=\"i\" \
             srcoff=\"0\" dstbuf=\"s\" dstoff=\"0\" cnt=\"16777216\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n</tb>\n</gpu>\n</algo>\n"
        )
    };
    vec![
        ("nested json lists", "[".repeat(deep).into_bytes()),
        ("nested json objects", "{\"format\":\"rondo.plan\",\"a\":".repeat(deep / 8).into_bytes()),
        ("nested elements", "<algo>".repeat(deep).into_bytes()),
        ("nested systems", ("<system version=\"1\">".to_owned() + &"<cpu>".repeat(deep)).into_bytes()),
        ("nested toml arrays", ("a = ".to_owned() + &"[".repeat(deep)).into_bytes()),
        ("toml tables", "[a.b.c]\n".repeat(deep).into_bytes()),
        ("entities", entities.into_bytes()),
        ("one long line", vec![b'x'; 4 << 20]),
        ("zeros", vec![0; 1 << 20]),
        ("a long number", ("buffer_size = \"".to_owned() + &"9".repeat(1 << 20) + " GiB\"").into_bytes()),
        ("many attributes", ("<algo".to_owned() + &" a=\"0\"".repeat(deep) + "/>").into_bytes()),
        ("ranks that are not there", huge("4096").into_bytes()),
        ("more ranks that are not there", huge("16777216").into_bytes()),
        ("the most ranks", huge("2147483647").into_bytes()),
    ]
}

/// One test, because memory is counted for the whole process.
#[test]
fn readers_bear_anything() {
    let only = std::env::var("RONDO_HOSTILE_CHECK").ok();
    let rounds: usize = std::env::var("RONDO_HOSTILE_ROUNDS").ok().map_or(1500, |text| text.parse().unwrap());
    let bombs = bombs();
    for (number, check) in (1..).zip(CHECKS) {
        if only.as_deref().is_some_and(|only| only != check.name) {
            continue;
        }
        for (name, bomb) in &bombs {
            within_memory(&format!("{} of {name}", check.name), check.run, bomb);
        }
        // Crashes that were found, kept as files: tests/hostile/<check>/.
        let mut seeds = seeds(check.seeds);
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile").join(check.name);
        if kept.is_dir() {
            let mut found = Vec::new();
            files(&kept, &mut found);
            seeds.extend(found.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())));
        }
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 ^ number);
        for (path, seed) in &seeds {
            within_memory(&path.display().to_string(), check.run, seed);
            // Cut at every place where that is cheap, else at some.
            let stride = (seed.len() / 60).max(1);
            for end in (0..seed.len()).step_by(stride) {
                within_memory(&format!("{} cut at {end}", path.display()), check.run, &seed[..end]);
            }
        }
        // Small inputs take more turns: work, not files, is shared out.
        for round in 0..rounds {
            let (path, seed) = &seeds[numbers.below(seeds.len())];
            if (64 << 10) < seed.len() && round % 8 != 0 {
                continue;
            }
            let input = mutate(seed, &mut numbers);
            if let Some(file) = std::env::var_os("RONDO_HOSTILE_TRACE") {
                // The last input, for a look at what broke.
                std::fs::write(file, &input).unwrap();
            }
            within_memory(&format!("{} mutated, {} round {round}", path.display(), check.name), check.run, &input);
        }
    }
}
