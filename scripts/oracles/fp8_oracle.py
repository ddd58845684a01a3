#!/usr/bin/env python3
"""Writes tests/data/fp8/e4m3.txt: what each byte of FP8 (E4M3 without infinities) stands for, by ml_dtypes.

    python fp8_oracle.py tests/data/fp8/e4m3.txt

A line for each of the 256 bytes, in order: the byte, and the value in decimal (or nan), which is exact.
"""

import sys

import ml_dtypes
import numpy


def main():
    values = numpy.arange(256, dtype=numpy.uint8).view(ml_dtypes.float8_e4m3fn).astype(numpy.float32)
    with open(sys.argv[1], "w", encoding="ascii") as out:
        for byte, value in enumerate(values):
            out.write(f"0x{byte:02x} {float(value)!r}\n")


if __name__ == "__main__":
    main()
