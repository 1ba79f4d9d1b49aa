"""A turn as a graph: state, guards, actions, edges, snapshots, and the router that walks it."""
