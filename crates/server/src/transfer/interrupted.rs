//! Signals that end a command in order.

use tokio::signal::unix::SignalKind;

/// Ctrl-C, or the end that a supervisor asks for.
pub async fn interrupted() {
    let terminate = tokio::signal::unix::signal(SignalKind::terminate());
    let terminated = async {
        match terminate {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}
