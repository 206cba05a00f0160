/* The values and gradients of `loop_adjoints.py`, as one writes them by hand.  Each function of n
   returns its loss; those with a gradient write it, and use `work` for what they keep. */

#include <math.h>
#include <string.h>

double recurrence(long n, const double *x, const double *w, double *g, double *work) {
    double *y = work, loss = w[0] * x[0], c = 0;
    y[0] = x[0];
    for (long i = 1; i < n; i++) {
        y[i] = sin(y[i - 1]) + x[i];
        loss += w[i] * y[i];
    }
    for (long i = n - 1; i > 0; i--) {
        c += w[i];
        g[i] = c;
        c *= cos(y[i - 1]);
    }
    g[0] = c + w[0];
    return loss;
}

static void field(const double *s, double *d) {
    d[0] = 10.0 * (s[1] - s[0]);
    d[1] = s[0] * (28.0 - s[2]) - s[1];
    d[2] = s[0] * s[1] - 8.0 / 3.0 * s[2];
}

static void field_back(const double *s, const double *c, double *b) {
    b[0] += -10.0 * c[0] + (28.0 - s[2]) * c[1] + s[1] * c[2];
    b[1] += 10.0 * c[0] - c[1] + s[0] * c[2];
    b[2] += -s[0] * c[1] - 8.0 / 3.0 * c[2];
}

double lorenz(long n, const double *x, const double *w, double *g, double *work) {
    const double h = 0.01, at[4] = {0, 0.5, 0.5, 1}, by[4] = {1, 2, 2, 1};
    double s[3] = {x[0], x[1], x[2]}, k[4][3], p[4][3];
    for (long i = 0; i < n; i++) {
        memcpy(work + 3 * i, s, sizeof s);
        for (int j = 0; j < 4; j++) {
            for (int m = 0; m < 3; m++) p[j][m] = s[m] + (j ? at[j] * h * k[j - 1][m] : 0);
            field(p[j], k[j]);
        }
        for (int m = 0; m < 3; m++)
            s[m] += h / 6 * (k[0][m] + 2 * k[1][m] + 2 * k[2][m] + k[3][m]);
    }
    double c[3] = {w[0], w[1], w[2]};
    for (long i = n - 1; i >= 0; i--) {
        const double *q = work + 3 * i;
        for (int j = 0; j < 4; j++) {
            for (int m = 0; m < 3; m++) p[j][m] = q[m] + (j ? at[j] * h * k[j - 1][m] : 0);
            field(p[j], k[j]);
        }
        double b[3] = {c[0], c[1], c[2]}, later[3] = {0, 0, 0};
        for (int j = 3; j >= 0; j--) {
            double ck[3], cp[3] = {0, 0, 0};
            for (int m = 0; m < 3; m++) ck[m] = h / 6 * by[j] * c[m] + later[m];
            field_back(p[j], ck, cp);
            for (int m = 0; m < 3; m++) {
                b[m] += cp[m];
                later[m] = at[j] * h * cp[m];
            }
        }
        memcpy(c, b, sizeof c);
    }
    memcpy(g, c, sizeof c);
    return w[0] * s[0] + w[1] * s[1] + w[2] * s[2];
}

double heat(long n, const double *x, const double *w, double *g, double *work) {
    double *u = work, *v = work + n, loss = 0;
    memcpy(u, x, n * sizeof *u);
    memcpy(v, x, n * sizeof *u);
    for (int t = 0; t < 200; t++) {
        for (long i = 1; i < n - 1; i++) v[i] = u[i] + 0.1 * (u[i + 1] - 2.0 * u[i] + u[i - 1]);
        double *swap = u;
        u = v;
        v = swap;
    }
    for (long i = 0; i < n; i++) loss += w[i] * u[i];
    double *c = work, *b = g;
    memcpy(c, w, n * sizeof *c);
    for (int t = 0; t < 200; t++) {
        b[0] = c[0] + 0.1 * c[1];
        b[1] = 0.8 * c[1] + 0.1 * c[2];
        for (long i = 2; i < n - 2; i++) b[i] = c[i] + 0.1 * (c[i + 1] - 2.0 * c[i] + c[i - 1]);
        b[n - 2] = 0.8 * c[n - 2] + 0.1 * c[n - 3];
        b[n - 1] = c[n - 1] + 0.1 * c[n - 2];
        double *swap = c;
        c = b;
        b = swap;
    }
    if (c != g) memcpy(g, c, n * sizeof *c);
    return loss;
}

double soft_dtw(long n, const double *x, const double *y, double *g, double *work) {
    long m = n + 1;
    double *d = work, *p = d + m * m, *e = p + 3 * m * m;
    for (long k = 0; k < m * m; k++) d[k] = 1e10, e[k] = 0;
    d[0] = 0;
    for (long i = 1; i <= n; i++)
        for (long j = 1; j <= n; j++) {
            double a = -d[(i - 1) * m + j], b = -d[i * m + j - 1], c = -d[(i - 1) * m + j - 1];
            double top = fmax(a, fmax(b, c)), *q = p + 3 * (i * m + j);
            q[0] = exp(a - top), q[1] = exp(b - top), q[2] = exp(c - top);
            double total = q[0] + q[1] + q[2], r = x[i - 1] - y[j - 1];
            q[0] /= total, q[1] /= total, q[2] /= total;
            d[i * m + j] = r * r - (top + log(total));
        }
    memset(g, 0, 2 * n * sizeof *g);
    e[n * m + n] = 1;
    for (long i = n; i > 0; i--)
        for (long j = n; j > 0; j--) {
            double c = e[i * m + j], r = 2 * (x[i - 1] - y[j - 1]) * c, *q = p + 3 * (i * m + j);
            g[i - 1] += r;
            g[n + j - 1] -= r;
            e[(i - 1) * m + j] += q[0] * c;
            e[i * m + j - 1] += q[1] * c;
            e[(i - 1) * m + j - 1] += q[2] * c;
        }
    return d[n * m + n];
}

double cholesky(long n, const double *a, const double *w, double *g, double *work) {
    double *l = work, *c = work + n * n, loss = 0;
    for (long i = 0; i < n; i++)
        for (long j = 0; j <= i; j++) {
            double s = a[i * n + j];
            for (long k = 0; k < j; k++) s -= l[i * n + k] * l[j * n + k];
            l[i * n + j] = i == j ? sqrt(s) : s / l[j * n + j];
            loss += w[i * n + j] * l[i * n + j];
        }
    memcpy(c, w, n * n * sizeof *c);
    memset(g, 0, n * n * sizeof *g);
    for (long i = n - 1; i >= 0; i--)
        for (long j = i; j >= 0; j--) {
            double t = c[i * n + j], s;
            if (i == j) {
                s = t / (2 * l[i * n + i]);
            } else {
                s = t / l[j * n + j];
                c[j * n + j] -= s * l[i * n + j];
            }
            g[i * n + j] = s;
            for (long k = 0; k < j; k++) {
                double u = l[i * n + k], v = l[j * n + k];
                c[i * n + k] -= s * v;
                c[j * n + k] -= s * u;
            }
        }
    return loss;
}
