//! Worlds of CUDA devices, whose bytes NCCL carries: each rank a thread with a device of its own, they compute what the same
//! ranks compute over channels, to the bit. Skipped where there are fewer devices (`STAND_IN_DEVICES=4` of the stand-in), which
//! is said.

#![cfg(feature = "cuda")]

use moe_model_core::Plan;
use moe_model_core::groups::Group;
use moe_model_core::spec::{
    Accounting, Attention, Context, Experts, Gqa, Layers, Mesh, Recompute, Routing, Spec, Switch, Zero,
};
use moe_model_gpu::comm::nccl::{Launch, Nccl};
use moe_model_gpu::comm::store::Store;
use moe_model_gpu::comm::threads::{self, PATIENCE};
use moe_model_gpu::comm::{Carrier, CommError};
use moe_model_gpu::cuda::NoDevice;
use moe_model_gpu::random::Random;
use moe_model_gpu::shapes::Dynamic;
use moe_model_gpu::smoke::{ADAMW, skipped};
use moe_model_gpu::{Bf16, Cuda, Host, Numerics, Step};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const RANKS: u64 = 4;

/// Every kind of exchange: two tensor-parallel ranks with sequence parallelism, experts dealt over two, and two stages or
/// replicas that share their optimizer's state.
fn plan(pp: u64) -> Plan {
    of(Mesh { dp: RANKS / 2 / pp, tp: 2, pp, ep: 2, sequence_parallel: Switch::On, ..Mesh::DEFAULT })
}

fn of(mesh: Mesh) -> Plan {
    let mut spec = Spec::DEFAULT;
    let architecture = &mut spec.architecture;
    (architecture.hidden, architecture.vocab) = (16, 40);
    architecture.layers = Layers { dense: 1, moe: 3, ffn: 24, ..Layers::DEFAULT };
    architecture.attention = Attention::Gqa(Gqa { heads: 4, kv_heads: 2, head_dim: 8, ..Gqa::DEFAULT });
    architecture.experts = Experts { routed: 8, active: 2, ffn: 8, ..Experts::DEFAULT };
    let layout = &mut spec.layout;
    layout.mesh = mesh;
    (layout.batch.sequence, layout.batch.micro, layout.batch.count) = (8, 1, 4);
    (layout.recompute, layout.routing, layout.accounting) = (Recompute::Full, Routing::WORST, Accounting::REFERENCE);
    layout.zero = if mesh.pp == 1 { Zero::OPTIMIZER } else { Zero::NONE };
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}

/// Three stages, of which the first and the last hold one table: each sends its gradients to the other before it receives.
fn tied() -> Plan {
    let mut spec = *plan(2).spec();
    let layout = &mut spec.layout;
    layout.mesh = Mesh { dp: 1, tp: 1, pp: 3, ep: 1, sequence_parallel: Switch::Off, ..layout.mesh };
    layout.stages.last = 0;
    spec.architecture.tied_embeddings = Switch::On;
    spec.architecture.layers = Layers { dense: 1, moe: 2, ffn: 24, ..Layers::DEFAULT };
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}

/// Losses and weights behind two steps, as bits.
fn trained(plan: Plan, rank: u64, carrier: Box<dyn Carrier>, device: Cuda) -> (Vec<u64>, Vec<u32>) {
    let (numerics, mut random) = (Numerics::usual(&plan.spec().architecture), Random::of(&plan));
    let step = Step::<_, Dynamic, Bf16>::in_world(plan, rank, carrier, device, numerics, &mut random);
    let mut step = step.unwrap_or_else(|error| panic!("{error}"));
    let mut losses = Vec::new();
    for _ in 0..2 {
        let report = step.train(&mut Random::of(&plan), ADAMW).unwrap_or_else(|error| panic!("{error}"));
        losses.extend(report.loss.map(f64::to_bits));
    }
    let mut weights = Vec::new();
    step.weights(&mut |_, values| weights.extend(values.iter().map(|value| value.to_bits()))).expect("they are there");
    assert!(!weights.is_empty());
    (losses, weights)
}

/// Where ranks find each other.
fn store() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has one");
    Store::keep(listener);
    address
}

/// One world at a time: pools are the devices'.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether there are as many devices as ranks, and NCCL.
fn are_there() -> bool {
    let last = usize::try_from(RANKS - 1).expect("ranks are few");
    let error = match Cuda::open(last, None) {
        Ok(device) => {
            let store = Store::reach(store(), PATIENCE).expect("it is kept");
            Nccl::new(0, &device, store, PATIENCE).err()
        }
        Err(error) => Some(error),
    };
    match error {
        None => true,
        Some(error @ (NoDevice::NoDriver | NoDevice::NoLibrary(_) | NoDevice::Absent { .. })) => {
            skipped(format_args!("a world of {RANKS} devices: {error}"));
            false
        }
        Some(error) => panic!("{error}"),
    }
}

