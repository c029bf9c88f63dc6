"""Memory as tools of the Model Context Protocol.

`tools` says what there is, `toolbox` carries calls out, and neither knows the SDK; `server` makes an SDK server of a
toolbox, for any transport; `stdio` serves it on this process's pipes. Importing the SDK takes most of a second,
so only the last two do.
"""
