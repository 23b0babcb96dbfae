//! How fast checkpoints are written and read: `cargo bench --bench checkpoint`, beside what the disk takes of plain bytes. Ranks
//! are threads. What is read is what was just written, so that the system may still have it in memory; what is written is on
//! the disk.

#[path = "../examples/common/columns.rs"]
mod columns;
#[path = "../examples/common/table.rs"]
mod table;

use moe_model::gpu::checkpoint::Saved;
use moe_model::gpu::comm::threads::{self, PATIENCE};
use moe_model::gpu::hub;
use moe_model::gpu::random::Random;
use moe_model::gpu::shapes::Dynamic;
use moe_model::gpu::step::{Place, Source, Step};
use moe_model::gpu::{Bf16, Host, Numerics};
use moe_model::spec::{Accounting, Attention, Batch, Experts, Gqa, Layers, Mesh, Routing, Spec, Switch, Zero};
use moe_model::{Bytes, Plan};
use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

type Rank = Step<Host, Dynamic, Bf16>;

/// Weights that take no time.
struct Zeros;

impl Source for Zeros {
    fn fill(&mut self, _: &Place, _: &mut [f32]) -> Result<(), String> {
        Ok(())
    }
}

fn plan(mesh: Mesh) -> Plan {
    let mut spec = Spec::DEFAULT;
    let architecture = &mut spec.architecture;
    (architecture.hidden, architecture.vocab) = (512, 16_000);
    architecture.layers = Layers { moe: 8, ..Layers::DEFAULT };
    architecture.attention = Attention::Gqa(Gqa { heads: 8, kv_heads: 2, head_dim: 64, ..Gqa::DEFAULT });
    architecture.experts = Experts { routed: 8, active: 2, ffn: 512, ..Experts::DEFAULT };
    spec.layout.batch = Batch { sequence: 8, ..Batch::DEFAULT };
    spec.layout.zero = if mesh.dp > 1 { Zero::OPTIMIZER } else { Zero::NONE };
    spec.layout.accounting = Accounting::REFERENCE;
    spec.layout.routing = Routing::WORST;
    spec.layout.mesh = mesh;
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}

/// The longest time that a rank takes for something, and how much more memory the process held meanwhile.
fn timed(plan: &Plan, is_new: bool, of_rank: impl Fn(&mut Rank) + Sync) -> (Duration, Option<u64>) {
    let numerics = Numerics::usual(&plan.spec().architecture);
    let ready = std::sync::Barrier::new(usize::try_from(plan.world()).expect("ranks are few"));
    let (before, most) = (Mutex::new(None), Mutex::new(None));
    let times = threads::run(plan.world(), PATIENCE * 10, |rank, end| {
        let source: &mut dyn Source = if is_new { &mut Random::of(plan) } else { &mut Zeros };
        let step = Step::in_world(*plan, rank, Box::new(end), Host::new(1), numerics, source);
        let mut step = step.unwrap_or_else(|error| panic!("{error}"));
        if ready.wait().is_leader() {
            *before.lock().expect("nobody panics") = memory::forget_peak();
        }
        ready.wait();
        let start = Instant::now();
        of_rank(&mut step);
        let took = start.elapsed();
        if ready.wait().is_leader() {
            *most.lock().expect("nobody panics") = memory::peak();
        }
        ready.wait();
        took
    });
    let times = times.into_iter().map(|time| time.unwrap_or_else(|error| panic!("{error}")));
    let more = before.into_inner().expect("nobody panics").zip(most.into_inner().expect("nobody panics"));
    (times.max().unwrap_or_default(), more.map(|(before, most)| most.saturating_sub(before)))
}

/// What Linux says of this process.
mod memory {
    use std::fs;

    fn status(key: &str) -> Option<u64> {
        let text = fs::read_to_string("/proc/self/status").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
    }

