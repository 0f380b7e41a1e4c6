//! Cross-key rules: all problems at once (R11-R13).
