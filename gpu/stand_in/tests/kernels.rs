//! Kernels that NVRTC compiled run here, and each planted bug is caught.

use half::bf16;
use moe_model_stand_in::exec::{self, Launch, Traffic};
use moe_model_stand_in::memory::{Memory, Rules};
use moe_model_stand_in::ptx::instruction::Module;
use moe_model_stand_in::ptx::parser::parse;
use moe_model_stand_in::report::{Code, Fault};
use std::collections::HashMap;

const KERNELS: &str = include_str!("kernels/kernels.ptx");
const BUGS: &str = include_str!("kernels/bugs.ptx");

/// A device with a module.
struct Bench {
    memory: Memory,
    module: Module,
    symbols: HashMap<String, u64>,
    constants: Vec<u8>,
    checks_blocks: bool,
}

#[derive(Clone, Copy)]
enum Argument {
    Pointer(u64),
    I32(i32),
    I64(i64),
    F32(f32),
}
use Argument::{F32, I32, I64, Pointer};

impl Bench {
    fn new(text: &str) -> Self {
        let rules = Rules { capacity: 1 << 32, granularity: 1, refuse_unwritten: true, is_dry: false };
        let mut memory = Memory::new(1 << 44, rules);
        let module = parse(text).unwrap();
        let (mut symbols, mut constants) = (HashMap::new(), Vec::new());
        for (name, variable) in &module.variables {
            if variable.is_constant {
                symbols.insert(name.clone(), exec::CONSTANT_BASE + constants.len() as u64);
                constants.extend_from_slice(&variable.content);
            } else {
                symbols.insert(name.clone(), memory.allocate_hidden(&variable.content));
            }
        }
        Self { memory, module, symbols, constants, checks_blocks: false }
    }

    fn empty(&mut self, bytes: usize) -> u64 {
        self.memory.allocate(bytes as u64, None).unwrap()
    }

    fn put<T: Copy, const N: usize>(&mut self, values: &[T], bytes: impl Fn(T) -> [u8; N]) -> u64 {
        let all: Vec<u8> = values.iter().flat_map(|v| bytes(*v)).collect();
        let at = self.empty(all.len());
        self.memory.write(at, &all).unwrap();
        at
    }

    fn f32s(&mut self, values: &[f32]) -> u64 {
        self.put(values, f32::to_le_bytes)
    }

    fn i32s(&mut self, values: &[i32]) -> u64 {
        self.put(values, i32::to_le_bytes)
    }

    fn bf16s(&mut self, values: &[f32]) -> u64 {
        self.put(values, |v| bf16::from_f32(v).to_le_bytes())
    }

    fn get<T, const N: usize>(&self, at: u64, count: usize, from: impl Fn([u8; N]) -> T) -> Vec<T> {
        let mut all = vec![0; count * N];
        self.memory.read(at, &mut all).unwrap();
        all.chunks_exact(N).map(|c| from(c.try_into().unwrap())).collect()
    }

    fn floats(&self, at: u64, count: usize) -> Vec<f32> {
        self.get(at, count, f32::from_le_bytes)
    }

    fn ints(&self, at: u64, count: usize) -> Vec<i32> {
        self.get(at, count, i32::from_le_bytes)
    }

    fn run(&mut self, name: &str, grid: [u32; 3], block: [u32; 3], arguments: &[Argument]) -> Result<Traffic, Fault> {
        self.run_with(name, grid, block, 0, arguments)
    }

