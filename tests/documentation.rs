//! The README and the cookbook, as their reader follows them: every command is run, and what is shown below it is what it
//! prints. Rust is run by rustdoc (`src/lib.rs`, `src/cookbook.rs`); the quick start is followed here in a crate of its own.

#![cfg(unix)] // readers are shown commands of a shell

use moe_model::{Plan, Spec};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// A fenced block of a page.
struct Block {
    language: String,
    text: String,
    /// The file that the paragraph in front of it names, `src/main.rs`.
    file: Option<String>,
    /// The last heading of the second level.
    section: String,
}

/// Commands that `.ci/run` runs instead, and how it does: they take longer, or something that is not there everywhere.
const CI: &[(&str, &str)] = &[
    ("cargo test", "\ncargo test\n"),
    ("pip install --target nvrtc --no-deps nvidia-cuda-nvrtc==13.0.88", "nvidia-cuda-nvrtc==13.0.88"),
    ("export LD_LIBRARY_PATH=$PWD/nvrtc/nvidia/cu13/lib", "LD_LIBRARY_PATH=$libraries"),
    (
        "cargo build --release --manifest-path moe-model/Cargo.toml -p moe-model-stand-in",
        "cargo test -p moe-model-stand-in",
    ),
    ("moe-model/target/release/stand-in cargo test", "--test cuda_faults --test smoke"),
    (
        "cargo run -p moe-model-stand-in --bin stand-in -- cargo test -p moe-model-gpu --features cuda --test cuda",
        // One of the tests that it packs.
        "checked gpu/check run target/gpu-check --small",
    ),
    ("cargo build --release --features mpi --example world", r#"cargo build "${mpi[@]}" --example world"#),
    ("mpirun -np 8 target/release/examples/world --mpi", "-np 8 target/debug/examples/world --mpi"),
    ("cargo build --release --features cuda --example world", r#"cargo build "${cuda[@]}" --example world"#),
    (
        "torchrun --no-python --nproc-per-node 8 target/release/examples/world --nccl",
        r#"WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "$0" --nccl"#,
    ),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The README first.
fn pages() -> Vec<PathBuf> {
    let cookbook = fs::read_dir(root().join("examples/cookbook")).expect("there is a cookbook");
    let mut pages: Vec<PathBuf> = cookbook.map(|page| page.expect("it can be listed").path()).collect();
    pages.sort();
    pages.insert(0, root().join("README.md"));
    assert!(pages.len() > 10, "{pages:?}");
    pages
}

fn blocks(page: &Path) -> Vec<Block> {
    let text = fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let (mut blocks, mut inside, mut file, mut section) = (Vec::new(), None::<Block>, None, String::new());
    for line in text.lines() {
        match (&mut inside, line.strip_prefix("```")) {
            (None, Some(language)) => {
                let (language, text) = (language.to_owned(), String::new());
                inside = Some(Block { language, text, file: file.take(), section: section.clone() });
            }
            (Some(_), Some(_)) => blocks.extend(inside.take()),
            (Some(block), None) => block.text.extend([line, "\n"]),
            (None, None) => {
                if let Some(heading) = line.strip_prefix("## ") {
                    heading.clone_into(&mut section);
                }
                let named = line.strip_suffix("`:").and_then(|line| line.rsplit_once('`'));
                file = named.map(|(_, file)| file.to_owned()).or(file.filter(|_| line.is_empty()));
            }
        }
    }
    assert!(inside.is_none(), "{}: a block is left open", page.display());
    blocks
}

/// The examples of this build: `cargo run --example` is one of them, in this test's profile.
fn examples() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target directory");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--examples"]).current_dir(root()).env("CARGO_TARGET_DIR", target);
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    if profile == "release" {
        cargo.arg("--release");
    }
    assert!(cargo.status().expect("cargo starts").success(), "the examples build");
    target.join(profile).join("examples")
}

/// What a shell says of some commands, and its exit code.
fn shell(commands: &str, dir: &Path, variables: &[(&str, &Path)]) -> (i32, String) {
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("exec 2>&1\n{commands}")]).current_dir(dir).env("CARGO_NET_OFFLINE", "true");
    bash.env("CARGO_TERM_COLOR", "never");
    bash.envs(variables.iter().copied());
    let output = bash.output().expect("bash starts");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A line without its comment, and the exit code that the comment says.
fn command(line: &str) -> (&str, i32) {
    let (command, comment) = line.split_once(" #").unwrap_or((line, ""));
    let code = comment.split_once("exit code ").map_or("0", |(_, code)| code.split(' ').next().unwrap_or_default());
    (command.trim(), code.parse().unwrap_or_else(|_| panic!("`{code}` is no exit code: {line}")))
}

/// Lines that are shown stand in what was printed; `…` stands for anything.
fn is_shown(shown: &str, printed: &str, place: &str) {
    for line in shown.lines().filter(|line| !line.trim().is_empty()) {
        let is_there = printed.lines().any(|printed| {
            let mut rest = Some(printed);
            for piece in line.trim_end().split('…') {
                rest = rest.and_then(|rest| rest.split_once(piece)).map(|(_, rest)| rest);
            }
            rest.is_some()
        });
        assert!(is_there, "{place} shows what is not printed:\n{line}\n\nPrinted was:\n{printed}");
    }
}

