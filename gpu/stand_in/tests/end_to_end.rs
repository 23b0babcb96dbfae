//! Unmodified cudarc over the stand-in, each case in a process of its own.

// Launches and raw calls are unsafe in cudarc.
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

use cudarc::cublas::{CudaBlas, Gemm, GemmConfig, sys as blas};
use cudarc::driver::{CudaContext, DriverError, LaunchConfig, PushKernelArg, result, sys};
use cudarc::nccl;
use cudarc::nvrtc::{CompileOptions, Ptx, compile_ptx_with_opts};
use half::bf16;
use std::process::{Command, Output};

/// Runs one of the ignored tests over the stand-in.
fn over(case: &str, environment: &[(&str, &str)]) -> Output {
    let own = std::env::current_exe().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_stand-in"))
        .arg(own)
        .args(["--ignored", "--exact", case, "--nocapture"])
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
    output
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const KERNELS: &str = include_str!("kernels/kernels.ptx");
const BUGS: &str = include_str!("kernels/bugs.ptx");

/// A thread for each rank.
fn ranks(count: usize, of: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        for rank in 0..count {
            let of = &of;
            scope.spawn(move || of(rank));
        }
    });
}

#[test]
fn a_kernel_and_products() {
    over("case_kernel_and_products", &[]);
}

#[test]
#[ignore = "runs over the stand-in"]
fn case_kernel_and_products() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let module = context.load_module(Ptx::from_src(KERNELS)).unwrap();
    let add = module.load_function("vector_add").unwrap();
    let (x, y) = ([1.0_f32, 2.0, 3.0], [10.0_f32, 20.0, 30.0]);
    let (dx, dy) = (stream.clone_htod(&x).unwrap(), stream.clone_htod(&y).unwrap());
    let mut dz = stream.alloc_zeros::<f32>(3).unwrap();
    let n = 3_usize;
    let mut launch = stream.launch_builder(&add);
    launch.arg(&dx).arg(&dy).arg(&mut dz).arg(&n);
    unsafe { launch.launch(LaunchConfig::for_num_elems(3)) }.unwrap();
    assert_eq!(stream.clone_dtoh(&dz).unwrap(), [11.0, 22.0, 33.0]);

    // C of 2 by 2 = A of 2 by 3 times B of 3 by 2, by rows.
    let handle = CudaBlas::new(stream.clone()).unwrap();
    let a: Vec<bf16> = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(bf16::from_f32).to_vec();
    let b: Vec<bf16> = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0].map(bf16::from_f32).to_vec();
    let (da, db) = (stream.clone_htod(&a).unwrap(), stream.clone_htod(&b).unwrap());
    let mut dc = stream.alloc_zeros::<bf16>(4).unwrap();
    let config = GemmConfig {
        transa: blas::cublasOperation_t::CUBLAS_OP_N,
        transb: blas::cublasOperation_t::CUBLAS_OP_N,
        m: 2,
        n: 2,
        k: 3,
        alpha: bf16::ONE,
        lda: 2,
        ldb: 3,
        beta: bf16::ZERO,
        ldc: 2,
    };
    unsafe { handle.gemm(config, &db, &da, &mut dc) }.unwrap();
    let c: Vec<f32> = stream.clone_dtoh(&dc).unwrap().iter().map(|v| v.to_f32()).collect();
    assert_eq!(c, [4.0, 5.0, 10.0, 11.0]);
    context.synchronize().unwrap();
}

fn message() -> String {
    let mut text = vec![0_u8; 4096];
    let len = unsafe {
        let f: libloading_symbol::LastReport = libloading_symbol::get("standin_last_report");
        f(text.as_mut_ptr(), text.len())
    };
    text.truncate(len);
    String::from_utf8(text).unwrap()
}

/// The library that cudarc loaded, asked for what a real driver does not have.
mod libloading_symbol {
    pub(crate) type LastReport = unsafe extern "C" fn(*mut u8, usize) -> usize;
    pub(crate) type Set = unsafe extern "C" fn(u64) -> i32;

