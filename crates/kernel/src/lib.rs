//! The modelled kernel: inode cache, lazytime and their old and new designs, over a real image.
