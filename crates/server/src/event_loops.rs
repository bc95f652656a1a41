//! Event loops: the threads that connections are served on, one for each processor, each with a runtime of its own.
//!
//! ```text
//! listener ─ accepts ─► loop 0: its connections, HTTP, what is answered in the call
//!                       loop 1: …
//!                         │ what is spawned, timed or long
//!                         ▼
//!                       the server's runtime (every processor)
//! ```
//!
//! A connection stays on the loop that it was given to, which is the one with the fewest. So a point read wakes no other thread of
//! the server, its memory goes back to the thread that took it, and what its connection knows stays with one processor. As tasks of
//! one runtime, connections would move to whichever thread looked for work last.
//!
//! A loop drives sockets and nothing else. Requests are polled on it within the server's runtime ([`Within`]), so that all that they
//! spawn or wait for lives where it lives for every other door. A request that turns out to be long is carried on there
//! ([`Carried`]): the other connections of the loop wait for one poll of it, and long requests spread over all processors,
//! whichever loops they came in on.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use shardlake_stdx::Clock;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A request that was at work on its loop for so long is carried on elsewhere. A turn of a page that reads much is about as long.
const ON_LOOP_MAX: Duration = Duration::from_micros(500);

/// All loops. Dropping it ends them, and what is still served there.
pub struct EventLoops {
    all: Arc<[EventLoop]>,
    _end: watch::Sender<()>,
}

/// A thread that serves connections.
#[derive(Debug)]
pub struct EventLoop {
    runtime: Handle,
    connections: AtomicUsize,
}

impl EventLoops {
    /// One for each processor that the process may use.
    pub fn start() -> Result<EventLoops, String> {
        let (end, ended) = watch::channel(());
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let loops: io::Result<Vec<EventLoop>> =
            (0..count).map(|number| EventLoop::start(number, ended.clone())).collect();
        let all = loops.map_err(|error| format!("the threads for connections cannot start: {error}"))?;
        Ok(EventLoops { all: all.into(), _end: end })
    }

    pub fn all(&self) -> Arc<[EventLoop]> {
        self.all.clone()
    }
}

impl EventLoop {
    fn start(number: usize, mut ended: watch::Receiver<()>) -> io::Result<EventLoop> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let run = move || {
            // An error is the end: nobody is left to send.
            let _ended = runtime.block_on(ended.changed());
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name(format!("loop-{number}")).spawn(run)?;
        Ok(EventLoop { runtime: handle, connections: AtomicUsize::new(0) })
    }
}

/// Gives a connection to the loop with the fewest, and serves it there.
pub fn serve<S>(
    loops: &Arc<[EventLoop]>,
    stream: TcpStream,
    serve: impl FnOnce(TcpStream) -> S,
) -> io::Result<()>
where
    S: Future<Output = ()> + Send + 'static,
{
    let connections = |at: &usize| loops[*at].connections.load(Ordering::Relaxed);
    let at =
        (0..loops.len()).min_by_key(connections).ok_or_else(|| io::Error::other("there is no event loop"))?;
    let event_loop = &loops[at];
    let stream = stream.into_std()?;
    // The socket is driven by whoever's runtime is entered.
    let served = {
        let _entered = event_loop.runtime.enter();
        serve(TcpStream::from_std(stream)?)
    };
    event_loop.connections.fetch_add(1, Ordering::Relaxed);
    let open = Open { loops: loops.clone(), at };
    event_loop.runtime.spawn(async move {
        let _open = open;
        served.await;
    });
    Ok(())
}

/// Counts a connection of a loop until it has ended.
struct Open {
    loops: Arc<[EventLoop]>,
    at: usize,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.loops[self.at].connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Work that is polled here and belongs to a runtime: what it spawns and times is there.
pub struct Within<'r, F> {
    pub runtime: &'r Handle,
    pub work: F,
}

impl<F: Future + Unpin> Future for Within<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _entered = self.runtime.enter();
        Pin::new(&mut self.work).poll(context)
    }
}

/// Work that begins here, within a runtime, and is carried on in that runtime once it has been at work for long. Dropped, it ends.
pub struct Carried<'c, T> {
    runtime: &'c Handle,
    clock: &'c Clock,
    spent: Duration,
    work: Place<T>,
}

enum Place<T> {
    Here(Pin<Box<dyn Future<Output = T> + Send>>),
    There(JoinHandle<T>),
    /// On its way from here to there.
    Between,
}

impl<'c, T: Send + 'static> Carried<'c, T> {
    pub fn new(
        (runtime, clock): (&'c Handle, &'c Clock),
        work: Pin<Box<dyn Future<Output = T> + Send>>,
    ) -> Carried<'c, T> {
        Carried { runtime, clock, spent: Duration::ZERO, work: Place::Here(work) }
    }

    fn poll_here(&mut self, context: &mut Context<'_>) -> Option<Poll<T>> {
        let Place::Here(work) = &mut self.work else { return None };
        let began = self.clock.elapsed();
        let polled = {
            let _entered = self.runtime.enter();
            work.as_mut().poll(context)
        };
        if polled.is_ready() {
            return Some(polled);
        }
        self.spent += self.clock.elapsed().saturating_sub(began);
        if self.spent < ON_LOOP_MAX {
            return Some(Poll::Pending);
        }
        if let Place::Here(work) = std::mem::replace(&mut self.work, Place::Between) {
            self.work = Place::There(self.runtime.spawn(work));
        }
        None
    }
}

