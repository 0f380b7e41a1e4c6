//! The binary: everything it does is in the library's `cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    restmark::cli::main()
}
