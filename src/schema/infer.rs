//! Columns from the first page: names, paths and widened types (R24).
