//! The ext4 on-disk format: decode, check, change.