    pub(crate) unsafe fn get<T: Copy>(name: &str) -> T {
        let library = unsafe { cudarc::driver::sys::culib() };
        *unsafe { library.get::<T>(name.as_bytes()) }.unwrap()
    }
}

#[test]
fn a_bug_is_sticky_and_named() {
    let output = over("case_a_bug", &[]);
    assert!(errors(&output).contains("out_of_bounds, block (0, 0, 0), thread (3, 0, 0)"), "{}", errors(&output));
}

#[test]
#[ignore = "runs over the stand-in"]
fn case_a_bug() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    let module = context.load_module(Ptx::from_src(BUGS)).unwrap();
    let kernel = module.load_function("out_of_bounds").unwrap();
    let mut y = stream.alloc_zeros::<f32>(3).unwrap();
    let n = 3_i32;
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut y).arg(&n);
    unsafe { launch.launch(LaunchConfig::for_num_elems(32)) }.unwrap();
    let code = |e: DriverError| e.0;
    assert_eq!(stream.synchronize().map_err(code), Err(sys::CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
    assert_eq!(stream.alloc_zeros::<f32>(3).map(drop).map_err(code), Err(sys::CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
    assert!(message().contains("12 bytes past the start of an allocation of 12 bytes"), "{}", message());
}

#[test]
fn wrong_arguments_are_refused() {
    over("case_wrong_arguments", &[]);
}

#[test]
#[ignore = "runs over the stand-in"]
fn case_wrong_arguments() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    let module = context.load_module(Ptx::from_src(KERNELS)).unwrap();
    let kernel = module.load_function("to_bf16").unwrap();
    let x = stream.alloc_zeros::<f32>(32).unwrap();
    let mut y = stream.alloc_zeros::<u16>(32).unwrap();
    let n = 32_i32;
    let config = LaunchConfig::for_num_elems(32);
    // In another order.
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&n).arg(&x).arg(&mut y);
    assert_eq!(unsafe { launch.launch(config) }.map(drop).unwrap_err().0, sys::CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(message().contains("argument 0 of 3"), "{}", message());
    // None at all.
    let mut none: [*mut core::ffi::c_void; 3] = [core::ptr::null_mut(); 3];
    let f = unsafe { result::module::get_function(load_raw(KERNELS), c"to_bf16".to_owned()) }.unwrap();
    let (one, warp) = ((1, 1, 1), (32, 1, 1));
    let launched = unsafe { result::launch_kernel(f, one, warp, 0, core::ptr::null_mut(), &mut none) };
    assert_eq!(launched.unwrap_err().0, sys::CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(message().contains("too few arguments"), "{}", message());
}

fn load_raw(text: &str) -> sys::CUmodule {
    let text = std::ffi::CString::new(text).unwrap();
    unsafe { result::module::load_data(text.as_ptr().cast()) }.unwrap()
}

#[test]
fn limits_of_memory_and_leaks() {
    let environment = [("STAND_IN_CAPACITY", "1MiB"), ("STAND_IN_FAIL_ALLOCATION", "3"), ("STAND_IN_DEVICES", "2")];
    let output = over("case_memory", &environment);
    let text = errors(&output);
    assert!(text.contains("allocation 3, of 64 bytes, is the one that is to fail"), "{text}");
    assert!(text.contains("device 1's context ends with 1 allocations of 100 bytes not freed"), "{text}");
    assert!(text.contains("is freed twice"), "{text}");
}

#[test]
#[ignore = "runs over the stand-in"]
fn case_memory() {
    use sys::CUmemPool_attribute_enum::{CU_MEMPOOL_ATTR_USED_MEM_CURRENT, CU_MEMPOOL_ATTR_USED_MEM_HIGH};
    const FULL: sys::CUresult = sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY;
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    assert_eq!(CudaContext::device_count().unwrap(), 2);
    assert!(context.has_async_alloc());
    let a = unsafe { stream.alloc::<u8>(1 << 19) }.unwrap();
    assert_eq!(unsafe { stream.alloc::<u8>(600 << 10) }.unwrap_err().0, FULL);
    assert_eq!(unsafe { stream.alloc::<u8>(64) }.unwrap_err().0, FULL);
    assert_eq!(context.mem_get_info().unwrap(), (1 << 19, 1 << 20));
    drop(a);

    // A pool with a limit, made current: cudarc's ordinary `alloc` is refused by it.
    let mut properties: sys::CUmemPoolProps = unsafe { core::mem::zeroed() };
    properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    properties.maxSize = 1000;
    let pool = unsafe { result::mem_pool::create(&raw const properties) }.unwrap();
    unsafe { result::device::set_mem_pool(context.cu_device(), pool) }.unwrap();
    let a = unsafe { stream.alloc::<u8>(700) }.unwrap();
    assert_eq!(unsafe { stream.alloc::<u8>(301) }.unwrap_err().0, FULL);
    let b = unsafe { stream.alloc::<u8>(200) }.unwrap();
    drop(a);
    let amount = |which| {
        let mut value = 0_u64;
        unsafe { result::mem_pool::get_attribute(pool, which, (&raw mut value).cast()) }.unwrap();
        value
    };
    assert_eq!((amount(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), amount(CU_MEMPOOL_ATTR_USED_MEM_HIGH)), (200, 900));
    let mut zero = 0_u64;
    unsafe { result::mem_pool::set_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, (&raw mut zero).cast()) }.unwrap();
    assert_eq!(amount(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 200);
    drop(b);

    // The second allocation from now on.
    let fail: libloading_symbol::Set = unsafe { libloading_symbol::get("standin_fail_allocation") };
    assert_eq!(unsafe { fail(2) }, 0);
    let held = unsafe { stream.alloc::<u8>(10) }.unwrap();
    assert_eq!(unsafe { stream.alloc::<u8>(10) }.unwrap_err().0, FULL);
    drop(held);

    // Freed twice, and left behind.
    let raw = unsafe { result::malloc_sync(64) }.unwrap();
    unsafe { result::free_sync(raw) }.unwrap();
    assert_eq!(unsafe { result::free_sync(raw) }.unwrap_err().0, sys::CUresult::CUDA_ERROR_INVALID_VALUE);
    let other = CudaContext::new(1).unwrap();
    let left = unsafe { other.default_stream().alloc::<u8>(100) }.unwrap();
    let _ = left.leak();
    drop(other);
}

#[test]
fn without_running_kernels_everything_is_still_bounded() {
    over("case_dry", &[("STAND_IN_DRY", "1"), ("STAND_IN_CAPACITY", "160GiB")]);
}

#[test]
#[ignore = "runs over the stand-in"]
fn case_dry() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    let module = context.load_module(Ptx::from_src(KERNELS)).unwrap();
    let kernel = module.load_function("to_bf16").unwrap();
    let x = stream.alloc_zeros::<f32>(30 << 30).unwrap();
    let mut y = unsafe { stream.alloc::<u16>(10 << 30) }.unwrap();
    let n = i32::MAX;
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&x).arg(&mut y).arg(&n);
    unsafe { launch.launch(LaunchConfig::for_num_elems(1 << 31)) }.unwrap();
    assert!(unsafe { stream.alloc::<u8>(30 << 30) }.is_err());
    assert_eq!(context.mem_get_info().unwrap().0, (160 << 30) - (140 << 30));
}

#[test]
fn the_compiler_makes_of_the_sources_what_is_kept() {
    let output = over("case_compiler", &[]);
    if errors(&output).contains("no NVRTC") {
        println!("no NVRTC: nothing was compiled");
    }
}

#[test]
#[ignore = "runs over the stand-in"]
fn case_compiler() {
    if !unsafe { cudarc::nvrtc::sys::is_culib_present() } {
        eprintln!("no NVRTC");
        return;
    }
    let compile = |source: &str, architecture: &str| {
        let options = vec![format!("--gpu-architecture={architecture}")];
        compile_ptx_with_opts(source, CompileOptions { options, ..Default::default() }).unwrap()
    };
    let sources = [include_str!("kernels/kernels.cu"), include_str!("kernels/bugs.cu")];
    for (source, kept) in sources.into_iter().zip([KERNELS, BUGS]) {
        let found = compile(source, "compute_80").to_src();
        if found.contains("V13.0.88") {
            assert_eq!(found.trim_end_matches('\0'), kept, "emitted anew from the source");
        }
    }
    // For the device that the stand-in says it is.
    let context = CudaContext::new(0).unwrap();
    let (major, minor) = context.compute_capability().unwrap();
    let stream = context.default_stream();
    let module = context.load_module(compile(sources[0], &format!("compute_{major}{minor}"))).unwrap();
    let reverse = module.load_function("dynamic_reverse").unwrap();
    let mut x = stream.clone_htod(&[1_i32, 2, 3, 4]).unwrap();
    let n = 4_i32;
    let mut launch = stream.launch_builder(&reverse);
    launch.arg(&mut x).arg(&n);
    unsafe { launch.launch(LaunchConfig { grid_dim: (1, 1, 1), block_dim: (4, 1, 1), shared_mem_bytes: 16 }) }.unwrap();
    assert_eq!(stream.clone_dtoh(&x).unwrap(), [4, 3, 2, 1]);
}

#[test]
fn several_devices_in_several_threads() {
    over("case_threads", &[("STAND_IN_DEVICES", "3")]);
}

#[test]
#[ignore = "runs over the stand-in"]
fn case_threads() {
    ranks(3, |rank| {
        let context = CudaContext::new(rank).unwrap();
        let stream = context.new_stream().unwrap();
        let module = context.load_module(Ptx::from_src(KERNELS)).unwrap();
        let add = module.load_function("vector_add").unwrap();
        #[allow(clippy::cast_precision_loss)] // small
        let x = vec![rank as f32; 1000];
        let dx = stream.clone_htod(&x).unwrap();
        let mut dz = unsafe { stream.alloc::<f32>(1000) }.unwrap();
        for _ in 0..10 {
            let n = 1000_usize;
            let mut launch = stream.launch_builder(&add);
            launch.arg(&dx).arg(&dx).arg(&mut dz).arg(&n);
            unsafe { launch.launch(LaunchConfig::for_num_elems(1000)) }.unwrap();
        }
        let z = stream.clone_dtoh(&dz).unwrap();
        assert!(z.iter().zip(&x).all(|(z, x)| z.to_bits() == (x + x).to_bits()));
    });
}

#[test]
fn ranks_of_a_communicator_exchange_what_they_have() {
    over("case_ranks", &[("STAND_IN_DEVICES", "3")]);
}

#[test]
#[ignore = "runs over the stand-in"]
fn case_ranks() {
    let id = nccl::Id::new().unwrap();
    ranks(3, |rank| {
        let stream = CudaContext::new(rank).unwrap().default_stream();
        let comm = nccl::Comm::from_rank(stream.clone(), rank, 3, id).unwrap();
        #[allow(clippy::cast_precision_loss)] // small
        let own: Vec<f32> = (0..6).map(|i| (10 * rank + i) as f32).collect();
        let from = stream.clone_htod(&own).unwrap();

        let mut all = stream.alloc_zeros::<f32>(18).unwrap();
        comm.all_gather(&from, &mut all).unwrap();
        let expected: Vec<f32> =
            [0.0, 10.0, 20.0].iter().flat_map(|r| (0..6_u8).map(move |i| r + f32::from(i))).collect();
        assert_eq!(stream.clone_dtoh(&all).unwrap(), expected);

        let mut sum = stream.alloc_zeros::<f32>(6).unwrap();
        comm.all_reduce(&from, &mut sum, &nccl::ReduceOp::Sum).unwrap();
        assert_eq!(stream.clone_dtoh(&sum).unwrap(), [30.0, 33.0, 36.0, 39.0, 42.0, 45.0]);
        comm.all_reduce(&from, &mut sum, &nccl::ReduceOp::Max).unwrap();
        assert_eq!(stream.clone_dtoh(&sum).unwrap(), [20.0, 21.0, 22.0, 23.0, 24.0, 25.0]);

        let mut part = stream.alloc_zeros::<f32>(2).unwrap();
        comm.reduce_scatter(&from, &mut part, &nccl::ReduceOp::Sum).unwrap();
        let parts = [[30.0, 33.0], [36.0, 39.0], [42.0, 45.0]];
        assert_eq!(stream.clone_dtoh(&part).unwrap(), parts[rank]);

        let mut first = stream.alloc_zeros::<f32>(6).unwrap();
        comm.broadcast(Some(&from), &mut first, 1).unwrap();
        assert_eq!(stream.clone_dtoh(&first).unwrap()[0].to_bits(), 10.0_f32.to_bits());

        // Around a ring, all at once.
        let mut come = stream.alloc_zeros::<f32>(6).unwrap();
        let [next, before] = [(rank + 1) % 3, (rank + 2) % 3].map(|rank| i32::try_from(rank).unwrap());
        nccl::group_start().unwrap();
        comm.send(&from, next).unwrap();
        comm.recv(&mut come, before).unwrap();
        nccl::group_end().unwrap();
        let expected = [20.0_f32, 0.0, 10.0][rank];
        assert_eq!(stream.clone_dtoh(&come).unwrap()[0].to_bits(), expected.to_bits());
    });
}

#[test]
fn ranks_that_disagree_or_do_not_come_are_errors() {
    let output = over("case_ranks_apart", &[("STAND_IN_DEVICES", "2"), ("STAND_IN_PATIENCE", "200")]);
    let text = errors(&output);
    assert!(text.contains("rank 1 does a message of 4 bytes, rank 0 a message of 8"), "{text}");
    assert!(text.contains("ranks 0 and 1 are both on device 0"), "{text}");
    assert!(text.contains("rank 0 waits for ranks [1] to join"), "{text}");
    assert!(text.contains("a message: rank 0 has ended"), "{text}");
    assert!(text.contains("byte 0 of 4 was never written"), "{text}");
}

#[test]
#[ignore = "runs over the stand-in"]
fn case_ranks_apart() {
    let id = nccl::Id::new().unwrap();
    ranks(2, |rank| {
        let stream = CudaContext::new(rank).unwrap().default_stream();
        let comm = nccl::Comm::from_rank(stream.clone(), rank, 2, id).unwrap();
        let mut held = stream.clone_htod(&[1.0_f32, 2.0]).unwrap();
        if rank == 0 {
            comm.send(&held, 1).unwrap();
            // Until the other has it, as it would be.
            std::thread::sleep(std::time::Duration::from_millis(50));
        } else {
            assert!(comm.recv(&mut held.slice_mut(..1), 0).is_err());
            // Nothing more comes.
            assert!(comm.recv(&mut held, 0).is_err());
        }
    });
    // What nobody wrote is not summed up.
    let stream = CudaContext::new(0).unwrap().default_stream();
    let comm = nccl::Comm::from_rank(stream.clone(), 0, 1, nccl::Id::new().unwrap()).unwrap();
    let unwritten = unsafe { stream.alloc::<f32>(1) }.unwrap();
    let mut sum = stream.alloc_zeros::<f32>(1).unwrap();
    assert!(comm.all_reduce(&unwritten, &mut sum, &nccl::ReduceOp::Sum).is_err());
    // Two ranks on one device, and a rank that does not come.
    let id = nccl::Id::new().unwrap();
    ranks(2, |rank| {
        if rank == 1 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let stream = CudaContext::new(0).unwrap().default_stream();
        assert!(nccl::Comm::from_rank(stream, rank, 2, id).is_err());
    });
}

/// As ranks of the real library, which connects two of them when both ask for it: a ring of ranks that all send first stalls
/// but in a group.
#[test]
fn ranks_that_all_send_first_wait_for_each_other() {
    let output = over("case_ring", &[("STAND_IN_DEVICES", "3"), ("STAND_IN_PATIENCE", "300")]);
    let text = errors(&output);
    // One gives up first, which ends the others.
    assert!(text.contains(", which does not ask for that"), "{text}");
}

#[test]
#[ignore = "runs over the stand-in"]
fn case_ring() {
    let id = nccl::Id::new().unwrap();
    ranks(3, |rank| {
        let stream = CudaContext::new(rank).unwrap().default_stream();
        let comm = nccl::Comm::from_rank(stream.clone(), rank, 3, id).unwrap();
        let own = stream.clone_htod(&[1_u8]).unwrap();
        assert!(comm.send(&own, i32::try_from((rank + 1) % 3).unwrap()).is_err());
    });
}

#[test]
fn ranks_are_processes() {
    let output = over("case_processes", &[("STAND_IN_DEVICES", "3"), ("STAND_IN_PATIENCE", "10000")]);
    let text = errors(&output);
    assert!(text.contains("ranks 0 and 0 are both on device 1"), "{text}");
    assert!(text.contains("a message: rank 2 has ended"), "{text}");
}

/// The first of three ranks, which starts the others.
#[test]
#[ignore = "runs over the stand-in"]
fn case_processes() {
    let ids = [nccl::Id::new().unwrap(), nccl::Id::new().unwrap()];
    let said: Vec<String> = ids.iter().map(|id| id.internal().map(|byte| byte.to_string()).join(",")).collect();
    let start = |rank: usize| {
        let mut other = Command::new(std::env::current_exe().unwrap());
        other.args(["--ignored", "--exact", "case_of_processes", "--nocapture"]);
        other.env("CASE_IDS", said.join(";")).env("CASE_RANK", rank.to_string()).spawn().unwrap()
    };
    let others = [start(1), start(2)];
    let ended = std::thread::spawn(|| others.map(|mut other| other.wait().unwrap().success()));
    one_of_processes(0, ids);
    assert_eq!(ended.join().unwrap(), [true; 2]);
}

#[test]
#[ignore = "runs over the stand-in"]
fn case_of_processes() {
    let rank = std::env::var("CASE_RANK").unwrap().parse().unwrap();
    let ids = std::env::var("CASE_IDS").unwrap();
    let id = |text: &str| {
        let mut bytes = [0; 128];
        bytes.iter_mut().zip(text.split(',')).for_each(|(to, byte)| *to = byte.parse().unwrap());
        nccl::Id::uninit(bytes)
    };
    let (first, second) = ids.split_once(';').unwrap();
    one_of_processes(rank, [id(first), id(second)]);
}

fn one_of_processes(rank: usize, [id, another]: [nccl::Id; 2]) {
    let stream = CudaContext::new(rank).unwrap().default_stream();
    let comm = nccl::Comm::from_rank(stream.clone(), rank, 3, id).unwrap();
    let _alone = (rank == 1).then(|| nccl::Comm::from_rank(stream.clone(), 0, 1, another).unwrap());
    #[allow(clippy::cast_precision_loss)] // small
    let own = stream.clone_htod(&[rank as f32, 1.0]).unwrap();
    let mut sum = stream.alloc_zeros::<f32>(2).unwrap();
    comm.all_reduce(&own, &mut sum, &nccl::ReduceOp::Sum).unwrap();
    assert_eq!(stream.clone_dtoh(&sum).unwrap(), [3.0, 3.0]);
    let mut come = stream.alloc_zeros::<f32>(2).unwrap();
    let [next, before] = [(rank + 1) % 3, (rank + 2) % 3].map(|rank| i32::try_from(rank).unwrap());
    nccl::group_start().unwrap();
    comm.send(&own, next).unwrap();
    comm.recv(&mut come, before).unwrap();
    nccl::group_end().unwrap();
    assert_eq!(stream.clone_dtoh(&come).unwrap()[0].to_bits(), [2.0_f32, 0.0, 1.0][rank].to_bits());
    // Two of them on one device, as their launcher may have it by mistake.
    if rank == 2 {
        let stream = CudaContext::new(1).unwrap().default_stream();
        assert!(nccl::Comm::from_rank(stream, 0, 1, another).is_err());
    }
    // The last ends, and one waits for it.
    if rank == 0 {
        assert!(comm.recv(&mut come, 2).is_err());
    }
}
