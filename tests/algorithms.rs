//! `docs/algorithms.md`: an entry for each algorithm, saying what the registry says, and tables whose numbers are those of the
//! schedules that are built.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::path::Path;
use std::str::Chars;
use std::sync::Arc;

use common::path;
use num_rational::Ratio;
use rondo::compiler::build::algorithms;
use rondo::compiler::front::job::build_problem;
use rondo::pipeline::{Proof, Request, compile, load_job};

type Number = Ratio<i128>;

fn page() -> String {
    std::fs::read_to_string(path("docs/algorithms.md")).unwrap()
}

/// Name and text of each entry.
fn entries(page: &str) -> Vec<(String, String)> {
    let sections = page.split("\n## ").skip(1);
    let entry = |section: &str| {
        let (heading, text) = section.split_once('\n')?;
        Some((heading.strip_prefix('`')?.strip_suffix('`')?.to_owned(), text.trim().to_owned()))
    };
    sections.filter_map(entry).collect()
}

/// What stands behind `- **key**:`, on one line.
fn said<'a>(entry: &'a str, key: &str) -> Option<&'a str> {
    entry.split_once(&format!("- **{key}**: ")).and_then(|(_, rest)| rest.lines().next())
}

#[test]
fn every_algorithm_has_an_entry_that_says_what_the_registry_says() {
    let page = page();
    let entries = entries(&page);
    let names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, algorithms().iter().map(|algorithm| algorithm.name).collect::<Vec<_>>());
    for (algorithm, (name, entry)) in algorithms().iter().zip(&entries) {
        let title = entry.lines().next().unwrap().trim_end_matches('.');
        assert_eq!(title.to_lowercase(), algorithm.title.to_lowercase(), "{name}");
        let serves: BTreeSet<&str> =
            said(entry, "Serves").unwrap().split(", ").map(|kind| kind.trim_matches('`')).collect();
        assert_eq!(serves, algorithm.collectives.iter().copied().collect(), "{name}");
        assert_eq!(said(entry, "Needs"), Some(algorithm.needs), "{name}");
        assert_eq!(said(entry, "Chunks"), algorithm.is_pipelined().then_some("pipelined"), "{name}");
        // The page gives the source in full; the registry names years, tables and equations.
        let source = entry.split_once("- **Source**: ").unwrap().1.split("\n\n").next().unwrap();
        for word in algorithm.source.split([' ', ';', ',']).filter(|word| word.chars().any(|c| c.is_ascii_digit())) {
            assert!(source.contains(word), "{name}: `{word}` of the source is missing in: {source}");
        }
    }
}

/// A formula of the page: `2(n-1)/n`, `⌊n/2⌋-1+c`; letters next to each other are multiplied.
struct Formula<'a> {
    rest: Peekable<Chars<'a>>,
    values: &'a dyn Fn(char) -> Option<i128>,
}

impl Formula<'_> {
    fn sum(&mut self) -> Number {
        let mut value = self.product();
        while let Some(&sign @ ('+' | '-')) = self.rest.peek() {
            self.rest.next();
            let more = self.product();
            value = if sign == '+' { value + more } else { value - more };
        }
        value
    }

    fn product(&mut self) -> Number {
        let mut value = self.factor();
        loop {
            match self.rest.peek() {
                Some('/') => {
                    self.rest.next();
                    value /= self.factor();
                }
                Some(c) if c.is_alphanumeric() || matches!(c, '(' | '⌊') => value *= self.factor(),
                _ => return value,
            }
        }
    }

    fn factor(&mut self) -> Number {
        let first = self.rest.next().expect("a factor");
        let inner = |formula: &mut Self, end: char| {
            let value = formula.sum();
            assert_eq!(formula.rest.next(), Some(end));
            value
        };
        match first {
            '(' => inner(self, ')'),
            '⌊' => inner(self, '⌋').floor(),
            digit if digit.is_ascii_digit() => {
                let mut number = i128::from(digit.to_digit(10).unwrap());
                while let Some(digit) = self.rest.peek().and_then(|c| c.to_digit(10)) {
                    self.rest.next();
                    number = 10 * number + i128::from(digit);
                }
                number.into()
            }
            letter => (self.values)(letter).unwrap_or_else(|| panic!("`{letter}` means nothing here")).into(),
        }
    }
}

/// The smallest whole number whose power of two is at least that.
fn log(n: u32) -> i128 {
    n.next_power_of_two().trailing_zeros().into()
}

/// A fabric of a table: its section of a job, its ranks, and what its letters mean.
struct Fabric {
    section: String,
    n: u32,
    letters: Vec<(char, i128)>,
}

