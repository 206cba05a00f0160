// Gradient descent with a loss and a gradient that fgrad has compiled: see export_fit.py.
#include <cmath>
#include <cstdio>
#include <vector>

#include "fit.h"

int main() {
    const int n = 64, d = 3;
    std::vector<double> w(d), x(n * d), y(n), gradient(d);
    std::vector<unsigned char> workspace(FIT_WORKSPACE);
    double value = 0.0;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < d; j++) x[i * d + j] = std::sin(1.0 + 3 * i + j);
        y[i] = std::tanh(0.5 * x[i * d] - 0.25 * x[i * d + 1] + x[i * d + 2]);
    }
    for (int step = 0; step < 2000; step++) {
        if (fit(w.data(), x.data(), y.data(), &value, gradient.data(), workspace.data())) return 1;
        for (int j = 0; j < d; j++) w[j] -= 0.5 * gradient[j];
    }
    std::printf("loss %.3e\n", value);
    return value < 1e-3 ? 0 : 1;
}