impl<T: Send + 'static> Future for Carried<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if let Some(polled) = self.poll_here(context) {
            return polled;
        }
        let Place::There(task) = &mut self.work else { return Poll::Pending };
        match ready!(Pin::new(task).poll(context)) {
            Ok(done) => Poll::Ready(done),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The server's runtime has ended, and the loop is about to.
            Err(_) => Poll::Pending,
        }
    }
}

impl<T> Drop for Carried<'_, T> {
    fn drop(&mut self) {
        if let Place::There(task) = &self.work {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use shardlake_stdx::Timestamp;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::oneshot;

    use super::*;

    fn here() -> std::thread::ThreadId {
        std::thread::current().id()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn connections_are_spread_over_lanes_and_stay_there() {
        let loops = EventLoops::start().expect("threads");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let mut clients = Vec::new();
        for _ in 0..2 * loops.all.len() {
            clients.push(TcpStream::connect(address).await.expect("it listens"));
            let (stream, _) = listener.accept().await.expect("a connection");
            let echo = |mut stream: TcpStream| async move {
                let mut byte = [0];
                while stream.read_exact(&mut byte).await.is_ok() {
                    let name = std::thread::current().name().unwrap_or_default().to_owned();
                    let _sent = stream.write_all(format!("{name};").as_bytes()).await;
                }
            };
            serve(&loops.all(), stream, echo).expect("served");
        }
        let counts = |loops: &EventLoops| -> Vec<usize> {
            loops.all.iter().map(|event_loop| event_loop.connections.load(Ordering::Relaxed)).collect()
        };
        assert!(counts(&loops).iter().all(|count| *count == 2), "{:?}", counts(&loops));
        for client in &mut clients {
            let mut name = [0; 7];
            client.write_all(b"xx").await.expect("sent");
            client.read_exact(&mut name).await.expect("an answer");
            let first = name;
            client.read_exact(&mut name).await.expect("an answer");
            assert_eq!(first, name);
            assert!(name.starts_with(b"loop-"), "{name:?}");
        }
        drop(clients);
        while counts(&loops).iter().any(|count| *count > 0) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn short_work_stays_and_what_it_spawns_is_in_the_runtime_that_it_belongs_to() {
        let loops = EventLoops::start().expect("threads");
        let (server, clock) = (Handle::current(), Clock::manual(Timestamp(5)));
        let (told, tells) = oneshot::channel();
        loops.all[0].runtime.spawn(async move {
            let event_loop = here();
            let work = async move {
                tokio::task::yield_now().await;
                (here() == event_loop, Handle::current().id())
            };
            let carried = Carried::new((&server, &clock), Box::pin(work)).await;
            let read = Within { runtime: &server, work: std::future::ready(()) }.await;
            let _waits_for_it = told.send((carried, read, Handle::current().id() == server.id()));
        });
        let ((stayed, spawns_in), (), loop_is_server) = tells.await.expect("told");
        assert!(stayed && !loop_is_server);
        assert_eq!(spawns_in, Handle::current().id());
    }

    #[tokio::test]
    async fn long_work_is_carried_on_in_the_servers_runtime() {
        let loops = EventLoops::start().expect("threads");
        let (server, clock) = (Handle::current(), Clock::manual(Timestamp(5)));
        let thread = here();
        let (told, tells) = oneshot::channel();
        loops.all[0].runtime.spawn(async move {
            let time = clock.clone();
            let work = async move {
                time.advance(ON_LOOP_MAX);
                tokio::task::yield_now().await;
                here()
            };
            let _waits_for_it = told.send(Carried::new((&server, &clock), Box::pin(work)).await);
        });
        assert_eq!(tells.await.expect("told"), thread);
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_ends_wherever_it_is() {
        struct Ended(Option<oneshot::Sender<()>>);
        impl Drop for Ended {
            fn drop(&mut self) {
                let _told = self.0.take().map(|told| told.send(()));
            }
        }
        let (server, clock) = (Handle::current(), Clock::manual(Timestamp(5)));
        let (told, tells) = oneshot::channel();
        let (time, ended) = (clock.clone(), Ended(Some(told)));
        let work = async move {
            let _ended = ended;
            time.advance(ON_LOOP_MAX);
            std::future::pending::<()>().await;
        };
        let mut carried = Carried::new((&server, &clock), Box::pin(work));
        assert!(futures::poll!(&mut carried).is_pending());
        assert!(matches!(carried.work, Place::There(_)));
        drop(carried);
        tells.await.expect("it was dropped");
    }
}
