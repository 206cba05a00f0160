"""Dynamic programming, alignments, paths, and what is counted."""

# ruff: noqa

import math

import numpy as np
from case import case

R = np.random.default_rng(1)


@case(R.standard_normal(7), R.standard_normal(6), 0.5)
def soft_dtw(x, y, gamma):
    n, m = len(x), len(y)
    d = np.full((n + 1, m + 1), 1e10)
    d[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            a, b, c = -d[i - 1, j] / gamma, -d[i, j - 1] / gamma, -d[i - 1, j - 1] / gamma
            top = max(a, b, c)
            total = math.exp(a - top) + math.exp(b - top) + math.exp(c - top)
            d[i, j] = (x[i - 1] - y[j - 1]) ** 2 - gamma * (top + math.log(total))
    return d[n, m]


@case(R.standard_normal(8), R.standard_normal(6), 2)
def dtw_in_a_band(x, y, width):
    n, m = x.shape[0], y.shape[0]
    cost = np.full((n + 1, m + 1), np.inf)
    cost[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(max(1, i - width), min(m, i + width) + 1):
            best = min(cost[i - 1, j], min(cost[i, j - 1], cost[i - 1, j - 1]))
            cost[i, j] = abs(x[i - 1] - y[j - 1]) + best
    return cost[n, m]


@case(np.array([1, 2, 3, 2, 1, 4]), np.array([2, 3, 1, 1, 4]))
def edit_distance(a, b):
    n, m = len(a), len(b)
    d = np.zeros((n + 1, m + 1), dtype=np.int64)
    for i in range(n + 1):
        d[i, 0] = i
    for j in range(m + 1):
        d[0, j] = j
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            if a[i - 1] == b[j - 1]:
                d[i, j] = d[i - 1, j - 1]
            else:
                d[i, j] = 1 + min(d[i - 1, j], d[i, j - 1], d[i - 1, j - 1])
    return d[n, m]


@case(np.array([0, 1, 2, 3, 1, 0]), np.array([1, 2, 0, 3, 0]), R.standard_normal((4, 4)), 0.7)
def smith_waterman(a, b, score, gap):
    h = np.zeros((len(a) + 1, len(b) + 1))
    best = 0.0
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            s = h[i - 1, j - 1] + score[a[i - 1], b[j - 1]]
            if h[i - 1, j] - gap > s:
                s = h[i - 1, j] - gap
            if h[i, j - 1] - gap > s:
                s = h[i, j - 1] - gap
            if s < 0.0:
                s = 0.0
            h[i, j] = s
            if s > best:
                best = s
    return best


@case(np.array([3, 4, 2, 5]), np.array([4.0, 5.0, 3.0, 6.5]), 9)
def knapsack(weights, values, capacity):
    best = np.zeros(capacity + 1)
    for i in range(len(weights)):
        for c in range(capacity, weights[i] - 1, -1):
            taken = best[c - weights[i]] + values[i]
            if taken > best[c]:
                best[c] = taken
    return best[capacity]


@case(R.uniform(1, 3, (5, 5)))
def cheapest_path(cost):
    n, m = cost.shape
    total = np.empty_like(cost)
    total[0, 0] = cost[0, 0]
    for j in range(1, m):
        total[0, j] = total[0, j - 1] + cost[0, j]
    for i in range(1, n):
        total[i, 0] = total[i - 1, 0] + cost[i, 0]
        for j in range(1, m):
            total[i, j] = cost[i, j] + min(total[i - 1, j], total[i, j - 1])
    return total[-1, -1]


@case(
    R.uniform(0.1, 1, 3), R.uniform(0.1, 1, (3, 3)), R.uniform(0.1, 1, (3, 4)), R.integers(0, 4, 8)
)
def forward_algorithm(start, moves, emits, seen):
    n = len(start)
    alpha = start * emits[:, seen[0]]
    loglik = 0.0
    for t in range(1, len(seen)):
        new = np.zeros(n)
        for j in range(n):
            for i in range(n):
                new[j] += alpha[i] * moves[i, j]
            new[j] *= emits[j, seen[t]]
        scale = new.sum()
        loglik += np.log(scale)
        alpha = new / scale
    return loglik


@case(R.standard_normal(3), R.standard_normal((3, 3)), R.standard_normal((7, 3)))
def viterbi(start, moves, scores):
    steps, n = scores.shape
    delta = start + scores[0]
    back = np.zeros((steps, n), dtype=np.int64)
    for t in range(1, steps):
        new = np.empty(n)
        for j in range(n):
            best, arg = delta[0] + moves[0, j], 0
            for i in range(1, n):
                v = delta[i] + moves[i, j]
                if v > best:
                    best, arg = v, i
            new[j] = best + scores[t, j]
            back[t, j] = arg
        delta = new
    path = np.zeros(steps, dtype=np.int64)
    path[-1] = np.argmax(delta)
    for t in range(steps - 1, 0, -1):
        path[t - 1] = back[t, path[t]]
    return delta.max(), path


@case(np.array([30.0, 35, 15, 5, 10, 20]))
def matrix_chain(p):
    n = len(p) - 1
    m = np.zeros((n, n))
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            m[i, j] = np.inf
            for k in range(i, j):
                q = m[i, k] + m[k + 1, j] + p[i] * p[k + 1] * p[j + 1] / 1000
                if q < m[i, j]:
                    m[i, j] = q
    return m[0, n - 1]


@case(np.array([10.0, 9.0, 2.0, 5.0, 3.0, 7.0, 101.0, 18.0]))
def longest_rising_sequence(x):
    n = len(x)
    length = np.ones(n, np.int64)
    for i in range(1, n):
        for j in range(i):
            if x[j] < x[i] and length[j] + 1 > length[i]:
                length[i] = length[j] + 1
    return length.max()


@case(np.array([-2.0, 1.5, -3.0, 4.0, -1.0, 2.0, 1.0, -5.0, 4.0]))
def largest_sum_of_a_run(x):
    best = here = x[0]
    first = last = start = 0
    for i in range(1, len(x)):
        if here < 0:
            here, start = x[i], i
        else:
            here += x[i]
        if here > best:
            best, first, last = here, start, i
    return best, first, last


@case(np.array([1, 2, 5]), 11)
def ways_to_change(coins, amount):
    ways = np.zeros(amount + 1, dtype=np.int64)
    ways[0] = 1
    for c in coins:
        for v in range(c, amount + 1):
            ways[v] += ways[v - c]
    return ways[amount]


@case(R.standard_normal((6, 4)), np.array([0, 2, 1]))
def ctc_loss(logits, labels):
    steps = logits.shape[0]
    s = 2 * len(labels) + 1
    ext = np.zeros(s, np.int64)
    for k in range(len(labels)):
        ext[2 * k + 1] = labels[k] + 1
    alpha = np.zeros(s)
    p = np.exp(logits[0]) / np.sum(np.exp(logits[0]))
    alpha[0], alpha[1] = p[ext[0]], p[ext[1]]
    for t in range(1, steps):
        p = np.exp(logits[t]) / np.sum(np.exp(logits[t]))
        new = np.zeros(s)
        for k in range(s):
            total = alpha[k]
            if k > 0:
                total += alpha[k - 1]
            if k > 1 and ext[k] != 0 and ext[k] != ext[k - 2]:
                total += alpha[k - 2]
            new[k] = total * p[ext[k]]
        alpha = new
    return -np.log(alpha[s - 1] + alpha[s - 2])


@case(R.uniform(0.5, 2, (6, 6)))
def all_pairs_shortest_paths(w):
    d = w.copy()
    n = len(d)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if d[i, k] + d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] + d[k, j]
    return d


@case(R.uniform(0.5, 2, (6, 6)), 0)
def dijkstra_on_a_matrix(w, source):
    n = w.shape[0]
    dist = np.full(n, np.inf)
    done = np.zeros(n, np.bool_)
    dist[source] = 0.0
    for _ in range(n):
        u, best = -1, np.inf
        for v in range(n):
            if not done[v] and dist[v] < best:
                u, best = v, dist[v]
        done[u] = True
        for v in range(n):
            if not done[v]:
                dist[v] = min(dist[v], dist[u] + w[u, v])
    return dist


@case(np.array([0, 0, 1, 2, 3, 1]), np.array([1, 2, 3, 3, 4, 4]), R.uniform(0.5, 2, 6), 5)
def bellman_ford(src, dst, w, n):
    dist = np.full(n, 1e9)
    dist[0] = 0.0
    for _ in range(n - 1):
        changed = False
        for e in range(len(w)):
            d = dist[src[e]] + w[e]
            if d < dist[dst[e]]:
                dist[dst[e]] = d
                changed = True
        if not changed:
            break
    return dist


@case(np.array([0, 2, 4, 5, 6, 6]), np.array([1, 2, 2, 3, 4, 4]), 0)
def breadth_first(offsets, targets, root):
    n = len(offsets) - 1
    depth = np.full(n, -1)
    queue = np.zeros(n, np.int64)
    head, tail = 0, 1
    queue[0], depth[root] = root, 0
    while head < tail:
        u = queue[head]
        head += 1
        for e in range(offsets[u], offsets[u + 1]):
            v = targets[e]
            if depth[v] < 0:
                depth[v] = depth[u] + 1
                queue[tail] = v
                tail += 1
    return depth, tail


@case(np.array([[0, 1], [2, 3], [1, 2], [4, 5]]), 6)
def union_find(edges, n):
    parent = np.arange(n)
    for e in range(edges.shape[0]):
        a, b = edges[e]
        while parent[a] != a:
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        if a != b:
            parent[b] = a
    return parent


@case(
    np.array([0, 2, 3, 5, 6]),
    np.array([1, 2, 3, 0, 3, 1]),
    R.uniform(0.1, 1, 6),
    R.uniform(0.1, 1, 4),
    6,
)
def page_rank(offsets, targets, w, rank, turns):
    n = len(rank)
    for _ in range(turns):
        new = np.full(n, 0.15 / n)
        for u in range(n):
            total = 0.0
            for e in range(offsets[u], offsets[u + 1]):
                total += w[e]
            for e in range(offsets[u], offsets[u + 1]):
                new[targets[e]] += 0.85 * rank[u] * w[e] / total
        rank = new
    return rank


@case(np.array([-1, 0, 0, 1, 1, 2]), R.standard_normal(6), 0.8)
def sums_up_a_tree(parent, value, decay):
    total = value.copy()
    for i in range(len(parent) - 1, 0, -1):
        total[parent[i]] += decay * math.tanh(total[i])
    return total[0]


@case(20)
def sieve(n):
    prime = np.ones(n + 1, np.bool_)
    prime[0] = prime[1] = False
    i = 2
    while i * i <= n:
        if prime[i]:
            for j in range(i * i, n + 1, i):
                prime[j] = False
        i += 1
    return prime.sum()
