// Tight loops, by hand, whose rates are the limits that benchmarks/rates.py counts with.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>

// b[i] = a[i] + s c[i], `times` times: 24 bytes an element.
extern "C" void triad(long n, long times, const double *a, const double *c, double *b) {
    for (long t = 0; t < times; ++t) {
        double s = 1.0 + 1e-9 * t;
#pragma GCC ivdep
        for (long i = 0; i < n; ++i) b[i] = a[i] + s * c[i];
        asm volatile("" ::: "memory");
    }
}

// The sum of numbers in 64 lanes: 8 bytes an element; n is a multiple of 64.
extern "C" double read(long n, long times, const double *a) {
    double lanes[64] = {};
    for (long t = 0; t < times; ++t) {
        for (long i = 0; i < n; i += 64)
            for (int k = 0; k < 64; ++k) lanes[k] += a[i + k];
        asm volatile("" ::: "memory");
    }
    double total = 0;
    for (double lane : lanes) total += lane;
    return total;
}

// exp(x) = 2^k e^r with |r| <= ln(2) / 2, by a polynomial of the last digit's accuracy or nearly so;
// only for numbers whose result is a normal number.
static inline float exp_one(float x) {
    float k = std::nearbyint(x * 1.44269504f), r = x - k * 0.693147182f;
    float p = 1 / 720.0f;
    for (float d : {120.0f, 24.0f, 6.0f, 2.0f, 1.0f, 1.0f}) p = p * r + 1 / d;
    int32_t bits = (int32_t(k) + 127) << 23;
    float scale;
    std::memcpy(&scale, &bits, 4);
    return p * scale;
}

static inline double exp_one(double x) {
    double k = std::nearbyint(x * 1.4426950408889634);
    double r = (x - k * 0.6931471803691238) - k * 1.9082149292705877e-10;
    double p = 1 / 39916800.0;
    for (double d : {3628800.0, 362880.0, 40320.0, 5040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0})
        p = p * r + 1 / d;
    int64_t bits = (int64_t(k) + 1023) << 52;
    double scale;
    std::memcpy(&scale, &bits, 8);
    return p * scale;
}

#define OVER(name, type, f)                                          \
    extern "C" void name(long n, long times, const type *a, type *b) { \
        for (long t = 0; t < times; ++t) {                           \
            _Pragma("GCC ivdep") for (long i = 0; i < n; ++i) b[i] = f; \
            asm volatile("" ::: "memory");                           \
        }                                                            \
    }
OVER(exp_f32, float, exp_one(a[i]))
OVER(exp_f64, double, exp_one(a[i]))
OVER(divide_f32, float, 1.5f / a[i])
OVER(divide_f64, double, 1.5 / a[i])

// n additions and multiplications, each of the last one's result.
extern "C" double chain(long n, long times, double x) {
    for (long t = 0; t < times * n; ++t) {
        x = x * 0.999 + 0.001;
        asm volatile("" : "+x"(x));
    }
    return x;
}

// b[i] = a[at[i]]: numbers from places that are not next to each other.
extern "C" void look_up(long n, long times, const double *a, const int64_t *at, double *b) {
    for (long t = 0; t < times; ++t) {
#pragma GCC ivdep
        for (long i = 0; i < n; ++i) b[i] = a[at[i]];
        asm volatile("" ::: "memory");
    }
}
