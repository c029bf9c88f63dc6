import subprocess
import sys


def test_importing_the_text_package_loads_nothing_heavy() -> None:
    heavy = "{'Stemmer', 'difflib', 'unicodedata'}"
    code = f"import sys, keyfold.text; print(sorted({heavy} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
