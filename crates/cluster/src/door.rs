//! What lets the clients of a node in: a server, which knows nodes, while these do not know it.

/// Lets clients in.
pub trait Door: Send + Sync {
    /// Lets no new ones in from now on, and lets those go that have no statement and no transaction.
    fn close(&self);

    /// Returns how many clients there are.
    fn clients(&self) -> usize;
}
