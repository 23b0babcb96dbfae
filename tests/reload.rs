//! Models of Hugging Face checkpoints, saved under one layout and read under another: the loss is the one that transformers
//! computes of them (`tests/data/numerics`), behind training steps the one that was; and written as Hugging Face checkpoints
//! again they are what they were, tensor by tensor.

#[path = "../examples/train_step/folder.rs"]
#[allow(dead_code)] // what compares values
mod folder;

use folder::{ADAMW, Folder, Tokens};
use moe_model::checkpoint::Kind;
use moe_model::gpu::checkpoint::Saved;
use moe_model::gpu::comm::threads::{self, PATIENCE};
use moe_model::gpu::hub::{self, Checkpoint, Sliced};
use moe_model::gpu::shapes::Dynamic;
use moe_model::gpu::step::{Place, Source, Step};
use moe_model::gpu::{Host, StepError};
use moe_model::spec::{self, Accounting, Dtype, Mesh, Precision, Routing, Spec, Stages, Switch, Zero};
use moe_model::{Bytes, Plan};
use safetensors::SafeTensors;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

type Rank = Step<Host, Dynamic, f32, f32>;

fn models() -> Vec<(String, Folder)> {
    let all = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/numerics");
    let mut models: Vec<(String, Folder)> = fs::read_dir(all)
        .expect("the data is there")
        .map(|folder| folder.expect("it can be read").path())
        .map(|path| (path.file_name().expect("it has a name").to_string_lossy().into_owned(), path))
        .map(|(name, path)| (name, Folder::read(&path).unwrap_or_else(|error| panic!("{error}"))))
        .collect();
    models.sort_by(|(one, _), (other, _)| one.cmp(other));
    models
}

