//! Weights into the tensors of a family's checkpoints, and out of them: what tables of `moe_model_core::checkpoint` say is
//! done to them, whatever their elements are.

use moe_model_core::checkpoint::Op;

/// A matrix or more, row by row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Dense<T> {
    pub(crate) values: Vec<T>,
    pub(crate) shape: Vec<usize>,
}

/// What several weights become, in this order.
pub(crate) fn packed<T: Copy>(mut parts: Vec<Dense<T>>, how: &[Op]) -> Option<Dense<T>> {
    for op in how {
        match op {
            Op::Join(along) => parts = vec![joined(&parts, *along, |part| part.shape.get(*along).copied())?],
            Op::Weave(along) => parts = vec![joined(&parts, *along, |_| Some(1))?],
            _ => parts = parts.into_iter().map(|part| alone(part, *op)).collect::<Option<_>>()?,
        }
    }
    let [one] = <[Dense<T>; 1]>::try_from(parts).ok()?;
    Some(one)
}

/// What is done to one.
fn alone<T: Copy>(Dense { values, mut shape }: Dense<T>, op: Op) -> Option<Dense<T>> {
    match op {
        Op::Transpose => Some(turned(Dense { values, shape })?),
        Op::Rows => {
            let experts = shape.first().copied()?;
            shape.remove(0);
            *shape.first_mut()? *= experts;
            Some(Dense { values, shape })
        }
        Op::Lone => {
            shape.insert(0, 1);
            Some(Dense { values, shape })
        }
        Op::Join(_) | Op::Weave(_) => None,
    }
}

/// Parts take turns along a dimension, as many places of each at once.
fn joined<T: Copy>(parts: &[Dense<T>], along: usize, at_once: impl Fn(&Dense<T>) -> Option<usize>) -> Option<Dense<T>> {
    let mut shape = parts.first()?.shape.clone();
    let (outer, inner): (usize, usize) =
        (shape.get(..along)?.iter().product(), shape.get(along + 1..)?.iter().product());
    let is_alike = |part: &Dense<T>| {
        let (mut one, mut other) = (part.shape.clone(), shape.clone());
        (one.get(along).is_some() && one.len() == other.len()).then(|| (one[along], other[along]) = (0, 0));
        one == other && part.values.len() == outer * part.shape[along] * inner
    };
    if !parts.iter().all(is_alike) {
        return None;
    }
    let mut values = Vec::with_capacity(parts.iter().map(|part| part.values.len()).sum());
    for row in 0..outer {
        let mut taken = vec![0; parts.len()];
        while taken.iter().zip(parts).any(|(taken, part)| *taken < part.shape[along]) {
            for (taken, part) in taken.iter_mut().zip(parts) {
                let places = at_once(part)?.min(part.shape[along] - *taken);
                let first = (row * part.shape[along] + *taken) * inner;
                values.extend_from_slice(part.values.get(first..first + places * inner)?);
                *taken += places;
            }
        }
    }
    shape[along] = parts.iter().map(|part| part.shape[along]).sum();
    Some(Dense { values, shape })
}

/// What one of several weights of these shapes was before they were packed: undone from the last thing done to the first.
pub(crate) fn unpacked<T: Copy>(packed: Dense<T>, how: &[Op], part: usize, shapes: &[Vec<usize>]) -> Option<Dense<T>> {
    let mut whole = packed;
    let wide = |shape: &Vec<usize>| shape.iter().map(|length| *length as u64).collect::<Vec<_>>();
    for (place, op) in how.iter().enumerate().rev() {
        match op {
            Op::Transpose => whole = turned(whole)?,
            Op::Join(along) | Op::Weave(along) => {
                let lengths: Vec<usize> =
                    shapes.iter().map(|shape| shape.get(*along).copied()).collect::<Option<_>>()?;
                whole = apart(&whole, *along, part, &lengths, matches!(op, Op::Weave(_)))?;
            }
            // What changes dimensions alone changes no order.
            Op::Rows | Op::Lone => {
                let before = Op::shape(&how[..place], shapes.iter().map(wide))?;
                let before = before.into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>().ok()?;
                if before.iter().product::<usize>() != whole.values.len() {
                    return None;
                }
                whole.shape = before;
            }
        }
    }
    (whole.shape == *shapes.get(part)?).then_some(whole)
}

