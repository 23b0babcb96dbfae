//! A page for each task. Their snippets and commands are run as tests, and what they show is compared.

/// A page of `examples/cookbook/`.
macro_rules! pages {
    ($($name:ident: $about:literal, $path:literal;)*) => {
        $(
            #[doc = $about]
            #[doc = ""]
            #[doc = include_str!($path)]
            pub mod $name {}
        )*
    };
}

pages! {
    declare: "Declare a model and the layouts that it runs under.", "../examples/cookbook/declare.md";
    errors: "Read an error or a warning, and list the laws.", "../examples/cookbook/errors.md";
    files: "Check a file instead of a declaration.", "../examples/cookbook/files.md";
    models: "Count a model's parameters and tensors.", "../examples/cookbook/models.md";
    memory: "See where memory goes: budgets, explanations, spreadsheets, pictures.", "../examples/cookbook/memory.md";
    fit: "Make a layout fit: ZeRO, recomputation, FP8, a rank by hand, the paper.", "../examples/cookbook/fit.md";
    serve: "Serve a model.", "../examples/cookbook/serve.md";
    step: "Run a step, every allocation asserted.", "../examples/cookbook/step.md";
    checkpoints: "Save a step and go on under another layout.", "../examples/cookbook/checkpoints.md";
    measured: "Hold the model against a run.", "../examples/cookbook/measured.md";
    sources: "Know where each number comes from.", "../examples/cookbook/sources.md";
}