/// An empty folder.
fn empty(name: &str) -> PathBuf {
    let folder = env::temp_dir().join(format!("moe-model-reload-{name}"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// The layouts of these that are legal for a model.
fn plans(folder: &Folder) -> Vec<Plan> {
    let on = Switch::On;
    let meshes = [
        Mesh::DEFAULT,
        Mesh { dp: 2, ..Mesh::DEFAULT },
        Mesh { dp: 2, ep: 2, ..Mesh::DEFAULT },
        Mesh { tp: 2, pp: 2, sequence_parallel: on, ..Mesh::DEFAULT },
        Mesh { dp: 2, tp: 2, pp: 2, ep: 4, sequence_parallel: on, ..Mesh::DEFAULT },
    ];
    let [sequences, sequence] = folder.batch;
    let of = |(number, mesh): (u64, Mesh)| {
        let mut spec = Spec { architecture: folder.config.architecture, ..Spec::DEFAULT };
        let layers = spec.architecture.layers.count();
        spec.layout.stages = Stages { last: u64::from(!layers.is_multiple_of(mesh.pp)), ..Stages::EVEN };
        spec.layout.batch = spec::Batch { sequence, count: sequences / mesh.dp.max(1), ..spec::Batch::DEFAULT };
        spec.layout.precision = Precision { weights: Dtype::Fp32, activations: Dtype::Fp32, ..Precision::DEFAULT };
        spec.layout.zero = if number.is_multiple_of(2) { Zero::OPTIMIZER } else { Zero::NONE };
        spec.layout.placement.vocab_multiple = 1 + 6 * number;
        spec.layout.routing = Routing::WORST;
        spec.layout.accounting = Accounting::REFERENCE;
        spec.layout.mesh = mesh;
        Plan::new(spec).ok().filter(|_| sequences.is_multiple_of(mesh.dp.max(1)))
    };
    (0..).zip(meshes).filter_map(of).collect()
}

/// Weights that are to be read over.
struct Ones;

impl Source for Ones {
    fn fill(&mut self, _: &Place, out: &mut [f32]) -> Result<(), String> {
        out.fill(1.0);
        Ok(())
    }
}

fn world<T: Send>(
    folder: &Folder,
    plan: &Plan,
    weights: Option<&Checkpoint<'_>>,
    of_rank: impl Fn(&mut Rank) -> Result<T, StepError> + Sync,
) -> Vec<T> {
    let results = threads::run(plan.world(), PATIENCE, |rank, end| {
        let mut sliced = weights.map(|whole| Sliced { whole, plan: *plan, at: plan.coordinates(rank) });
        let source: &mut dyn Source = match &mut sliced {
            Some(sliced) => sliced,
            None => &mut Ones,
        };
        let step = Step::in_world(*plan, rank, Box::new(end), Host::new(1), folder.numerics, source)?;
        of_rank(&mut { step })
    });
    let said = |result: Result<Result<T, StepError>, String>| match result {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => panic!("{error}"),
        Err(error) => panic!("{error}"),
    };
    results.into_iter().map(said).collect()
}

fn mean(losses: &[Option<f64>]) -> f64 {
    let losses: Vec<f64> = losses.iter().copied().flatten().collect();
    losses.iter().sum::<f64>() / f64::from(u32::try_from(losses.len()).expect("ranks are few"))
}

fn loss(step: &mut Rank, folder: &Folder) -> Result<Option<f64>, StepError> {
    Ok(step.gradients(&mut Tokens(folder), None)?.loss)
}

/// The loss that transformers computes.
fn expected(folder: &Folder) -> f64 {
    let file = SafeTensors::deserialize(&folder.expected).expect("it is of safetensors");
    let bytes = file.tensor("loss").expect("it has a loss").data().as_chunks().0[0];
    f64::from(f32::from_le_bytes(bytes))
}

#[test]
fn the_loss_of_tiny_models() {
    let mut count = 0;
    for (name, folder) in models() {
        let (at, plans) = (empty(&name), plans(&folder));
        assert!(plans.len() >= 3, "{name}: {} layouts", plans.len());
        let weights = Checkpoint::new(&[&folder.weights], folder.config.naming, &folder.config.architecture);
        let weights = weights.unwrap_or_else(|error| panic!("{name}: {error}"));
        for (one, other) in plans.iter().zip(plans.iter().skip(1).chain(&plans[..1])) {
            let meshes = (one.spec().layout.mesh, other.spec().layout.mesh);
            world(&folder, one, Some(&weights), |step| step.save(&at));
            // Weights that nobody trained: what is read is what transformers computes with.
            let read = world(&folder, other, None, |step| {
                step.load(&at)?;
                loss(step, &folder)
            });
            let (read, whole) = (mean(&read), expected(&folder));
            assert!((read - whole).abs() <= folder.tolerance("loss"), "{name}: {read}, not {whole}: {meshes:?}");
            // Behind a step, with an optimizer that has seen one.
            let before = world(&folder, one, Some(&weights), |step| {
                step.train(&mut Tokens(&folder), ADAMW)?;
                step.save(&at)?;
                let second = step.train(&mut Tokens(&folder), ADAMW)?.loss;
                Ok((second, loss(step, &folder)?))
            });
            let behind = world(&folder, other, None, |step| {
                step.load(&at)?;
                let second = step.train(&mut Tokens(&folder), ADAMW)?.loss;
                Ok((second, loss(step, &folder)?))
            });
            for of in [|pair: &(Option<f64>, Option<f64>)| pair.0, |pair: &(Option<f64>, Option<f64>)| pair.1] {
                let losses = [&before, &behind].map(|pairs| mean(&pairs.iter().map(of).collect::<Vec<_>>()));
                let off = (losses[0] - losses[1]).abs();
                assert!(off <= 2.0 * folder.tolerance("loss"), "{name}: {losses:?}: {meshes:?}");
                assert!((losses[0] - whole).abs() > 10.0 * folder.tolerance("loss"), "{name}: a step changes the loss");
            }
            count += 1;
        }
        fs::remove_dir_all(&at).expect("it is there");
    }
    assert!(count >= 24, "{count} pairs of layouts");
}

/// Format, shape and bytes of tensors, by name.
type Tensors = BTreeMap<String, (safetensors::Dtype, Vec<usize>, Vec<u8>)>;

fn tensors(bytes: &[u8]) -> Tensors {
    let file = SafeTensors::deserialize(bytes).expect("it is of safetensors");
    let of = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
        (name, (view.dtype(), view.shape().to_vec(), view.data().to_vec()))
    };
    file.tensors().into_iter().map(of).collect()
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn hugging_face_checkpoints_come_out_again() {
    for (name, folder) in models() {
        let naming = folder.config.naming;
        let weights = Checkpoint::new(&[&folder.weights], naming, &folder.config.architecture);
        let weights = weights.unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut original = tensors(&folder.weights);
        // Layers that the step does not have: transformers builds no modules for multi-token prediction.
        let listed = folder.config.architecture.checkpoint(naming);
        let known: BTreeSet<String> =
            listed.iter().flat_map(|tensor| tensor.name.names().collect::<Vec<_>>()).collect();
        original.retain(|tensor, _| known.contains(tensor));
        assert!(original.len() > 15, "{name}: {} tensors", original.len());
        for plan in plans(&folder) {
            let (at, out) = (empty(&format!("{name}-at")), empty(&format!("{name}-out")));
            world(&folder, &plan, Some(&weights), |step| step.save(&at));
            let saved = Saved::open(&at).unwrap_or_else(|error| panic!("{error}"));
            hub::write(&saved, naming, &out, Bytes::new(u64::MAX)).unwrap_or_else(|error| panic!("{name}: {error}"));
            let written = tensors(&read(&out.join("model.safetensors")));
            assert_eq!(written.keys().collect::<Vec<_>>(), original.keys().collect::<Vec<_>>(), "{name}");
            assert!(written == original, "{name}: {:?}", plan.spec().layout.mesh);
            let again = hub::write(&saved, naming, &out, Bytes::new(1)).expect_err("it is there").to_string();
            assert!(again.contains("there is something of this name"), "{again}");

            // In several files, as their index says.
            fs::remove_dir_all(&out).expect("it is there");
            hub::write(&saved, naming, &out, Bytes::new(20_000)).unwrap_or_else(|error| panic!("{name}: {error}"));
            let index: Value = serde_json::from_slice(&read(&out.join("model.safetensors.index.json"))).expect("JSON");
            let map = index["weight_map"].as_object().expect("it says where tensors are");
            let files: BTreeSet<&str> = map.values().map(|file| file.as_str().expect("a name")).collect();
            assert!(files.len() > 1 && map.len() == original.len(), "{name}: {files:?}");
            let mut all = Tensors::new();
            for file in files {
                let bytes = read(&out.join(file));
                assert!(bytes.len() < 20_000 + 20_000, "{name}: {file} has {} bytes", bytes.len());
                let tensors = tensors(&bytes);
                assert!(tensors.keys().all(|tensor| map[tensor] == file), "{name}: {file}");
                all.extend(tensors);
            }
            assert!(all == original, "{name}");
            for folder in [at, out] {
                fs::remove_dir_all(folder).expect("it is there");
            }
        }
    }
}

/// Modules for multi-token prediction, of which there is no oracle: all that a family's checkpoint has, by name and shape.
#[test]
fn every_tensor_of_a_family() {
    let (name, mut folder) = models().into_iter().find(|(name, _)| name == "deepseek_v3_tiny").expect("it is there");
    let mtp = 1;
    folder.config.architecture.mtp = mtp;
    let plan = plans(&folder)[0];
    assert_eq!(plan.counted_mtp(), mtp);
    let (at, out) = (empty(&format!("{name}-mtp")), empty(&format!("{name}-mtp-out")));
    world(&folder, &plan, None, |step| step.save(&at));
    let saved = Saved::open(&at).unwrap_or_else(|error| panic!("{error}"));
    hub::write(&saved, folder.config.naming, &out, Bytes::new(u64::MAX)).unwrap_or_else(|error| panic!("{error}"));
    let written = tensors(&read(&out.join("model.safetensors")));
    let mut expected = BTreeMap::new();
    for tensor in folder.config.architecture.checkpoint(folder.config.naming) {
        for file_name in tensor.name.names() {
            expected.insert(file_name, (tensor.kind, tensor.shape.clone()));
        }
    }
    assert!(expected.values().any(|(kind, _)| *kind == Kind::Copy), "modules hold copies");
    assert_eq!(written.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (tensor, (_, shape, _)) in &written {
        let shape: Vec<u64> = shape.iter().map(|length| *length as u64).collect();
        assert_eq!(shape, expected[tensor].1, "{tensor}");
    }
    for folder in [at, out] {
        fs::remove_dir_all(folder).expect("it is there");
    }
}