fn open(rank: u64) -> Cuda {
    Cuda::open(usize::try_from(rank).expect("ranks are few"), None).unwrap_or_else(|error| panic!("{error}"))
}

/// What all ranks compute over channels.
fn over_channels(plan: Plan) -> Vec<(Vec<u64>, Vec<u32>)> {
    let all = threads::run(plan.world(), PATIENCE, |rank, end| trained(plan, rank, Box::new(end), open(rank)));
    all.into_iter().map(|of_rank| of_rank.unwrap_or_else(|error| panic!("{error}"))).collect()
}

fn same(plan: Plan) {
    let _alone = alone();
    if !are_there() {
        return;
    }
    let expected = over_channels(plan);
    let address = store();
    let got = threads::run(plan.world(), PATIENCE, |rank, _| {
        let device = open(rank);
        let store = Store::reach(address, PATIENCE).expect("it is kept");
        let carrier = Nccl::new(rank, &device, store, PATIENCE).unwrap_or_else(|error| panic!("{error}"));
        trained(plan, rank, Box::new(carrier), device)
    });
    for (rank, (got, expected)) in got.into_iter().zip(expected).enumerate() {
        let got = got.unwrap_or_else(|error| panic!("rank {rank}: {error}"));
        assert!(got == expected, "rank {rank}: losses {:?} and {:?}", got.0, expected.0);
    }
}

#[test]
fn replicas_over_nccl_compute_what_they_compute_over_channels() {
    same(plan(1));
}

#[test]
fn stages_over_nccl_compute_what_they_compute_over_channels() {
    same(plan(2));
}

#[test]
fn shared_sequences_over_nccl_compute_what_they_compute_over_channels() {
    same(of(Mesh { cp: 2, context: Context::AllToAll, pp: 2, ep: 2, ..Mesh::DEFAULT }));
    same(of(Mesh { cp: 4, context: Context::Ring, ep: 2, ..Mesh::DEFAULT }));
}

#[test]
fn stages_that_share_a_table_over_nccl_compute_what_they_compute_over_channels() {
    same(tied());
}

/// Ranks around a ring, as stages that take turns, all send before any receives; more than one message each.
#[test]
fn ranks_that_all_send_first_do_not_wait_for_each_other() {
    const RING: u64 = 3;
    let _alone = alone();
    if !are_there() {
        return;
    }
    let address = store();
    let come = threads::run(RING, PATIENCE, |rank, _| {
        let device = open(rank);
        let store = Store::reach(address, PATIENCE).expect("it is kept");
        let nccl = Nccl::new(rank, &device, store, PATIENCE).unwrap_or_else(|error| panic!("{error}"));
        for number in 0..2 {
            let message = vec![u8::try_from(10 * rank + number).expect("ranks are few"); 1000];
            nccl.send((rank + 1) % RING, Group::Pp, "send", message).unwrap_or_else(|error| panic!("{error}"));
        }
        let receive = |_| nccl.receive((rank + 2) % RING, Group::Pp, "send").unwrap_or_else(|error| panic!("{error}"));
        [0, 1].map(receive).map(|message| (message.len(), message[0]))
    });
    let come: Vec<_> = come.into_iter().map(|of_rank| of_rank.unwrap_or_else(|error| panic!("{error}"))).collect();
    assert_eq!(come, [20, 0, 10].map(|first| [(1000, first), (1000, first + 1)]));
}

/// Two ranks that split tensors and experts.
fn pair() -> Plan {
    let mut spec = *plan(1).spec();
    (spec.layout.mesh.dp, spec.layout.zero) = (1, Zero::NONE);
    Plan::new(spec).unwrap_or_else(|violations| panic!("{violations}"))
}

/// A variable of the processes that one of the tests starts: what each computes it writes there.
const RESULT: &str = "MOE_MODEL_TEST_RESULT";

