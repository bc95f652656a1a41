//! The `shardlake` executable. Everything it does is in the library of the same package, where tests reach it.

use std::process::ExitCode;

/// Returns freed memory to the system sooner and costs less per small allocation than the system's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything is started that a worker has no use for.
    if shardlake::script_worker::is_asked_for() {
        return shardlake_account::script_worker_main();
    }
    #[cfg(feature = "analytics-sql")]
    if shardlake::sql_tables::is_worker() {
        return shardlake::sql_tables::worker_main();
    }
    shardlake::cli::main()
}