    fn run_with(
        &mut self,
        name: &str,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_shared: u32,
        arguments: &[Argument],
    ) -> Result<Traffic, Fault> {
        let entry = &self.module.entries[name];
        assert_eq!(entry.parameters.len(), arguments.len());
        let mut parameters = vec![0; entry.parameter_bytes as usize];
        for (parameter, argument) in entry.parameters.iter().zip(arguments) {
            let bytes = match argument {
                Pointer(p) => p.to_le_bytes().to_vec(),
                I32(i) => i.to_le_bytes().to_vec(),
                I64(i) => i.to_le_bytes().to_vec(),
                F32(f) => f.to_le_bytes().to_vec(),
            };
            assert_eq!(bytes.len(), parameter.bytes as usize);
            parameters[parameter.offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        let launch = Launch {
            entry,
            lines: &self.module.lines,
            constants: &self.constants,
            symbols: &self.symbols,
            grid,
            block,
            dynamic_shared,
            parameters: &parameters,
            checks_blocks: self.checks_blocks,
            most_instructions: 1 << 26,
        };
        exec::run(&launch, &mut self.memory)
    }
}

/// Numbers that repeat late.
fn noise(count: usize) -> Vec<f32> {
    let mut state = 1_u32;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            #[allow(clippy::cast_precision_loss)] // 24 bits fit
            let unit = (state >> 8) as f32 / (1 << 24) as f32;
            4.0 * unit - 2.0
        })
        .collect()
}

#[allow(clippy::float_cmp)] // infinities are equal
fn close(a: &[f32], b: &[f32], within: f32) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!(a == b || (a - b).abs() <= within * b.abs().max(1.0), "{i}: {a} is not {b}");
    }
}

#[test]
fn a_sum_of_vectors_moves_twelve_bytes_an_element() {
    let mut b = Bench::new(KERNELS);
    let (x, y) = (noise(1000), noise(2000)[1000..].to_vec());
    let (px, py, pz) = (b.f32s(&x), b.f32s(&y), b.empty(4000));
    let arguments = [Pointer(px), Pointer(py), Pointer(pz), I64(1000)];
    let traffic = b.run("vector_add", [3, 1, 1], [128, 1, 1], &arguments).unwrap();
    assert_eq!((traffic.read, traffic.written), (8000, 4000));
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
    assert_eq!(b.floats(pz, 1000), expected);
}

#[test]
fn rows_are_summed_in_shared_memory() {
    let mut b = Bench::new(KERNELS);
    let x = noise(5 * 700);
    let (px, py) = (b.f32s(&x), b.empty(20));
    b.run("row_sum", [5, 1, 1], [256, 1, 1], &[Pointer(px), Pointer(py), I32(700)]).unwrap();
    let expected: Vec<f32> = x.chunks(700).map(|r| r.iter().sum()).collect();
    close(&b.floats(py, 5), &expected, 1e-4);
}

#[test]
fn a_norm_in_bf16_by_shuffles() {
    let mut b = Bench::new(KERNELS);
    let (x, w) = (noise(3 * 320), noise(320));
    let (px, pw, py) = (b.bf16s(&x), b.bf16s(&w), b.empty(2 * 3 * 320));
    let arguments = [Pointer(px), Pointer(pw), Pointer(py), I32(320), F32(1e-6)];
    b.run("rms_norm", [3, 1, 1], [128, 1, 1], &arguments).unwrap();
    let round = |v: &[f32]| v.iter().map(|v| bf16::from_f32(*v).to_f32()).collect::<Vec<_>>();
    let (x, w) = (round(&x), round(&w));
    let mut expected = Vec::new();
    for row in x.chunks(320) {
        let mean = row.iter().map(|v| v * v).sum::<f32>() / 320.0;
        expected.extend(row.iter().zip(&w).map(|(v, w)| v / (mean + 1e-6).sqrt() * w));
    }
    let found = b.get(py, 3 * 320, |c| bf16::from_le_bytes(c).to_f32());
    close(&found, &expected, 5e-3);
}

#[test]
fn conversion_to_bf16_is_to_nearest_even() {
    let mut b = Bench::new(KERNELS);
    let mut x = noise(500);
    x.extend([0.0, -0.0, 1.0, 1.003_906_3, 1.011_718_8, f32::MAX, f32::MIN_POSITIVE, 1e-40, f32::INFINITY]);
    let count = x.len();
    let (px, py) = (b.f32s(&x), b.empty(2 * count));
    let n = i32::try_from(count).unwrap();
    b.run("to_bf16", [8, 1, 1], [64, 1, 1], &[Pointer(px), Pointer(py), I32(n)]).unwrap();
    let expected: Vec<u16> = x.iter().map(|v| bf16::from_f32(*v).to_bits()).collect();
    assert_eq!(b.get(py, count, u16::from_le_bytes), expected);
}

