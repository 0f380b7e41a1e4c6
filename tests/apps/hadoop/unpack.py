"""Writes jars again without compression, in place: a NameNode reads three of them whole before it answers.

    unpack.py JAR...
"""

import os
import sys
import zipfile

for name in sys.argv[1:]:
    with zipfile.ZipFile(name) as packed, zipfile.ZipFile(f"{name}.new", "w") as loose:
        for entry in packed.infolist():
            loose.writestr(entry, packed.read(entry), zipfile.ZIP_STORED)
    os.replace(f"{name}.new", name)
