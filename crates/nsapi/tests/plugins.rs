//! Plug-ins written in C, compiled here and loaded.
