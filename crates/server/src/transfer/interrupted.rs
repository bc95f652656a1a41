//! Signals that end a command in order.

use tokio::signal::unix::{SignalKind, signal};

/// Ctrl-C, the end that a supervisor asks for, or the end of the terminal.
pub async fn interrupted() {
    let hangup = async {
        match ignores_hangup() {
            true => std::future::pending().await,
            false => arrival(SignalKind::hangup()).await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = arrival(SignalKind::terminate()) => {}
        () = hangup => {}
    }
}

async fn arrival(kind: SignalKind) {
    match signal(kind) {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    }
}

/// `nohup` starts commands with SIGHUP ignored, and they continue without the terminal.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // SIGHUP is number 1.
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
