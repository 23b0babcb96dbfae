//! A writer that ends at any moment, and files that are not what was written.

use crate::checkpoint::disk::Disk;
use crate::checkpoint::{CheckpointError, Fault, MANIFEST, Saved};
use crate::comm::threads;
use crate::random::Random;
use crate::shapes::Dynamic;
use crate::smoke::ADAMW;
use crate::step::{Place, Step};
use crate::tensor::StepError;
use crate::{Host, Numerics};
use moe_model_core::Plan;
use moe_model_core::spec::{Accounting, Attention, Batch, Dtype, Experts, Gqa, Layers, Mesh, Precision, Routing, Spec};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{env, ffi::OsString};

type Rank = Step<Host, Dynamic, f32, f32>;

fn plan(mesh: Mesh) -> Plan {
    let mut spec = Spec::DEFAULT;
    let architecture = &mut spec.architecture;
    (architecture.hidden, architecture.vocab) = (16, 40);
    architecture.layers = Layers { moe: 2, ..Layers::DEFAULT };
    architecture.attention = Attention::Gqa(Gqa { heads: 2, kv_heads: 1, head_dim: 8, ..Gqa::DEFAULT });
    architecture.experts = Experts { routed: 4, active: 2, ffn: 8, ..Experts::DEFAULT };
    spec.layout.mesh = mesh;
    spec.layout.precision = Precision { weights: Dtype::Fp32, activations: Dtype::Fp32, ..Precision::DEFAULT };
    spec.layout.batch = Batch { sequence: 8, micro: 2, ..Batch::DEFAULT };
    spec.layout.accounting = Accounting::REFERENCE;
    spec.layout.routing = Routing::WORST;
    Plan::new(spec).expect("the layout is legal")
}

const FOUR: Mesh = Mesh { dp: 2, pp: 2, ep: 2, ..Mesh::DEFAULT };

