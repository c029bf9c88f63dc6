"""What the wires of memory services look like: pure plans that yield HTTP requests. No I/O and no clock.

`wire` has the requests and what an answer's status means, `names` what things are called out there, `payload`
how a record is written down, `base` what a dialect offers, and `keyed` makes of any dialect the storage
contract. A service is one file (two where it has two wires).
"""
