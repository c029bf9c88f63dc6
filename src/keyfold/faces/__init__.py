"""The faces of an engine, blocking and async, each written once: see `threaded` and `planned`."""

from keyfold.faces.threaded import Threaded as Threaded
