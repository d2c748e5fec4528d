//! Compiles the BPF programs and writes the code that loads them; compiles Hera's law natively for the test that compares it.

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    #[cfg(feature = "bpf")]
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        programs::build();
    }
}

#[cfg(feature = "bpf")]
mod programs {
    use std::path::PathBuf;
    use std::process::{Command, exit};

    use libbpf_cargo::SkeletonBuilder;

    const NO_CLANG: &str = "the feature `bpf` of nearlight-kernel compiles BPF programs with clang, which is not there. Install clang, \
        libelf-dev and zlib1g-dev (scripts/setup.sh kernel), or build without the feature";

    pub(super) fn build() {
        if Command::new("clang").arg("--version").output().is_err() {
            eprintln!("{NO_CLANG}");
            exit(1);
        }
        let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
        // The objects name their sources, for messages of the kernel's verifier. Wherever the sources lie, the names are the same.
        let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
        let names = format!("-ffile-prefix-map={folder}=/nearlight/lab/kernel");
        for name in ["hera", "flows", "choose"] {
            let built = SkeletonBuilder::new()
                .source(format!("bpf/{name}.bpf.c"))
                .clang_args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", &names])
                .reference_obj(true)
                .build_and_generate(out.join(format!("{name}.rs")));
            if let Err(error) = built {
                eprintln!("bpf/{name}.bpf.c: {error:?}");
                exit(1);
            }
        }
        cc::Build::new().file("bpf/native.c").warnings(true).compile("nearlight_hera_native");
    }
}
