//! Link arguments of the module whose memory the workers share.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Only where the threaded build asks for it: without std built for atomics the linker would refuse.
    println!("cargo:rerun-if-env-changed=EXT4LAB_SHARED_MEMORY");
    if std::env::var_os("EXT4LAB_SHARED_MEMORY").is_none() {
        return;
    }
    for argument in [
        "--shared-memory",
        "--max-memory=4294967296",
        "--import-memory",
        "--export=__heap_base",
        "--export=__wasm_init_tls",
        "--export=__tls_size",
        "--export=__tls_align",
        "--export=__tls_base",
    ] {
        println!("cargo:rustc-link-arg-bin=engine_threads={argument}");
    }
}
