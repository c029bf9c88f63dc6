"""Test servers of the services Keyfold speaks to, as awkward as the services are, on real sockets."""