#[test]
fn a_counting_sort_by_ballots_is_stable() {
    let mut b = Bench::new(KERNELS);
    let experts: Vec<i32> = (0..300).map(|i| i * i * 7 % 5).collect();
    let mut first = vec![0; 5];
    for e in 0..4_usize {
        let here = experts.iter().filter(|x| **x == i32::try_from(e).unwrap()).count();
        first[e + 1] = first[e] + i32::try_from(here).unwrap();
    }
    let (pe, pf, pp) = (b.i32s(&experts), b.i32s(&first), b.empty(1200));
    let arguments = [Pointer(pe), Pointer(pf), Pointer(pp), I32(300)];
    b.run("scatter_expert", [5, 1, 1], [128, 1, 1], &arguments).unwrap();
    let mut order: Vec<usize> = (0..300).collect();
    order.sort_by_key(|i| experts[*i]);
    let mut expected = vec![0; 300];
    for (place, i) in (0..).zip(order) {
        expected[i] = place;
    }
    assert_eq!(b.ints(pp, 300), expected);
}

#[test]
fn atomics_count() {
    let mut b = Bench::new(KERNELS);
    let experts: Vec<i32> = (0..1000).map(|i| i % 3).collect();
    let (pe, pc, ps) = (b.i32s(&experts), b.i32s(&[0; 3]), b.f32s(&[0.0]));
    let arguments = [Pointer(pe), Pointer(pc), Pointer(ps), I32(1000)];
    let traffic = b.run("histogram", [4, 1, 1], [256, 1, 1], &arguments).unwrap();
    assert_eq!(b.ints(pc, 3), [334, 333, 333]);
    assert_eq!(b.floats(ps, 1), [1000.0]);
    assert_eq!(traffic.atomic, 8000);
}

#[test]
fn the_best_of_a_row_is_the_lowest_index_of_a_tie() {
    let mut b = Bench::new(KERNELS);
    let mut x = noise(2 * 100);
    x[40] = 3.0;
    x[77] = 3.0;
    let (px, py, pb) = (b.f32s(&x), b.empty(800), b.empty(8));
    let arguments = [Pointer(px), Pointer(py), Pointer(pb), I32(100)];
    b.run("softmax_top1", [2, 1, 1], [32, 1, 1], &arguments).unwrap();
    assert_eq!(b.ints(pb, 2)[0], 40);
    let mut expected = Vec::new();
    for row in x.chunks(100) {
        let most = row.iter().copied().fold(f32::MIN, f32::max);
        let sum: f32 = row.iter().map(|v| (v - most).exp()).sum();
        expected.extend(row.iter().map(|v| (v - most).exp() / sum));
    }
    close(&b.floats(py, 200), &expected, 1e-6);
}

#[test]
fn elementary_functions_agree_with_the_host() {
    let mut b = Bench::new(KERNELS);
    let mut x = noise(200);
    // Large ones reduce their angle through local memory.
    x.extend([1e6, -3e7, 80.0, -80.0]);
    let n = i32::try_from(x.len()).unwrap();
    let (px, py) = (b.f32s(&x), b.empty(32 * x.len()));
    b.run("elementary", [2, 1, 1], [128, 1, 1], &[Pointer(px), Pointer(py), I32(n)]).unwrap();
    let expected: Vec<f32> = x
        .iter()
        .flat_map(|v| {
            let a = f64::from(*v);
            let size = f64::from(v.abs());
            #[allow(clippy::cast_possible_truncation)] // rounding is meant
            [
                a.exp(),
                f64::from(v.abs() + 1e-3).ln(),
                a.sin(),
                a.cos(),
                a.tanh(),
                size.powf(f64::from(0.3_f32)),
                size.sqrt(),
                1.0 / (1.0 + (-a).exp()),
            ]
            .map(|v| v as f32)
        })
        .collect();
    close(&b.floats(py, expected.len()), &expected, 2e-6);
}

