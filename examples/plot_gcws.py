"""
What does min-max hashing gain over LinearSVC on raw features?
==============================================================

:class:`~mercer.GCWS` hashes a row :math:`k` times to :math:`b` bits. Two rows have equal hashes
with the probability of their min-max similarity :math:`\\sum\\min(u,v)/\\sum\\max(u,v)`, so that
a linear model on one-hot hashes is a model of this kernel. Rows are stored as small integers.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import SVC, LinearSVC

from mercer import GCWS, gram
from mercer.kernels import GMM

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)

# %%
# References: ``LinearSVC`` on the pixels, with the best ``C`` of a grid on the test rows (which
# favours it), and the exact min-max kernel in ``SVC``.

raw = max(
    make_pipeline(MaxAbsScaler(), LinearSVC(C=C, random_state=0))
    .fit(X_train, y_train)
    .score(X_test, y_test)
    for C in (0.01, 0.1, 1.0)
)
exact = SVC(kernel="precomputed", C=10.0).fit(gram(GMM(), X_train), y_train)
exact_accuracy = exact.score(gram(GMM(), X_test, X_train), y_test)
print(f"LinearSVC on raw features: accuracy {raw:.3f}")
print(f"SVC with the exact min-max kernel: accuracy {exact_accuracy:.3f}")

# %%
# A linear classifier on hashes, by number of hashes and bits of a hash.

hashes, bits = [16, 32, 64, 128, 256, 512], [1, 2, 4, 8]
accuracy = np.empty((len(bits), len(hashes)))
for i, b in enumerate(bits):
    for j, k in enumerate(hashes):
        phi = GCWS(k, bits=b, random_state=0)
        model = make_pipeline(phi, LinearSVC(C=1.0, random_state=0)).fit(X_train, y_train)
        accuracy[i, j] = model.score(X_test, y_test)
    print(
        f"{b} bit(s):", "  ".join(f"{k}: {a:.3f}" for k, a in zip(hashes, accuracy[i], strict=True))
    )
codes = model[0].codes(X_test[:1])
print(f"a row of {X.shape[1]} float64 numbers has {X[:1].nbytes} bytes, its codes {codes.nbytes}")

# %%
# More bits tell more rows apart, and more hashes lower the variance of the estimated similarity.

plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for i, (marker, color) in enumerate(zip("sv^o", ("C2", "C4", "C0", "C3"), strict=True)):
    axes.loglog(hashes, 100 * (1 - accuracy[i]), marker=marker, color=color, label=f"{bits[i]}")
axes.axhline(100 * (1 - raw), color="C1", linestyle=":")
axes.text(16, 100 * (1 - raw), "LinearSVC on raw features", va="bottom", color="C5")
axes.axhline(100 * (1 - exact_accuracy), color="C1", linestyle="--")
axes.text(16, 100 * (1 - exact_accuracy), "SVC, exact min-max kernel", va="bottom", color="C5")
axes.set_xticks(hashes, hashes)
axes.set_yticks([1, 2, 5, 10, 20, 50], [1, 2, 5, 10, 20, 50])
axes.minorticks_off()
axes.set(xlabel="number of hashes of a row", ylabel="misclassified test rows (%)")
figure.legend(loc="outside right upper", title="bits of a hash")
plt.show()
