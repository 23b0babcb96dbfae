//! What the kernels of the CUDA device compile to, without a GPU: NVRTC and ptxas are enough. Where the loader does not
//! find `libnvrtc.so.13` (set `LD_LIBRARY_PATH`), nothing is tested and that is said; so with `ptxas` (in `PATH`, or the
//! variable `PTXAS`) for what it counts.

#![cfg(feature = "cuda")]

use core::fmt::Write as _;
use moe_model_gpu::cuda::compile::{Kind, SOURCES, ptx};
use moe_model_gpu::cuda::launch::{KERNELS, Parameter};
use moe_model_gpu::cuda::{Library, NoDevice};
use moe_model_gpu::smoke::skipped;
use std::collections::BTreeMap;
use std::process::Command;
use std::{env, fs};

const ARCHITECTURES: [&str; 2] = ["80", "90"];
const KINDS: [(Kind, Kind); 3] = [(Kind::F32, Kind::F32), (Kind::Bf16, Kind::Bf16), (Kind::F32, Kind::Bf16)];

/// All units, by architecture and formats; none without a compiler.
fn units() -> Option<Vec<(&'static str, String, String)>> {
    let mut units = Vec::new();
    for architecture in ARCHITECTURES {
        for (activations, weights) in KINDS {
            match ptx(&format!("compute_{architecture}"), activations, weights) {
                Ok(ptx) => {
                    units.push((architecture, format!("{} {}", activations.name(), weights.name()), ptx.to_src()));
                }
                Err(error @ NoDevice::NoLibrary(Library::Nvrtc)) => {
                    skipped(error);
                    return None;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    Some(units)
}

/// What kernels take, as their sources say.
fn sources() -> BTreeMap<&'static str, Vec<Parameter>> {
    let mut kernels = BTreeMap::new();
    for (_, text) in SOURCES {
        for kernel in text.split("KERNEL ").skip(1) {
            let Some((name, rest)) = kernel.split_once('(') else { continue };
            let Some((parameters, _)) = rest.split_once(')').filter(|_| !name.contains('\n')) else { continue };
            let parameters = parameters.split(',').map(|parameter| {
                match parameter.trim().trim_start_matches("const ").split_once(' ') {
                    Some((_, name)) if name.starts_with('*') => Parameter::Address,
                    Some(("u64", _)) => Parameter::U64,
                    Some(("u32", _)) => Parameter::U32,
                    Some(("f32", _)) => Parameter::F32,
                    _ => panic!("{name}: {parameter}"),
                }
            });
            kernels.insert(name, parameters.collect());
        }
    }
    kernels
}

/// The parameters of each `.entry` of PTX, where an address is a whole number.
fn entries(ptx: &str) -> BTreeMap<&str, Vec<Parameter>> {
    let mut entries = BTreeMap::new();
    for entry in ptx.split(".entry ").skip(1) {
        let (name, rest) = entry.split_once('(').expect("an entry has parameters");
        let (parameters, _) = rest.split_once(')').expect("they end");
        let parameters = parameters.split(',').map(|parameter| {
            let words: Vec<&str> = parameter.split_whitespace().collect();
            match words[..] {
                [".param", ".u64", ..] => Parameter::U64,
                [".param", ".u32", _] => Parameter::U32,
                [".param", ".f32", _] => Parameter::F32,
                _ => panic!("{name}: {parameter}"),
            }
        });
        entries.insert(name, parameters.collect());
    }
    entries
}

#[test]
fn launches_pass_what_kernels_take() {
    let declared: BTreeMap<_, _> =
        KERNELS.into_iter().flatten().map(|kernel| (kernel.name, kernel.parameters.to_vec())).collect();
    assert_eq!(declared.len(), KERNELS.iter().map(|kernels| kernels.len()).sum::<usize>(), "names are unlike");
    assert_eq!(sources(), declared);
    let compiled: BTreeMap<_, Vec<Parameter>> = declared
        .into_iter()
        .map(|(name, parameters)| {
            let is_whole = |parameter| matches!(parameter, Parameter::Address | Parameter::U64);
            (name, parameters.into_iter().map(|one| if is_whole(one) { Parameter::U64 } else { one }).collect())
        })
        .collect();
    for (architecture, kinds, ptx) in units().unwrap_or_default() {
        assert_eq!(entries(&ptx), compiled, "compute_{architecture} {kinds}");
    }
}

/// What ptxas says of the kernels of a unit, a line each.
fn counted(ptxas: &str, architecture: &str, kinds: &str, ptx: &str) -> Vec<String> {
    let folder = env::temp_dir().join("moe-model-kernels");
    fs::create_dir_all(&folder).expect("a folder can be made");
    let file = folder.join(format!("{architecture}-{}.ptx", kinds.replace(' ', "-")));
    fs::write(&file, ptx).expect("a file can be written");
    let output = Command::new(ptxas)
        .args(["-v", &format!("-arch=sm_{architecture}"), "-o"])
        .args([file.with_extension("cubin"), file.clone()])
        .output()
        .expect("ptxas runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let number_before = |line: &str, words: &str| {
        let before = line.split(words).next().filter(|before| before.len() < line.len());
        before
            .and_then(|before| before.split([' ', ',']).rfind(|word| !word.is_empty()))
            .map_or(0, |word| word.parse::<u32>().unwrap_or_else(|_| panic!("{line}")))
    };
    let mut lines = Vec::new();
    for kernel in text.split("Compiling entry function '").skip(1) {
        let name = kernel.split('\'').next().unwrap_or_default();
        let of = |words| kernel.lines().map(|line| number_before(line, words)).max().unwrap_or(0);
        let [stores, loads, stack] = ["bytes spill stores", "bytes spill loads", "bytes stack frame"].map(of);
        assert_eq!([stores, loads, stack], [0; 3], "`{name}` for sm_{architecture} {kinds} needs memory of its own");
        let (registers, shared) = (of("registers"), of("bytes smem"));
        lines.push(format!("sm_{architecture} {kinds:<9} {name:<22} {registers:>3} registers {shared:>5} B shared"));
    }
    lines.sort();
    lines
}

#[test]
fn registers_and_shared_memory() {
    let Some(units) = units() else { return };
    let ptxas = env::var("PTXAS").unwrap_or_else(|_| "ptxas".to_owned());
    let Ok(version) = Command::new(&ptxas).arg("--version").output() else {
        skipped(format_args!("no `{ptxas}`; set PTXAS or PATH"));
        return;
    };
    let mut table = String::from(
        "# What ptxas 13.0.88 makes of the kernels; none spills or has a stack. Formats are of activations and weights.\n\
         # Shared memory is without what attention asks for at its launches.\n",
    );
    for (architecture, kinds, ptx) in units {
        for line in counted(&ptxas, architecture, &kinds, &ptx) {
            let _ = writeln!(table, "{line}");
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/kernels.txt");
    if env::var("KERNELS").is_ok_and(|value| value == "overwrite") {
        fs::write(path, &table).expect("a file can be written");
    } else if String::from_utf8_lossy(&version.stdout).contains("V13.0.88") {
        let committed = fs::read_to_string(path).unwrap_or_default();
        let unlike = table.lines().find(|line| !committed.lines().any(|other| other == *line));
        assert!(
            unlike.is_none() && table.lines().count() == committed.lines().count(),
            "KERNELS=overwrite? {unlike:?}"
        );
    } else {
        println!("not compared: {ptxas} is of another version than the table");
    }
}
