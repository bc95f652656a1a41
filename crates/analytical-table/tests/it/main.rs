//! Analytical tables: schema, rows and files.
