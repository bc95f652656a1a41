//! Queries through an account in memory: answers, pages, tokens, charges and work.

mod forged_tokens;
mod kept_rows;
mod keyed_order;
mod order_tokens;
mod query_bad_input;
mod query_binding;
mod query_grammar;
mod query_kept;
mod query_linq;
mod query_properties;
mod query_samples;
mod query_work;
mod udf;
mod whole_results;

use shardlake_account_fixture as support;
