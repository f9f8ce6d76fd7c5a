"""The soft projection for compiled code; see ``projection.h``."""

from libc.stdint cimport int64_t


# Returns sum alpha = sum beta <= C (C may be infinite). `alpha` may be `mu`, and `beta` may be
# `nu`; p, q >= 1.
cdef double project(const double *mu, int64_t p, const double *nu, int64_t q, double C,
                    double *alpha, double *beta) noexcept nogil