fn folder(name: &str) -> PathBuf {
    let folder = env::temp_dir().join(format!("moe-model-writer-{name}"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// Runs something on every rank; whatever a rank gave.
fn world<T: Send>(plan: &Plan, of_rank: impl Fn(&mut Rank) -> T + Sync) -> Vec<T> {
    let numerics = Numerics::usual(&plan.spec().architecture);
    let results = threads::run(plan.world(), Duration::from_secs(20), |rank, end| {
        let step = Step::in_world(*plan, rank, Box::new(end), Host::new(1), numerics, &mut Random::of(plan));
        of_rank(&mut step.expect("the budget has it"))
    });
    results.into_iter().map(|result| result.unwrap_or_else(|error| panic!("{error}"))).collect()
}

/// A disk of a machine that ends: after so many moments nothing is done any more, and of what was being written half is there.
struct Ending {
    left: AtomicU64,
}

impl Ending {
    fn after(moments: u64) -> Self {
        Self { left: AtomicU64::new(moments) }
    }

    fn moment(&self) -> io::Result<()> {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map(|_| ()).map_err(|_| io::Error::other("the machine has ended"))
    }
}

impl Disk for Ending {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.moment().and_then(|()| fs::create_dir_all(path))
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        self.moment().and_then(|()| File::create_new(path))
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        let was_last = self.left.load(Ordering::SeqCst) == 1;
        self.moment()?;
        file.write_all(if was_last { &bytes[..bytes.len() / 2] } else { bytes })
    }

    fn sync(&self, _: &File) -> io::Result<()> {
        self.moment()
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        self.moment()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.moment().and_then(|()| fs::rename(from, to))
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.moment().and_then(|()| fs::remove_dir_all(path))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.moment().and_then(|()| fs::remove_file(path))
    }
}

fn weights(step: &mut Rank) -> Vec<(Place, Vec<f32>)> {
    let mut weights = Vec::new();
    step.weights(&mut |place, values| weights.push((*place, values.to_vec()))).expect("it has values");
    weights
}

fn train(step: &mut Rank) {
    let plan = step.plan;
    step.train(&mut Random::of(&plan), ADAMW).expect("the budget has it");
}

#[test]
fn whenever_the_writer_ends_the_newest_is_whole() {
    let (plan, folder) = (plan(FOUR), folder("ends"));
    let first = world(&plan, |step| {
        train(step);
        step.save(&folder).expect("it can be written");
        weights(step)
    });
    let mut ended = 0;
    for moments in 0.. {
        let disk = Ending::after(moments);
        let second = world(&plan, |step| {
            train(step);
            train(step);
            (step.save_on(&disk, &folder).map(|_| ()), weights(step))
        });
        let is_done = second.iter().all(|(saved, _)| saved.is_ok());
        assert!(is_done || second.iter().all(|(saved, _)| saved.is_err()), "all ranks fail or none: {moments}");
        let read = world(&plan, |step| {
            step.load(&folder).unwrap_or_else(|error| panic!("{moments}: {error}"));
            (step.steps, weights(step))
        });
        // The newest is the old one or the new one, never part of each. What is done once it has its name is not undone.
        let steps = read[0].0;
        for (rank, (at, weights)) in read.iter().enumerate() {
            assert_eq!(*at, steps, "{moments}");
            assert!(*weights == if steps == 1 { &first[rank] } else { &second[rank].1 }[..], "{moments}: rank {rank}");
        }
        if is_done {
            assert_eq!(steps, 2);
            break;
        }
        ended += 1;
        let _ = fs::remove_file(folder.join("latest.partial"));
        if steps == 2 {
            // Back to the old one, for the next moment.
            fs::remove_dir_all(&folder).expect("it is there");
            let again = world(&plan, |step| {
                train(step);
                step.save(&folder).expect("it can be written");
                weights(step)
            });
            assert!(again == first, "a step is the same in every run");
        }
    }
    // Folders, three moments or more for each of four files, the manifest, two names and the folders of these.
    assert!(ended > 20, "{ended} moments");
}

/// A checkpoint of four ranks, and its folder.
fn saved(name: &str) -> (Plan, PathBuf) {
    let (plan, folder) = (plan(FOUR), folder(name));
    let folders = world(&plan, |step| {
        train(step);
        step.save(&folder).expect("it can be written")
    });
    (plan, folders[0].clone())
}

/// What ranks say that read a checkpoint, or one by itself.
fn read(plan: &Plan, folder: &Path) -> Result<(), StepError> {
    let read = world(plan, |step| step.load(folder));
    assert!(read.iter().all(Result::is_ok) || read.iter().all(Result::is_err), "all ranks fail or none");
    let is_peers = |error: &StepError| matches!(error, StepError::Checkpoint(error) if matches!(**error, CheckpointError::Peer { .. }));
    let errors: Vec<StepError> = read.into_iter().filter_map(Result::err).collect();
    match errors.iter().find(|error| !is_peers(error)) {
        Some(error) => Err(error.clone()),
        None => errors.into_iter().next().map_or(Ok(()), Err),
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("it is there").map(|file| file.expect("it can be read").path()).collect();
    files.sort();
    files
}

/// The fault of a file, with the tensor and slice that are named.
fn fault(plan: &Plan, folder: &Path) -> (OsString, String, Fault) {
    match read(plan, folder) {
        Err(StepError::Checkpoint(error)) => match *error {
            CheckpointError::Shard { file, tensor, slice, fault } => {
                assert!(!tensor.is_empty() && !slice.is_empty(), "tensor and slice are named");
                (file.file_name().expect("it has a name").to_owned(), format!("{tensor} {slice}"), fault)
            }
            other => panic!("{other}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn any_bit_and_any_length() {
    let (plan, folder) = saved("bits");
    assert_eq!(read(&plan, &folder), Ok(()));
    let mut rng = fastrand::Rng::with_seed(3);
    // The file that names the newest is beside the checkpoint.
    let parent = folder.parent().expect("it is beside others");
    for path in files(&folder).into_iter().chain([parent.join("latest")]) {
        let bytes = fs::read(&path).expect("it can be read");
        // In the header, at the end, and anywhere.
        let ends = [0, 5, 9, 40, bytes.len() - 1].map(|at| at.min(bytes.len() - 1));
        let bits = ends.into_iter().chain((0..12).map(|_| rng.usize(..bytes.len())));
        for at in bits.collect::<Vec<_>>() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << rng.u8(..8);
            fs::write(&path, &flipped).expect("it can be written");
            assert!(read(&plan, parent).is_err(), "{}: byte {at}", path.display());
        }
        for len in [0, 1, 8, bytes.len() / 2, bytes.len() - 1] {
            fs::write(&path, &bytes[..len]).expect("it can be written");
            assert!(read(&plan, parent).is_err(), "{}: {len} bytes", path.display());
        }
        fs::write(&path, [&bytes[..], b"\n"].concat()).expect("it can be written");
        assert!(read(&plan, parent).is_err(), "{}: a byte more", path.display());
        fs::write(&path, &bytes).expect("it can be written");
    }
    assert_eq!(read(&plan, parent), Ok(()));
}

#[test]
fn faults_name_file_tensor_and_slice() {
    let (plan, folder) = saved("faults");
    let files: Vec<PathBuf> = files(&folder).into_iter().filter(|file| !file.ends_with(MANIFEST)).collect();
    let bytes = fs::read(&files[1]).expect("it can be read");
    let name = files[1].file_name().expect("it has a name");

    let mut flipped = bytes.clone();
    *flipped.last_mut().expect("it has bytes") ^= 1;
    fs::write(&files[1], &flipped).expect("it can be written");
    let (file, at, why) = fault(&plan, &folder);
    assert_eq!((&*file, why), (name, Fault::Corrupt { first: 0, bytes: bytes.len() as u64 }));
    assert!(at.contains("model.") && at.contains('['), "{at}");

    fs::write(&files[1], &bytes[1..]).expect("it can be written");
    let lengths = Fault::Length { has: bytes.len() as u64 - 1, written: bytes.len() as u64 };
    assert_eq!((fault(&plan, &folder).0, fault(&plan, &folder).2), (name.to_owned(), lengths));

    fs::remove_file(&files[1]).expect("it is there");
    assert_eq!(fault(&plan, &folder).2, Fault::Missing);
    fs::create_dir(&files[1]).expect("nothing is there");
    assert_eq!(fault(&plan, &folder).2, Fault::NoFile);
    fs::remove_dir(&files[1]).expect("it is empty");

    // Another rank's, made as long as this one's was.
    let mut other = fs::read(&files[0]).expect("it can be read");
    other.resize(bytes.len(), 0);
    fs::write(&files[1], &other).expect("it can be written");
    assert_eq!(fault(&plan, &folder).2, Fault::Duplicate { of: 0 });
    let (_, stranger) = saved("stranger");
    let mut foreign = fs::read(stranger.join(name)).expect("it can be read");
    foreign.resize(bytes.len(), 0);
    fs::write(&files[1], foreign).expect("it can be written");
    assert!(matches!(fault(&plan, &folder).2, Fault::Foreign { what } if what.contains("it says that it is of")));
    fs::write(&files[1], &bytes).expect("it can be written");
    assert_eq!(read(&plan, &folder), Ok(()));

    let one_more = folder.join("rank-00009.safetensors");
    fs::write(&one_more, &bytes).expect("it can be written");
    assert!(matches!(fault(&plan, &folder).2, Fault::Foreign { .. }));
    fs::remove_file(&one_more).expect("it is there");
    #[cfg(unix)]
    {
        let elsewhere = folder.with_file_name("elsewhere.safetensors");
        fs::rename(&files[1], &elsewhere).expect("it is there");
        std::os::unix::fs::symlink(&elsewhere, &files[1]).expect("nothing is there");
        assert_eq!(fault(&plan, &folder).2, Fault::NoFile);
    }
}

/// A manifest with something else in it, its checksum right.
fn forged(folder: &Path, from: &str, to: &str) -> String {
    use crate::checkpoint::blocks::checksum;
    let path = folder.join(MANIFEST);
    let text = fs::read_to_string(&path).expect("it can be read");
    let (_, rest) = text.split_once('\n').expect("it has two lines");
    assert!(rest.contains(from), "{from} is in {rest}");
    let changed = rest.replacen(from, to, 1);
    let forged = format!("{{\"checksum\":\"{}\",\n{changed}", checksum(changed.as_bytes()));
    fs::write(&path, forged).expect("it can be written");
    let error = Saved::open(folder).map(|_| ()).expect_err("it is forged").to_string();
    fs::write(&path, text).expect("it can be written");
    error.rsplit_once("manifest.json: ").expect("it names the file").1.to_owned()
}

#[test]
fn manifests_that_lie() {
    let (plan, folder) = saved("lies");
    let said = |from: &str, to: &str| forged(&folder, from, to);
    assert_eq!(
        said("\"rank-00000.safetensors\"", "\"../rank-00000.safetensors\""),
        "`../rank-00000.safetensors` is no name of a file in the manifest's folder"
    );
    assert_eq!(
        said("\"rank-00000.safetensors\"", "\"/etc/passwd\""),
        "`/etc/passwd` is no name of a file in the manifest's folder"
    );
    assert_eq!(
        said("\"version\":1", "\"version\":2"),
        "the manifest is of version 2 of the format; this program reads 1"
    );
    assert!(said("\"hidden\":16", "\"hidden\":17").contains("the Spec is not the one whose checksum"));
    assert!(said("\"steps\":1", "\"steps\":-1").contains("`steps` = -1"));
    assert!(said("\"start\":[0,0]", "\"start\":[1,0]").contains("it lies outside the tensor"));
    assert!(said("\"writer\":0", "\"writer\":null").contains("elements"));
    assert!(said("\"writer\":0", "\"writer\":7").contains("does not hold them"));
    assert!(said("\"count\":2", "\"count\":0").contains("no ranks of the world"));
    assert!(said("\"count\":2", "\"count\":18446744073709551615").contains("no ranks of the world"));
    assert!(said("\"shape\":[40,16]", "\"shape\":[40,18446744073709551615]").contains("its shape is"));
    assert!(said("\"accounting\":", "\"surprise\":1,\"accounting\":").contains("surprise"));
    let latest = folder.with_file_name("latest");
    let text = fs::read_to_string(&latest).expect("it can be read");
    fs::write(&latest, text.replace("step-", "../step-")).expect("it can be written");
    let error = read(&plan, folder.parent().expect("it is beside others")).expect_err("it leads out").to_string();
    assert!(error.contains("is no name of a folder beside it"), "{error}");
}

#[test]
fn other_models_are_refused() {
    let (one, folder) = saved("others");
    let said = |change: fn(&mut Spec)| {
        let other = one.changed(change).expect("the layout is legal");
        read(&other, &folder).expect_err("it is another model").to_string()
    };
    let error = said(|spec| spec.architecture.experts.routed = 8);
    assert_eq!(error, "`experts.routed`: the checkpoint has 4, the step 8");
    let error = said(|spec| spec.architecture.vocab = 41);
    assert_eq!(error, "`vocab`: the checkpoint has 40, the step 41");
    let moments = one.changed(|spec| spec.layout.precision.moments = Dtype::Bf16).expect("the layout is legal");
    let numerics = Numerics::usual(&moments.spec().architecture);
    let alone = Step::new(moments, 0, Host::new(1), numerics, &mut Random::of(&moments));
    let mut alone: Step<Host, Dynamic, f32, crate::Bf16> = alone.expect("the budget has it");
    let error = alone.load(&folder).expect_err("moments are of another format").to_string();
    assert_eq!(error, "`precision.moments`: the checkpoint has fp32, the step bf16");
    let error = read(&one, &env::temp_dir().join("moe-model-writer-none")).expect_err("nothing is there").to_string();
    assert!(error.contains("reading which checkpoint is the newest"), "{error}");
}
