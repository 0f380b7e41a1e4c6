//! Nested objects become columns (R24).
