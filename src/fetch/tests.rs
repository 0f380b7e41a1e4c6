//! Hostile servers on loopback.