    /// What is held now; peaks count from here.
    pub(crate) fn forget_peak() -> Option<u64> {
        fs::write("/proc/self/clear_refs", "5").ok()?;
        status("VmRSS:")
    }

    pub(crate) fn peak() -> Option<u64> {
        status("VmHWM:")
    }
}

fn bytes_of(checkpoint: &Path) -> u64 {
    let files = fs::read_dir(checkpoint).expect("it is there");
    files.map(|file| file.and_then(|file| file.metadata()).expect("it can be read").len()).sum()
}

/// A file of so many bytes, on the disk.
fn plain(folder: &Path, bytes: u64) -> Duration {
    let block: Vec<u8> = (0..1 << 20).map(|at: u32| at.to_le_bytes()[0] ^ at.to_le_bytes()[1]).collect();
    let start = Instant::now();
    let mut file = File::create(folder.join("plain")).expect("it can be made");
    for _ in 0..bytes.div_ceil(1 << 20) {
        file.write_all(&block).expect("it can be written");
    }
    file.sync_all().expect("it is on the disk");
    let took = start.elapsed();
    fs::remove_file(folder.join("plain")).expect("it is there");
    took
}

fn main() {
    let folder = env::temp_dir().join("moe-model-bench-checkpoint");
    let _ = fs::remove_dir_all(&folder);
    let on = Switch::On;
    let layouts = [
        ("1", Mesh { dp: 1, ..Mesh::DEFAULT }),
        ("dp 4, ep 4", Mesh { dp: 4, ep: 4, ..Mesh::DEFAULT }),
        ("dp 2, tp 2, pp 2, ep 4", Mesh { dp: 2, tp: 2, pp: 2, ep: 4, sequence_parallel: on, ..Mesh::DEFAULT }),
    ];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (written, one) in layouts {
        let one = plan(one);
        let saved = Mutex::new(None);
        let mut row = |what: String, bytes: u64, took: Duration, more: Option<u64>| {
            #[allow(clippy::cast_precision_loss)] // bytes
            let rate = bytes as f64 / took.as_secs_f64() / 1e6;
            let more = more.map_or_else(|| "unknown".to_owned(), |more| Bytes::new(more).to_string());
            rows.push(vec![what, format!("{:.2}", took.as_secs_f64()), format!("{rate:.0}"), more]);
        };
        let (took, more) = timed(&one, true, |step| {
            let folder = step.save(&folder).unwrap_or_else(|error| panic!("{error}"));
            *saved.lock().expect("nobody panics") = Some(folder);
        });
        let checkpoint = saved.into_inner().expect("nobody panics").expect("it is saved");
        let bytes = bytes_of(&checkpoint);
        row(format!("{} written by {written}", Bytes::new(bytes)), bytes, took, more);
        for (read, other) in layouts {
            let (took, more) = timed(&plan(other), false, |step| {
                step.load(&folder).unwrap_or_else(|error| panic!("{error}"));
            });
            row(format!("  read by {read}"), bytes, took, more);
        }
        if written == "1" {
            let start = Instant::now();
            let opened = Saved::open(&checkpoint).unwrap_or_else(|error| panic!("{error}"));
            let naming = &moe_model::checkpoint::Naming::MIXTRAL;
            let out = folder.join("hub");
            hub::write(&opened, naming, &out, Bytes::new(5_000_000_000)).unwrap_or_else(|error| panic!("{error}"));
            row("  written for Hugging Face, weights alone".to_owned(), bytes_of(&out), start.elapsed(), None);
            row("  as many plain bytes written".to_owned(), bytes, plain(&folder, bytes), None);
        }
        fs::remove_dir_all(&folder).expect("it is there");
    }
    let title = "Checkpoints of 67 million parameters: bf16 weights, fp32 master weights and moments";
    let columns = ["<what", "seconds", "MB/s", "memory beyond the ranks' own"];
    println!("{}", table::table(title, &columns, rows.into_iter()));
}
