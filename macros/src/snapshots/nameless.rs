#[allow(unexpected_cfgs)]
const _: () = {
    #[cfg(rust_analyzer)]
    ::moe_model::__private::__editor!(pub struct);
};
::core::compile_error! {
    "a declaration begins with a name, then lists keys: `pub struct Name; hidden: 7168, …`"
}
