"""
What will a fit cost, and will it be exact enough?
==================================================

:func:`~mercer.certify` measures the error of a small map and how it falls with the size.
:func:`~mercer.plan` estimates the seconds and the memory of a fit before it is run, for a size or
for an error that is wanted. This example runs the fits, and compares.
"""

import time
import tracemalloc

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRegressor, RandomFourier, certify, plan

rng = np.random.default_rng(0)
X = rng.normal(size=(21_000, 10)).astype(np.float32)
y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=len(X)).astype(np.float32)
X_new = rng.normal(size=(2000, 10)).astype(np.float32)

# %%
# A pilot of 64 features, and the rate at which the error falls.

pilot = RandomFourier(64, gamma=0.05, random_state=0).fit(X[:5000])
certificate = certify(pilot, X_new)
print(certificate)

# %%
# The plan of a fit whose kernel values have an error of at most 8%, in 200 MB.

estimate = plan(
    (X, y),
    RandomFourier(gamma=0.05, random_state=0),
    error=0.08,
    rate=certificate,
    max_memory="200MB",
)
print(estimate)
wanted = estimate.size
phi = RandomFourier(wanted, gamma=0.05, random_state=1).fit(X[:5000])
print(f"measured with {wanted} features: {certify(phi, X_new).relative:.2%}")

# %%
# Larger maps: the error predicted from the pilot beside the one measured, and the plan of the fit
# beside what it took. Seconds are those of the machine that built this page, with whatever else
# it was doing; of the memory, arrays of NumPy are traced.

sizes = [64, 128, 256]
table = []
for size in sizes:
    phi = RandomFourier(size, gamma=0.05, random_state=1)
    error = certify(phi.fit(X[:5000]), X_new).relative
    planned = plan((X, y), phi)
    start = time.perf_counter()
    KernelRegressor(phi).fit(X, y)
    seconds = time.perf_counter() - start
    tracemalloc.start()
    KernelRegressor(phi).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    table.append((certificate.rate.error(size), error, planned.bytes, peak))
    print(
        f"{size:>4} features: error {certificate.rate.error(size):.1%} predicted, {error:.1%} "
        f"measured; {planned.bytes / 1e6:.0f} MB planned, {peak / 1e6:.0f} MB measured; "
        f"{planned.seconds:.2f} s planned, {seconds:.2f} s measured"
    )

# %%

predicted, measured, bytes_planned, bytes_measured = np.transpose(table)
plt.style.use("tableau-colorblind10")
figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.6), layout="constrained")
left.loglog(sizes, 100 * predicted, "--", color="C0", label="predicted")
left.loglog(sizes, 100 * measured, "o", color="C1", label="measured")
left.set_ylabel("relative error of kernel values (%)")
left.set_yticks([5, 7, 10, 20], [5, 7, 10, 20])
right.semilogx(sizes, bytes_planned / 1e6, "--", color="C0")
right.semilogx(sizes, bytes_measured / 1e6, "o", color="C1")
right.set_ylabel("peak memory of the fit (MB)")
right.set_ylim(bottom=0)
for axes in (left, right):
    axes.set_xlabel("number of features")
    axes.set_xticks(sizes, sizes)
    axes.minorticks_off()
figure.legend(loc="outside upper center", ncols=2)
plt.show()
