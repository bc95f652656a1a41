//! The language as its users meet it: MongoDB's recorded cases over collections in memory.

mod cases;
mod commands;
mod compare;
mod harness;
mod tagged;
mod writes;
