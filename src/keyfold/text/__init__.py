"""Pure functions over text: redaction, checks, keys, tokens, previews and differences.

No I/O, no clock. Nothing is re-exported: import from the module that has it
(``from keyfold.text.redact import redact``), so that what needs redaction alone does not
load the tokenizer, and a function never hides the module of its name. Stemmers, Unicode
tables and difflib are imported by the first call that needs them.
"""
