//! Which parameters of an entry are pointers: PTX does not say.

use crate::ptx::instruction::{Entry, Op, Preset, Register, Space};
use std::collections::HashMap;

/// A parameter that is converted to a global address, or used as one, is a pointer.
pub(super) fn mark_pointers(entry: &mut Entry) {
    let numbers: HashMap<Register, u64> = entry
        .presets
        .iter()
        .filter_map(|(r, p)| if let Preset::Number(n) = p { Some((*r, *n)) } else { None })
        .collect();
    let mut loaded: HashMap<Register, u32> = HashMap::new();
    for instruction in &entry.code {
        let used = match &instruction.op {
            Op::Load { space: Space::Param, ty, d, base, offset } if ty.bytes() == 8 => {
                if let ([Some(d)], Some(at)) = (&d[..], numbers.get(base))
                    && let Ok(at) = u32::try_from(at.wrapping_add_signed(*offset))
                {
                    loaded.insert(*d, at);
                }
                continue;
            }
            Op::Convey { space: Space::Global, to_generic: false, a, .. } => *a,
            Op::Load { space: Space::Global | Space::Generic, base, .. }
            | Op::Store { space: Space::Global | Space::Generic, base, .. } => *base,
            _ => continue,
        };
        if let Some(&at) = loaded.get(&used)
            && let Some(parameter) = entry.parameters.iter_mut().find(|p| p.offset == at)
        {
            parameter.is_pointer = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ptx::parser::parse;
    use crate::ptx::parser::tests::module;

    #[test]
    fn parameters_have_offsets_and_pointers_are_known_by_their_use() {
        let body = ".reg .b64 %rd<9>; .reg .f32 %f<3>;\nld.param.u64 %rd1, [k_0];\nld.param.u64 %rd2, [k_2];\n\
                    cvta.to.global.u64 %rd3, %rd1;\nst.global.f32 [%rd3+4], 0f3F800000;\nret;";
        let module = parse(&module(body)).unwrap();
        let entry = &module.entries["k"];
        let parameters: Vec<_> = entry.parameters.iter().map(|p| (p.offset, p.bytes, p.is_pointer)).collect();
        assert_eq!(parameters, [(0, 8, true), (8, 4, false), (16, 8, false)]);
        assert_eq!((entry.parameter_bytes, entry.max_threads), (24, Some(128)));
    }
}
