//! Collections of documents over containers of items: what MongoDB's commands ask for, on the engine that all front ends share.
