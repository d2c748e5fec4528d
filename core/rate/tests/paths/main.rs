//! Controllers on whole paths in virtual time: stories and tables.

mod equilibria;
mod link;
mod stories;
mod table;
