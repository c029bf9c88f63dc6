"""The engines: the only place with sockets, files and threads."""
