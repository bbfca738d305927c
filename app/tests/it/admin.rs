//! The admin API of a running appliance. Its port receives nothing, so that this needs no privileges; but for
//! what is about traffic, which takes network namespaces.

mod abuse;
mod api;
mod by_hand;
mod contract;
mod pages;
mod remote;
mod site;
mod traffic;
