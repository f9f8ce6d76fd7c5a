/* One function, compiled for several instruction sets; the loader picks the best one.
 *
 * A wheel stays portable (no -march=native) and still runs AVX2 code where the processor has it,
 * and AVX-512 code where that is faster. Needs GCC and glibc; elsewhere the plain version is
 * compiled, and where RP_NO_CLONES asks for it, as for sanitizers, which the loader's choice comes
 * too early for. */
#ifndef RANKPLUG_CLONES_H
#define RANKPLUG_CLONES_H

#if !defined(RP_NO_CLONES) && defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) \
    && !defined(__clang__) && __GNUC__ >= 12
#define RP_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#define RP_WIDE_CLONES                                                                            \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define RP_CLONES
#define RP_WIDE_CLONES
#endif

#if defined(__GNUC__)
#define RP_INLINE static inline __attribute__((always_inline))
#define RP_PREFETCH(address) __builtin_prefetch((address), 0, 3)
#else
#define RP_INLINE static inline
#define RP_PREFETCH(address) ((void)0)
#define restrict __restrict
#endif

#endif