/// One of the parts that stand behind one another along a dimension, or take turns.
fn apart<T: Copy>(
    whole: &Dense<T>,
    along: usize,
    part: usize,
    lengths: &[usize],
    takes_turns: bool,
) -> Option<Dense<T>> {
    let all = *whole.shape.get(along)?;
    if all != lengths.iter().sum::<usize>() || takes_turns && lengths.iter().any(|length| *length != lengths[0]) {
        return None;
    }
    let inner: usize = whole.shape[along + 1..].iter().product();
    let first: usize = lengths[..part].iter().sum();
    let is_mine = |place: usize| {
        if takes_turns { place % lengths.len() == part } else { (first..first + lengths[part]).contains(&place) }
    };
    let rows = whole.values.chunks_exact(inner.max(1)).enumerate();
    let values = rows.filter(|(row, _)| is_mine(row % all)).flat_map(|(_, row)| row.iter().copied()).collect();
    let mut shape = whole.shape.clone();
    shape[along] = lengths[part];
    Some(Dense { values, shape })
}

/// The last two dimensions trade places.
fn turned<T: Copy>(Dense { values, mut shape }: Dense<T>) -> Option<Dense<T>> {
    let [.., rows, columns] = shape[..] else { return None };
    let turn = |one: &[T]| -> Vec<T> {
        (0..columns).flat_map(|column| one.iter().skip(column).step_by(columns).copied()).collect()
    };
    let values = values.chunks_exact((rows * columns).max(1)).flat_map(turn).collect();
    let len = shape.len();
    shape.swap(len - 2, len - 1);
    Some(Dense { values, shape })
}

#[cfg(test)]
mod tests {
    use super::{Dense, packed, unpacked};
    use moe_model_core::checkpoint::{Naming, Op};

    fn numbers(shape: &[usize], from: u32) -> Dense<u32> {
        let len: usize = shape.iter().product();
        let to = from + u32::try_from(len).expect("matrices are small");
        Dense { values: (from..to).collect(), shape: shape.to_vec() }
    }

    #[test]
    fn parts_stand_behind_one_another_or_take_turns() {
        let [a, b] = [numbers(&[2, 2], 0), numbers(&[3, 2], 10)];
        let joined = packed(vec![a.clone(), b], &[Op::Join(0)]).expect("they are as wide");
        assert_eq!(joined.values, [0, 1, 2, 3, 10, 11, 12, 13, 14, 15]);
        let woven = packed(vec![a, numbers(&[2, 2], 10)], &[Op::Weave(0), Op::Transpose]).expect("they are alike");
        // Rows 0, 10, 2, 12 become columns.
        assert_eq!((woven.values, woven.shape), (vec![0, 10, 2, 12, 1, 11, 3, 13], vec![2, 4]));
        assert_eq!(packed(vec![numbers(&[2, 2], 0), numbers(&[2, 3], 0)], &[Op::Join(0)]), None);
        assert_eq!(packed(vec![numbers(&[2], 0)], &[Op::Transpose]), None);
    }

    #[test]
    fn what_is_packed_comes_out_again() {
        let mut count = 0;
        for naming in Naming::ALL {
            for name in ["mlp.experts.gate_proj.weight", "mlp.experts.down_proj.weight", "self_attn.k_proj.weight"] {
                let Some(stored) = naming.stored(name).filter(|stored| !stored.name.contains("{e}")) else { continue };
                let is_attention = name.starts_with("self_attn");
                let shape = |part: usize| if is_attention { vec![4 - part, 5] } else { vec![3, 4, 5] };
                let parts: Vec<_> = (0..stored.of.len())
                    .map(|part| numbers(&shape(part), u32::try_from(100 * part).expect("parts are few")))
                    .collect();
                let shapes: Vec<_> = parts.iter().map(|part| part.shape.clone()).collect();
                let whole = packed(parts.clone(), stored.how).expect("they can be packed");
                for (number, part) in parts.into_iter().enumerate() {
                    let one = unpacked(whole.clone(), stored.how, number, &shapes);
                    assert_eq!(one, Some(part), "{} {name}", naming.name);
                }
                count += 1;
            }
        }
        assert!(count >= 10, "{count} tensors are packed");
    }
}