#[test]
fn a_product_by_tiles() {
    let mut b = Bench::new(KERNELS);
    let (m, n, k) = (20, 35, 50);
    let (x, y) = (noise(m * k), noise(k * n));
    let (px, py, pz) = (b.f32s(&x), b.f32s(&y), b.empty(4 * m * n));
    let arguments = [Pointer(px), Pointer(py), Pointer(pz), I32(20), I32(35), I32(50)];
    b.run("matmul", [3, 2, 1], [16, 16, 1], &arguments).unwrap();
    let mut expected = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..n {
            expected[i * n + j] = (0..k).map(|l| x[i * k + l] * y[l * n + j]).sum();
        }
    }
    close(&b.floats(pz, m * n), &expected, 1e-5);
}

#[test]
fn shared_memory_sized_at_launch() {
    let mut b = Bench::new(KERNELS);
    let px = b.i32s(&(0..96).collect::<Vec<_>>());
    b.run_with("dynamic_reverse", [1, 1, 1], [96, 1, 1], 384, &[Pointer(px), I32(96)]).unwrap();
    assert_eq!(b.ints(px, 96), (0..96).rev().collect::<Vec<_>>());
    let fault = b.run_with("dynamic_reverse", [1, 1, 1], [96, 1, 1], 380, &[Pointer(px), I32(96)]).unwrap_err();
    assert!(fault.code == Code::IllegalAddress && fault.text.contains("the block has 380"), "{}", fault.text);
}

#[test]
fn vectors_of_four_go_at_once() {
    let mut b = Bench::new(KERNELS);
    let x = noise(64);
    let (px, py) = (b.f32s(&x), b.empty(256));
    b.run("scale4", [1, 1, 1], [16, 1, 1], &[Pointer(px), Pointer(py), F32(3.0), I32(16)]).unwrap();
    assert_eq!(b.floats(py, 64), x.iter().map(|v| v * 3.0).collect::<Vec<_>>());
    let fault = b.run("scale4", [1, 1, 1], [16, 1, 1], &[Pointer(px + 4), Pointer(py), F32(3.0), I32(15)]);
    assert_eq!(fault.unwrap_err().code, Code::MisalignedAddress);
}

#[test]
fn divisions_of_whole_numbers() {
    let mut b = Bench::new(KERNELS);
    let x: Vec<i64> = vec![7, -7, 1 << 40, -(1 << 50), 0, 123_456_789_012];
    let y: Vec<i64> = vec![2, 2, 3, 12345, 9, -1000];
    let (px, py) = (b.put(&x, i64::to_le_bytes), b.put(&y, i64::to_le_bytes));
    let (pq, pr) = (b.empty(48), b.empty(24));
    b.run("division", [1, 1, 1], [32, 1, 1], &[Pointer(px), Pointer(py), Pointer(pq), Pointer(pr), I32(6)]).unwrap();
    assert_eq!(b.get(pq, 6, i64::from_le_bytes), x.iter().zip(&y).map(|(x, y)| x / y).collect::<Vec<_>>());
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // as the kernel does
    let rest = x.iter().zip(&y).map(|(x, y)| *x as u32 % ((y | 1) as u32)).collect::<Vec<_>>();
    assert_eq!(b.get(pr, 6, u32::from_le_bytes), rest);
}

#[test]
fn local_memory_and_constants() {
    let mut b = Bench::new(KERNELS);
    let which: Vec<i32> = (0..50).map(|i| i * 3 % 11).collect();
    let (pw, po, pt) = (b.i32s(&which), b.empty(200), b.empty(200));
    b.run("local_pick", [1, 1, 1], [64, 1, 1], &[Pointer(pw), Pointer(po), I32(50)]).unwrap();
    let expected: Vec<i32> = (0..50)
        .map(|i| {
            let mut held: Vec<i32> = (0..8).map(|j| which[(i + j) % 50] * (i32::try_from(j).unwrap() + 1)).collect();
            let at = usize::try_from(which[i] & 7).unwrap();
            for j in 0..8 {
                held[at] += held[(usize::try_from(which[i]).unwrap() + j) & 7];
            }
            held[at]
        })
        .collect();
    assert_eq!(b.ints(po, 50), expected);
    b.run("by_table", [1, 1, 1], [64, 1, 1], &[Pointer(pw), Pointer(pt), I32(50)]).unwrap();
    let table = [1.0, 2.0, 4.0, 8.0];
    let expected: Vec<f32> = which.iter().map(|w| table[usize::try_from(w & 3).unwrap()]).collect();
    assert_eq!(b.floats(pt, 50), expected);
}

