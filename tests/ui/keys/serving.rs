// A layout that serves needs no batch and no accounting, but requests and a context; one that trains needs both.
use moe_model::moe_model;

moe_model! {
    /// Llama 3.1 8B.
    pub struct Llama;

    architecture: preset(llama_3_1_8b),

    layout NoContext: layout {
        mesh: mesh { dp: 1 },
        serving: serving { requests: 16 },
    },
    layout Misspelt: layout {
        mesh: mesh { dp: 1 },
        serving: serving { requests: 16, context: 4096, bloc: 32 },
    },
    layout Both: layout {
        mesh: mesh { dp: 1 },
        serving: serving { requests: 16, context: 4096 },
        accounting: paper,
    },
    layout Word: layout {
        mesh: mesh { dp: 1 },
        serving: on,
    },
    layout Neither: layout {
        mesh: mesh { dp: 1 },
        serving: none,
    },
}

fn main() {}
