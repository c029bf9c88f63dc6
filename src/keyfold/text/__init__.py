"""Pure functions over text: redaction, checks, keys, tokens, previews and differences.

No I/O, no clock. Importing this package is cheap: stemmers, Unicode tables and difflib
are imported by the first call that needs them.
"""

from keyfold.text.check import bad_character
from keyfold.text.diff import diff_lines
from keyfold.text.keys import fold_key, suggest_key
from keyfold.text.redact import has_private, redact, redact_count
from keyfold.text.snippet import snippet
from keyfold.text.tokens import TOKENIZER_VERSION, Unit, all_words, index_tokens, query_units

__all__ = [
    "TOKENIZER_VERSION",
    "Unit",
    "all_words",
    "bad_character",
    "diff_lines",
    "fold_key",
    "has_private",
    "index_tokens",
    "query_units",
    "redact",
    "redact_count",
    "snippet",
    "suggest_key",
]