#[test]
fn adamw_moves_fourteen_bytes_each_way() {
    let mut b = Bench::new(KERNELS);
    let (w, g) = (noise(256), noise(256));
    let (pw, pg, pp) = (b.bf16s(&w), b.bf16s(&g), b.f32s(&w));
    let (pm, pv) = (b.f32s(&[0.0; 256]), b.f32s(&[0.0; 256]));
    let f = [1e-3, 0.9, 0.95, 1e-8, 0.1, 0.1, 0.05].map(F32);
    let mut arguments = [Pointer(pw), Pointer(pg), Pointer(pp), Pointer(pm), Pointer(pv)].to_vec();
    arguments.extend(f);
    arguments.push(I64(256));
    let traffic = b.run("adamw", [2, 1, 1], [128, 1, 1], &arguments).unwrap();
    assert_eq!((traffic.read, traffic.written), (14 * 256, 14 * 256));
    let expected: Vec<f32> = w
        .iter()
        .zip(&g)
        .map(|(p, g)| {
            let g = bf16::from_f32(*g).to_f32();
            let (m, v) = (0.1 * g, 0.05 * g * g);
            p - 1e-3 * (m / 0.1 / ((v / 0.05).sqrt() + 1e-8) + 0.1 * p)
        })
        .collect();
    close(&b.floats(pp, 256), &expected, 1e-6);
}

#[test]
#[ignore = "prints how fast it is"]
fn speed() {
    let n = 1 << 20;
    let mut b = Bench::new(KERNELS);
    let x = noise(n);
    let (px, py, pz) = (b.f32s(&x), b.f32s(&x), b.empty(4 * n));
    let (pm, pe) = (b.empty(4 << 16), b.empty(32 << 15));
    let count = i64::try_from(n).unwrap();
    let cases = [
        ("vector_add", [512, 1, 1], [256, 1, 1], vec![Pointer(px), Pointer(py), Pointer(pz), I64(count)]),
        ("row_sum", [256, 1, 1], [256, 1, 1], vec![Pointer(px), Pointer(pz), I32(4096)]),
        ("matmul", [16, 16, 1], [16, 16, 1], vec![Pointer(px), Pointer(py), Pointer(pm), I32(256), I32(256), I32(256)]),
        ("elementary", [256, 1, 1], [128, 1, 1], vec![Pointer(px), Pointer(pe), I32(1 << 15)]),
    ];
    for (name, grid, block, arguments) in cases {
        let begun = std::time::Instant::now();
        let traffic = b.run(name, grid, block, &arguments).unwrap();
        let seconds = begun.elapsed().as_secs_f64();
        #[allow(clippy::cast_precision_loss)] // for a person
        let rate = traffic.lane_instructions as f64 / seconds / 1e6;
        println!("{name}: {} lane instructions, {seconds:.3} s, {rate:.0} M/s", traffic.lane_instructions);
    }
}

// Planted bugs.

fn caught(name: &str, threads: u32, code: Code, says: &str, arguments: impl Fn(&mut Bench) -> Vec<Argument>) {
    let mut b = Bench::new(BUGS);
    let arguments = arguments(&mut b);
    let fault = b.run(name, [1, 1, 1], [threads, 1, 1], &arguments).unwrap_err();
    assert!(fault.code == code && fault.text.contains(says), "{:?}: {}", fault.code, fault.text);
    assert!(fault.text.contains("PTX line") && fault.text.contains(name), "{}", fault.text);
}

#[test]
fn caught_a_missing_barrier() {
    caught("missing_barrier", 64, Code::LaunchFailed, "a race", |b| {
        vec![Pointer(b.f32s(&[1.0; 64])), Pointer(b.empty(256))]
    });
}

