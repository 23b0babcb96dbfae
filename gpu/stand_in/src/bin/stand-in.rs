//! Runs a command over the stand-in: makes a folder in which the loader finds the CUDA libraries' names, all of them the
//! one library, and puts it first.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The names under which programs look for the libraries.
const NAMES: [&str; 7] =
    ["libcuda.so", "libcuda.so.1", "libcublas.so", "libcublas.so.12", "libcublas.so.13", "libnccl.so", "libnccl.so.2"];

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next() else {
        eprintln!("usage: stand-in COMMAND [ARGUMENT…]    (or `stand-in --folder`: prints the folder)");
        return ExitCode::from(2);
    };
    let folder = match prepare() {
        Ok(folder) => folder,
        Err(error) => {
            eprintln!("stand-in: {error}");
            return ExitCode::FAILURE;
        }
    };
    if program == "--folder" {
        println!("{}", folder.display());
        return ExitCode::SUCCESS;
    }
    let mut path = folder.into_os_string();
    if let Some(old) = std::env::var_os("LD_LIBRARY_PATH").filter(|old| !old.is_empty()) {
        path.push(":");
        path.push(old);
    }
    match Command::new(&program).args(arguments).env("LD_LIBRARY_PATH", path).status() {
        Ok(status) => ExitCode::from(status.code().and_then(|c| u8::try_from(c).ok()).unwrap_or(1)),
        Err(error) => {
            eprintln!("stand-in: {}: {error}", program.to_string_lossy());
            ExitCode::FAILURE
        }
    }
}

/// The folder, made beside this program, and the library's names in it.
fn prepare() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let beside = own.parent().ok_or("the program is in no folder")?;
    // `cargo run` and `cargo test` leave it among the dependencies, `cargo build` beside the program too.
    let library = [beside.join("deps"), beside.to_owned()]
        .map(|folder| folder.join("libmoe_model_stand_in.so"))
        .into_iter()
        .filter_map(|path| Some((path.metadata().and_then(|m| m.modified()).ok()?, path)))
        .max()
        .map(|(_, path)| path)
        .ok_or_else(|| format!("no libmoe_model_stand_in.so in {} or its deps", beside.display()))?;
    let folder = beside.join("stand-in-libraries");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for name in NAMES {
        link(&library, &folder.join(name)).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(folder)
}

/// A link, put in place at once: another run may be using the old one.
fn link(library: &Path, name: &Path) -> std::io::Result<()> {
    if std::fs::read_link(name).is_ok_and(|to| to == library) {
        return Ok(());
    }
    let new = name.with_extension(format!("new-{}", std::process::id()));
    let _ = std::fs::remove_file(&new);
    std::os::unix::fs::symlink(library, &new)?;
    std::fs::rename(&new, name)
}
