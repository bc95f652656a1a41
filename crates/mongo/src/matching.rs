//! Documents that meet a filter: all of them, their number, or one by one.

use std::sync::Arc;

use shardlake_mql::{Env, Filter, Value};

use crate::failure::{Failure, Result};
use crate::order::MEMORY_BYTES_MAX;
use crate::reads::Source;
use crate::request::Request;

impl Source {
    /// All documents that meet a filter, within the bound of memory.
    pub async fn matching(
        self,
        request: &Arc<Request>,
        filter: &Filter,
        env: &mut Env,
    ) -> Result<Vec<Value>> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        let kept = |value: Value| {
            bytes += value.size();
            if bytes > MEMORY_BYTES_MAX {
                let words =
                    format!("more than {MEMORY_BYTES_MAX} bytes of documents match: narrow the filter");
                return Err(Failure::new(292, words));
            }
            found.push(value);
            Ok(())
        };
        self.each_matching(request, (filter, env), kept).await?;
        Ok(found)
    }

    /// How many documents meet a filter.
    pub async fn count_matching(self, request: &Request, filter: &Filter, env: &mut Env) -> Result<u64> {
        let mut count = 0;
        let counted = |_| {
            count += 1;
            Ok(())
        };
        self.each_matching(request, (filter, env), counted).await?;
        Ok(count)
    }

    /// Hands over every document that meets a filter, one by one.
    pub async fn each_matching(
        mut self,
        request: &Request,
        (filter, env): (&Filter, &mut Env),
        mut found: impl FnMut(Value) -> Result<()>,
    ) -> Result<()> {
        let mut slice = request.slice();
        while let Some(page) = self.next_page(request).await? {
            for value in page {
                slice.pass().await;
                let Value::Document(document) = &value else { continue };
                if filter.matches(document, env)? {
                    found(value)?;
                }
            }
        }
        Ok(())
    }
}
