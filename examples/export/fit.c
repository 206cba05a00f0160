/* Gradient descent with a loss and a gradient that fgrad has compiled: see export_fit.py. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "fit.h"

enum { N = 64, D = 3 };

int main(void) {
    double w[D] = {0.0, 0.0, 0.0}, x[N * D], y[N], value, gradient[D];
    void *workspace = malloc(FIT_WORKSPACE);
    if (workspace == NULL) return 1;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < D; j++) x[i * D + j] = sin(1.0 + 3 * i + j);
        y[i] = tanh(0.5 * x[i * D] - 0.25 * x[i * D + 1] + x[i * D + 2]);
    }
    for (int step = 0; step < 2000; step++) {
        if (fit(w, x, y, &value, gradient, workspace) != 0) return 1;
        for (int j = 0; j < D; j++) w[j] -= 0.5 * gradient[j];
    }
    printf("loss %.3e\n", value);
    free(workspace);
    return value < 1e-3 ? 0 : 1;
}