fn fabrics(name: &str) -> Vec<Fabric> {
    let plain = |kind: &str, n: u32| Fabric {
        section: format!("kind = \"{kind}\"\nnodes = {n}"),
        n,
        letters: vec![('n', n.into()), ('L', log(n)), ('F', n.ilog2().into())],
    };
    let torus = |&(s, k): &(u32, u32)| {
        let (n, sides) = (s.pow(k), vec![s; k as usize]);
        let letters =
            vec![('n', n.into()), ('s', s.into()), ('k', k.into()), ('D', (k * (s / 2)).into()), ('L', log(n))];
        Fabric { section: format!("kind = \"torus\"\nsides = {sides:?}"), n, letters }
    };
    let clos = |&(g, machines): &(u32, u32)| {
        let n = g * machines;
        let letters = vec![('n', n.into()), ('g', g.into()), ('M', machines.into()), ('R', log(machines))];
        Fabric { section: format!("kind = \"clos\"\ntiers = 2\nradix = {}\nnodes = {n}", 2 * g), n, letters }
    };
    let grid = |&(s, k): &(u32, u32)| {
        let (n, sides) = (s.pow(k), vec![s; k as usize]);
        let letters = vec![('n', n.into()), ('s', s.into()), ('k', k.into())];
        Fabric { section: format!("kind = \"grid\"\nsides = {sides:?}"), n, letters }
    };
    // The same links in each rack, between every pair.
    let hybrid = |shape: &(u32, u32)| {
        let Fabric { section, n, letters } = clos(shape);
        let second = "scale_up = { kind = \"mesh\", bandwidth = \"25 GB/s\" }";
        Fabric { section: format!("{section}\n{second}"), n, letters }
    };
    let able = |n: u32| {
        let Fabric { section, n, letters } = plain("switch", n);
        Fabric { section: format!("{section}\nmulticasts = true\nreduces = true"), n, letters }
    };
    match name {
        "able switch" => [3, 4, 5, 6, 7, 8, 11, 16].map(able).into(),
        "grid" => [(2, 2), (3, 2), (4, 2), (5, 2), (2, 3), (3, 3), (4, 3)].iter().map(grid).collect(),
        "hybrid" => [(4, 2), (2, 4), (3, 5), (4, 8), (5, 3)].iter().map(hybrid).collect(),
        "ring" | "switch" => [3, 4, 5, 6, 7, 8, 11, 16].map(|n| plain(name, n)).into(),
        "torus" => [(2, 2), (3, 2), (4, 2), (5, 2), (6, 2), (2, 3), (3, 3), (4, 3), (2, 4)].iter().map(torus).collect(),
        "clos" => [(4, 2), (4, 3), (4, 4), (3, 5), (3, 6), (4, 7), (4, 8), (8, 9)].iter().map(clos).collect(),
        _ => panic!("no fabric `{name}`"),
    }
}

/// Start-ups, hops, bytes and reduced bytes as parts of the message.
fn built(algorithm: &str, collective: &str, fabric: &Fabric, chunks: u32) -> [Number; 4] {
    // Enough factors for every cut.
    let size = u64::from(fabric.n) * 720_720 * 64;
    let job = format!(
        "[topology]\n{}\nbandwidth = \"25 GB/s\"\nlatency = \"500 ns\"\n\n[collective]\nkind = \"{collective}\"\n\
         buffer_size = \"{size} B\"\n\n[cost]\nstartup = \"1 us\"\n",
        fabric.section
    );
    let loaded = load_job("job.toml", job.as_bytes(), Path::new(".")).unwrap();
    let problem = Arc::new(build_problem(&loaded.job, &loaded.fabric).unwrap());
    let request = Request { algorithm: algorithm.to_owned(), chunks: Some(chunks), ..Request::auto() };
    let proof = Proof { smt: false, ..Proof::default() };
    let cost =
        compile(&problem, &loaded.fabric, &request, &proof).unwrap_or_else(|error| panic!("{error}: {job}")).cost;
    let bytes = |bytes: u128| Number::new(bytes.try_into().unwrap(), size.into());
    let mut sums = [Number::from(0); 4];
    for step in &cost.steps {
        let busiest = step.busiest.map_or(0, |busiest| {
            assert_eq!(busiest.rate.bytes_per_second(), 25_000_000_000);
            busiest.bytes
        });
        let start_ups = i128::from(0 < step.hops);
        let terms = [start_ups.into(), i128::from(step.hops).into(), bytes(busiest), bytes(step.reduced)];
        sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
    }
    sums
}

#[test]
fn the_tables_are_exact() {
    let page = page();
    for (name, entry) in entries(&page) {
        let pipelined = said(&entry, "Chunks").is_some();
        let mut rows = 0;
        for line in entry.lines().filter(|line| line.starts_with('|')) {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [collective, fabric, ranks, formulas @ ..] = &cells[..] else { panic!("{line}") };
            if *collective == "collective" || collective.starts_with('-') {
                continue;
            }
            let (ranks, limit) = ranks.split_once(", ").unwrap_or((ranks, if pipelined { "" } else { "c = 1" }));
            let most = |n: u32| match limit {
                "" => u32::MAX,
                "c = 1" => 1,
                "c < n" => n - 1,
                _ => panic!("{line}"),
            };
            let mut tried = 0;
            for fabric in fabrics(fabric) {
                let side = fabric.letters.iter().find(|(letter, _)| *letter == 's').map_or(fabric.n.into(), |s| s.1);
                let fits = match ranks {
                    "any" => true,
                    "2^L" => fabric.n.is_power_of_two(),
                    "others" => !fabric.n.is_power_of_two(),
                    "even" => side % 2 == 0,
                    "odd" => side % 2 == 1,
                    "s = 4" => side == 4,
                    _ => panic!("{line}"),
                };
                for chunks in [1, 2, 4, 7].into_iter().filter(|&chunks| fits && chunks <= most(fabric.n)) {
                    let value = |letter: char| match letter {
                        'c' => Some(chunks.into()),
                        _ => fabric.letters.iter().find(|(known, _)| *known == letter).map(|(_, value)| *value),
                    };
                    let wanted: Vec<Number> = formulas
                        .iter()
                        .map(|text| {
                            let mut formula = Formula { rest: text.chars().peekable(), values: &value };
                            let value = formula.sum();
                            assert_eq!(formula.rest.next(), None, "{text}");
                            value
                        })
                        .collect();
                    let found = built(&name, collective, &fabric, chunks);
                    assert_eq!(found[..], wanted, "{name}: {line}\n{}, {chunks} chunks", fabric.section);
                    tried += 1;
                }
            }
            assert!(2 <= tried, "{line}");
            rows += 1;
        }
        assert!(0 < rows, "{name} has no numbers");
    }
}
