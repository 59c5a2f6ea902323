"""The parties of the bench: ours and the peers, one file for each."""