/// `cargo run --example NAME -- …` as the example that is built.
const CARGO: &str = r#"
cargo() {
    [ "$1" = run ] || { command cargo "$@"; return; }
    while [ "$1" != --example ]; do shift; done
    local name=$2
    shift 2
    [ "$1" = -- ] && shift
    "$EXAMPLES/$name" "$@"
}
"#;

#[test]
fn commands_do_what_pages_say() {
    let (examples, ci) = (examples(), fs::read_to_string(root().join(".ci/run")).expect("there is a CI"));
    // What several pages run is run once.
    let mut said: BTreeMap<String, (i32, String)> = BTreeMap::new();
    for page in pages() {
        let (mut printed, place) = (None, page.file_name().expect("it has a name").to_string_lossy().into_owned());
        for block in blocks(&page).iter().filter(|block| block.section != "Quick start") {
            match (block.language.as_str(), &printed) {
                ("sh", _) => {
                    let mut all = String::new();
                    for line in block.text.lines() {
                        let (command, expected) = command(line);
                        if let Some((_, instead)) = CI.iter().find(|(known, _)| *known == command) {
                            assert!(ci.contains(instead), "{place}: CI does not run `{instead}`");
                            continue;
                        }
                        let run = || {
                            let variables = [("EXAMPLES", examples.as_path())];
                            shell(&format!("{CARGO}{command}"), root(), &variables)
                        };
                        let (code, text) = said.entry(command.to_owned()).or_insert_with(run);
                        assert_eq!(*code, expected, "{place}: {command}\n{text}");
                        all += text.as_str();
                    }
                    printed = Some(all);
                }
                ("text", Some(printed)) => is_shown(&block.text, printed, &place),
                ("text", None) => panic!("{place} shows what no command prints:\n{}", block.text),
                ("toml", _) => {
                    let spec: Spec = toml::from_str(&block.text).unwrap_or_else(|error| panic!("{place}: {error}"));
                    assert!(Plan::new(spec).is_ok(), "{place}: {}", block.text);
                }
                ("rust", _) => printed = None,
                (other, _) => panic!("{place}: nothing runs blocks of `{other}`"),
            }
        }
    }
    assert!(said.len() > 20, "{said:?}");
}

/// How this workspace builds what it depends on, so that what is built already is not built once more.
fn profiles() -> String {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the file can be read");
    let manifest: toml::Table = manifest.parse().expect("it is TOML");
    let mut profile = manifest["profile"].clone();
    let packages = profile["dev"]["package"].as_table_mut().expect("packages have profiles");
    packages.retain(|package, _| package == "*");
    toml::Table::from_iter([("profile".to_owned(), profile)]).to_string()
}

/// In a new crate beside the clone, paragraph by paragraph.
#[test]
fn a_newcomer_can_follow_the_quick_start() {
    let home = env::temp_dir().join(format!("moe-model-quick-start-{}", std::process::id()));
    let _ = fs::remove_dir_all(&home);
    fs::create_dir_all(&home).expect("a folder can be made");
    std::os::unix::fs::symlink(root(), home.join("moe-model")).expect("a link can be made");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target directory");
    let (lock, here) = (root().join("Cargo.lock"), home.join("here"));
    // What is locked here is on this machine, so that nothing is fetched.
    let prelude = r#"
cargo() { command cargo "$@"; local code=$?; [ "$1" = new ] && cp "$LOCK" "$2/Cargo.lock"; return $code; }
"#;
    fs::create_dir(home.join(".cargo")).expect("a folder can be made");
    fs::write(home.join(".cargo/config.toml"), profiles()).expect("the file can be written");
    let variables = [("LOCK", lock.as_path()), ("CARGO_TARGET_DIR", target), ("HERE", here.as_path())];
    let (mut dir, mut printed, mut steps) = (home.clone(), String::new(), 0);
    for block in blocks(&root().join("README.md")).iter().filter(|block| block.section == "Quick start") {
        match (block.language.as_str(), &block.file) {
            ("rust", Some(file)) => fs::write(dir.join(file), &block.text).expect("the file can be written"),
            ("sh", _) => {
                let lines: Vec<(&str, i32)> = block.text.lines().map(command).collect();
                let commands: Vec<&str> = lines.iter().map(|(command, _)| *command).collect();
                let expected = lines.last().map_or(0, |(_, code)| *code);
                let script = format!("{prelude}trap 'pwd > \"$HERE\"' EXIT\nset -e\n{}", commands.join("\n"));
                let (code, text) = shell(&script, &dir, &variables);
                assert_eq!(code, expected, "{}\n{text}", block.text);
                dir = PathBuf::from(fs::read_to_string(&here).expect("the shell said where it is").trim());
                (printed, steps) = (text, steps + 1);
            }
            ("text", _) => is_shown(&block.text, &printed, "the quick start"),
            (other, _) => panic!("the quick start has a block of `{other}` that nothing runs:\n{}", block.text),
        }
    }
    assert_eq!(steps, 4);
    fs::remove_dir_all(&home).expect("the folder can be removed");
}
