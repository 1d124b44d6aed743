//! On real files, in the simulated world under kills and faults, and with damage anywhere in the data.

mod bench;
mod crashes;
mod damage;
mod faults;
mod files;
