"""The bars of the client protocol: ours and the peers, through the same networks, in one run."""
