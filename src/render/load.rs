//! To be written by the owner of this room.
