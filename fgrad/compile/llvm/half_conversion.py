"""L5. float16 <-> float32 by integer arithmetic, for x86 processors without the F16C instructions.

LLVM calls `__extendhfsf2` and `__truncsfhf2` there, which the C library of a process may not have.

    widen    the 15 lower bits stand 13 places higher in a float32; its exponent is then 112 too
             small, which one product mends, exactly, also for numbers below the normal ones
    narrow   normal: the exponent less 112, and half of the last place added before the lower 13
             bits go, less a bit where the result would be odd (ties go to even); below 2^-14: the
             sum with 0.5 rounds to multiples of 2^-24
"""

from __future__ import annotations

WIDEN, NARROW = "__extendhfsf2", "__truncsfhf2"

_WIDEN = """
define float @{symbol}(half %x) {{
  %word = bitcast half %x to i16
  %bits = zext i16 %word to i32
  %size = and i32 %bits, 32767
  %high = shl i32 %size, 13
  %small = bitcast i32 %high to float
  %scaled = fmul float %small, 0x46F0000000000000
  %finite = bitcast float %scaled to i32
  %special = or i32 %high, 2139095040
  %quiet = or i32 %special, 4194304
  %is_nan = icmp ugt i32 %size, 31744
  %is_special = icmp uge i32 %size, 31744
  %other = select i1 %is_nan, i32 %quiet, i32 %special
  %value = select i1 %is_special, i32 %other, i32 %finite
  %negative = and i32 %bits, 32768
  %sign = shl i32 %negative, 16
  %all = or i32 %value, %sign
  %result = bitcast i32 %all to float
  ret float %result
}}
"""

_NARROW = """
define half @{symbol}(float %x) {{
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2147483647
  %shifted = lshr i32 %size, 13
  %odd = and i32 %shifted, 1
  %rebiased = add i32 %size, -939520001
  %rounded = add i32 %rebiased, %odd
  %normal = lshr i32 %rounded, 13
  %positive = bitcast i32 %size to float
  %raised = fadd float %positive, 0.5
  %low = bitcast float %raised to i32
  %below = sub i32 %low, 1056964608
  %payload = and i32 %shifted, 1023
  %nan = or i32 %payload, 32256
  %is_nan = icmp ugt i32 %size, 2139095040
  %special = select i1 %is_nan, i32 %nan, i32 31744
  %is_large = icmp uge i32 %size, 1199570944
  %is_small = icmp ult i32 %size, 947912704
  %finite = select i1 %is_small, i32 %below, i32 %normal
  %value = select i1 %is_large, i32 %special, i32 %finite
  %up = lshr i32 %bits, 16
  %sign = and i32 %up, 32768
  %all = or i32 %value, %sign
  %word = trunc i32 %all to i16
  %result = bitcast i16 %word to half
  ret half %result
}}
"""

TEXTS = {WIDEN: _WIDEN, NARROW: _NARROW}


def calls_library(triple: str, features: str) -> bool:
    """Whether LLVM's code for this machine calls functions for these conversions."""
    return triple.startswith(("x86_64", "amd64")) and "+f16c" not in features.split(",")