#[test]
fn caught_a_write_past_the_end() {
    caught("out_of_bounds", 64, Code::IllegalAddress, "128 bytes past the start of an allocation of 128", |b| {
        vec![Pointer(b.empty(128)), I32(32)]
    });
}

#[test]
fn caught_a_misaligned_read() {
    caught("misaligned", 32, Code::MisalignedAddress, "no multiple of 4", |b| {
        vec![Pointer(b.f32s(&[1.0; 64])), Pointer(b.empty(128))]
    });
}

#[test]
fn caught_a_shuffle_with_absent_lanes() {
    caught("absent_lane", 32, Code::LaunchFailed, "lanes", |b| vec![Pointer(b.empty(128))]);
}

#[test]
fn caught_unwritten_shared_memory() {
    caught("shared_uninitialised", 64, Code::LaunchFailed, "never written", |b| vec![Pointer(b.empty(256))]);
}

#[test]
fn caught_a_write_past_shared_memory() {
    caught("shared_out_of_bounds", 64, Code::IllegalAddress, "the block has 256", |b| {
        vec![Pointer(b.empty(256)), I32(1)]
    });
}

#[test]
fn caught_a_barrier_that_a_part_misses() {
    caught("barrier_divergence", 64, Code::LaunchFailed, "barrier divergence", |b| vec![Pointer(b.empty(256))]);
}

#[test]
fn caught_a_sum_onto_unwritten_memory() {
    caught("accumulate_unwritten", 32, Code::LaunchFailed, "nobody wrote", |b| vec![Pointer(b.empty(128)), I32(32)]);
}

#[test]
fn caught_a_branch_on_unwritten_memory() {
    caught("branch_on_unwritten", 32, Code::LaunchFailed, "nobody wrote", |b| {
        vec![Pointer(b.empty(128)), Pointer(b.empty(256))]
    });
}

#[test]
fn caught_a_race_of_blocks() {
    let mut b = Bench::new(BUGS);
    b.checks_blocks = true;
    let y = b.i32s(&[0; 32]);
    b.run("global_race", [1, 1, 1], [1, 1, 1], &[Pointer(y)]).unwrap();
    let fault = b.run("global_race", [2, 1, 1], [1, 1, 1], &[Pointer(y)]).unwrap_err();
    assert!(
        fault.text.contains("global_race, block (1, 0, 0)") && fault.text.contains("a race of blocks"),
        "{fault:?}"
    );
}

#[test]
fn kernels_without_races_of_blocks_pass_that_check_too() {
    let mut b = Bench::new(KERNELS);
    b.checks_blocks = true;
    let x = noise(64 * 64);
    let (px, py, pz) = (b.f32s(&x), b.f32s(&x), b.empty(4 * 64 * 64));
    let arguments = [Pointer(px), Pointer(py), Pointer(pz), I32(64), I32(64), I32(64)];
    b.run("matmul", [4, 4, 1], [16, 16, 1], &arguments).unwrap();
    let (pe, pc, ps) = (b.i32s(&[1; 1000]), b.i32s(&[0; 3]), b.f32s(&[0.0]));
    b.run("histogram", [4, 1, 1], [256, 1, 1], &[Pointer(pe), Pointer(pc), Pointer(ps), I32(1000)]).unwrap();
    assert_eq!(b.ints(pc, 3), [0, 1000, 0]);
}

#[test]
fn caught_a_loop_without_end() {
    let text = ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry spin() {\n$L: bra $L;\n}";
    let fault = Bench::new(text).run("spin", [1, 1, 1], [32, 1, 1], &[]).unwrap_err();
    assert_eq!(fault.code, Code::LaunchTimeout);
}

#[test]
fn an_instruction_that_is_not_understood_is_refused_with_its_line() {
    let text = KERNELS.replacen("fma.rn.f32", "tex.2d.f32", 1);
    let line = text.lines().position(|l| l.contains("tex.2d")).unwrap() + 1;
    let error = parse(&text).unwrap_err();
    assert!(error.line as usize == line && error.text.contains("tex.2d.f32"), "{error}");
}