#[test]
fn ranks_that_are_processes_compute_what_threads_compute() {
    let _alone = alone();
    if !are_there() {
        return;
    }
    let plan = pair();
    let folder = std::env::temp_dir().join(format!("moe-model-processes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is room");
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port is free").port();
    let start = |rank: u64| {
        let mut process = Command::new(std::env::current_exe().expect("it has a name"));
        process.args(["--exact", "one_of_the_processes", "--nocapture"]).env(RESULT, folder.join(rank.to_string()));
        let place = [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", plan.world()), ("MASTER_PORT", port.into())];
        process.env("MASTER_ADDR", "127.0.0.1").envs(place.map(|(name, value)| (name, value.to_string())));
        process.spawn().expect("it starts")
    };
    let processes: Vec<_> = (0..plan.world()).map(start).collect();
    let expected = over_channels(plan);
    for (rank, (mut process, expected)) in processes.into_iter().zip(expected).enumerate() {
        assert!(process.wait().expect("it ends").success(), "rank {rank}");
        let text = std::fs::read_to_string(folder.join(rank.to_string())).expect("it is written");
        assert!(text == as_text(&expected), "rank {rank}");
    }
    std::fs::remove_dir_all(folder).expect("it is there");
}

/// No test of its own: a rank of the one above, where that starts it.
#[test]
fn one_of_the_processes() {
    let Some(to) = std::env::var_os(RESULT) else { return };
    let launch = Launch::from_environment().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(launch.size, pair().world());
    let device = launch.open(None).unwrap_or_else(|error| panic!("{error}"));
    let carrier = launch.join(&device, PATIENCE).unwrap_or_else(|error| panic!("{error}"));
    let result = trained(pair(), launch.rank, Box::new(carrier), device);
    std::fs::write(to, as_text(&result)).expect("there is room");
}

fn as_text((losses, weights): &(Vec<u64>, Vec<u32>)) -> String {
    format!("{losses:?} {weights:?}")
}

/// Messages of any lengths, none among them, come as they were sent; and a rank that ends is an error of who waits for it.
#[test]
fn messages_come_as_they_were_sent() {
    let _alone = alone();
    if !are_there() {
        return;
    }
    let (plan, address) = (plan(2), store());
    let message = |from: u64, to: u64| {
        vec![
            u8::try_from(16 * from + to).expect("ranks are few");
            usize::try_from(3 * from * to).expect("they are few")
        ]
    };
    let said = threads::run(RANKS, PATIENCE, |rank, _| {
        let device = open(rank);
        let store = Store::reach(address, PATIENCE).expect("it is kept");
        let nccl = Nccl::new(rank, &device, store, Duration::from_secs(2)).unwrap_or_else(|error| panic!("{error}"));
        let ranks = plan.group(Group::Tp, rank);
        let sent = ranks.into_iter().map(|to| message(rank, to)).collect();
        let come = nccl.exchange(Group::Tp, ranks, "all-to-all", sent).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(come, ranks.into_iter().map(|from| message(from, rank)).collect::<Vec<_>>());
        // Several are on the way before the first is received, and both ways.
        let peer = (rank + 2) % RANKS;
        for len in [5, 0, 70_000] {
            nccl.send(peer, Group::Pp, "send", vec![7; len]).unwrap_or_else(|error| panic!("{error}"));
        }
        for len in [5, 0, 70_000] {
            assert_eq!(nccl.receive(peer, Group::Pp, "send"), Ok(vec![7; len]));
        }
        nccl.send(peer, Group::Pp, "send", Vec::new()).unwrap_or_else(|error| panic!("{error}"));
        match nccl.receive(peer, Group::Pp, "receive") {
            Err(CommError::Disagree { rank, .. }) => assert_eq!(rank, peer),
            other => panic!("{other:?}"),
        }
        // The others end, and one of them is waited for.
        if rank == 0 { nccl.receive(peer, Group::Pp, "send").err() } else { None }
    });
    let errors: Vec<_> = said.into_iter().map(|rank| rank.unwrap_or_else(|error| panic!("{error}"))).collect();
    assert!(matches!(errors[0], Some(CommError::Gone { rank: 2, .. })), "{errors:?}");
}

/// A world of devices beside one of the CPU.
#[test]
fn losses_are_near_those_of_the_cpu() {
    let _alone = alone();
    if !are_there() {
        return;
    }
    let shared = |context| of(Mesh { cp: 4, context, ..Mesh::DEFAULT });
    for plan in [plan(1), shared(Context::AllToAll), shared(Context::Ring)] {
        near(plan);
    }
}

fn near(plan: Plan) {
    let address = store();
    let on_cuda = threads::run(RANKS, PATIENCE, |rank, _| {
        let device = open(rank);
        let store = Store::reach(address, PATIENCE).expect("it is kept");
        let carrier = Nccl::new(rank, &device, store, PATIENCE).unwrap_or_else(|error| panic!("{error}"));
        loss(plan, rank, Box::new(carrier), device)
    });
    let on_cpu = threads::run(RANKS, PATIENCE, |rank, end| loss(plan, rank, Box::new(end), Host::new(1)));
    for (cuda, cpu) in on_cuda.into_iter().zip(on_cpu) {
        let [cuda, cpu] = [cuda, cpu].map(|loss| loss.unwrap_or_else(|error| panic!("{error}")).expect("it has one"));
        assert!((cuda - cpu).abs() <= 1e-2 * cpu, "losses {cuda} and {cpu}");
    }
}

fn loss<D: moe_model_gpu::Device>(plan: Plan, rank: u64, carrier: Box<dyn Carrier>, device: D) -> Option<f64> {
    let (numerics, mut random) = (Numerics::usual(&plan.spec().architecture), Random::of(&plan));
    let step = Step::<_, Dynamic, Bf16>::in_world(plan, rank, carrier, device, numerics, &mut random);
    let mut step = step.unwrap_or_else(|error| panic!("{error}"));
    step.train(&mut Random::of(&plan), ADAMW).unwrap_or_else(|error| panic!("{error}")).loss
}
