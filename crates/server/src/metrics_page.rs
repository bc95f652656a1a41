//! The text of `/metrics`, kept for a second and made once at a time.
//!
//! The page needs no key and grows with the containers, so a crowd of scrapers must not cost more than one. Who asks while it is
//! being made waits for that one. It is made on a task of its own: a scraper that hangs up does not leave a rendering behind
//! that the next one would double.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use shardlake_stdx::Clock;
use tokio::sync::Mutex;

/// Scrapers come every few seconds at most.
const KEPT_FOR: Duration = Duration::from_secs(1);

pub struct MetricsPage {
    clock: Clock,
    /// Held by the task that makes a new text.
    kept: Arc<Mutex<Option<Kept>>>,
    renderings: AtomicU64,
}

struct Kept {
    /// By [`Clock::elapsed`].
    made_at: Duration,
    text: Bytes,
}

impl MetricsPage {
    pub fn new(clock: Clock) -> MetricsPage {
        MetricsPage { clock, kept: Arc::default(), renderings: AtomicU64::new(0) }
    }

    /// The text, which `render` makes where the kept one is too old.
    pub async fn get<F>(&self, render: F) -> Result<Bytes, String>
    where
        F: Future<Output = Result<String, String>> + Send + 'static,
    {
        let mut kept = self.kept.clone().lock_owned().await;
        let now = self.clock.elapsed();
        if let Some(kept) = kept.as_ref().filter(|kept| now.saturating_sub(kept.made_at) < KEPT_FOR) {
            return Ok(kept.text.clone());
        }
        self.renderings.fetch_add(1, Ordering::Relaxed);
        let clock = self.clock.clone();
        let making = tokio::spawn(async move {
            let text = Bytes::from(render.await?);
            *kept = Some(Kept { made_at: clock.elapsed(), text: text.clone() });
            Ok(text)
        });
        making.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// How often a text was made.
    #[cfg(test)]
    pub fn renderings(&self) -> u64 {
        self.renderings.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use shardlake_stdx::Timestamp;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_scraper_that_hangs_up_leaves_its_text_to_the_others() {
        let page = MetricsPage::new(Clock::manual(Timestamp(5)));
        let (release, held) = oneshot::channel::<()>();
        let slow = async move {
            let _released = held.await;
            Ok("slow".to_owned())
        };
        let mut first = Box::pin(page.get(slow));
        assert!(futures::poll!(first.as_mut()).is_pending());
        drop(first);
        let second = page.get(async { Ok("second".to_owned()) });
        release.send(()).expect("it is being waited for");
        assert_eq!(second.await, Ok(Bytes::from("slow")));
        assert_eq!(page.renderings(), 1);
    }

    #[tokio::test]
    async fn a_text_that_was_not_made_is_made_by_the_next() {
        let page = MetricsPage::new(Clock::manual(Timestamp(5)));
        assert_eq!(page.get(async { Err("no".to_owned()) }).await, Err("no".to_owned()));
        assert_eq!(page.get(async { Ok("yes".to_owned()) }).await, Ok(Bytes::from("yes")));
    }
}
