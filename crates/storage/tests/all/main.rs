//! The tests of the storage in one program, which is linked once, and which some of them start as another
//! process. Apart from it is `allocation`, whose allocator fails.

#[path = "../common/mod.rs"]
mod common;

mod backup;
mod crash;
mod damage;
mod directory;
mod faults;
mod golden;
mod images;
mod indexes;
mod isolation;
mod keys;
mod live;
mod locks;
mod model;
mod races;
mod sequences;
mod storage;
mod transactions;
mod verification;
