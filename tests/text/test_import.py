import subprocess
import sys


def test_importing_the_text_modules_loads_nothing_heavy() -> None:
    heavy = "{'Stemmer', 'difflib', 'unicodedata'}"
    load = "from keyfold.text import check, diff, keys, redact, snippet, tokens"
    code = f"import sys; {load}; print(sorted({heavy} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
