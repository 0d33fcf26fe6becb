"""
Accuracy and error against the number of components
===================================================

Fourier features of the Gaussian kernel on scikit-learn's digits: the error of the features falls as
the number of components grows, and the accuracy reaches that of the exact kernel long before the
error is 0.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from mercer import KernelClassifier, RandomFourier, certify

X, X_test, y, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)

# %%
# A model for each number of components
# -------------------------------------
#
# :func:`mercer.certify` measures the error of the features on the test rows, relative to the root
# mean square of the exact kernel.

sizes = [16, 32, 64, 128, 256, 512, 1024]
accuracies, errors = [], []
for size in sizes:
    model = KernelClassifier(RandomFourier(size), random_state=0).fit(X, y)
    accuracies.append(model.score(X_test, y_test))
    errors.append(certify(model, X_test).relative)
    print(f"{size:5} components: accuracy {accuracies[-1]:.3f}, error {errors[-1]:.3f}")

# %%
# Beside the exact kernel
# -----------------------
#
# A support vector machine and a linear model on the same rows.

exact = make_pipeline(StandardScaler(), SVC()).fit(X, y).score(X_test, y_test)
linear = KernelClassifier("linear").fit(X, y).score(X_test, y_test)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.semilogx(sizes, accuracies, "o-", base=2, label="RandomFourier")
left.axhline(exact, color="0.3", linestyle="--", label="SVC")
left.axhline(linear, color="0.6", linestyle=":", label="linear")
left.set(xlabel="components", ylabel="accuracy on test rows")
left.legend()
right.loglog(sizes, errors, "o-", base=2)
right.set(xlabel="components", ylabel="relative error of the kernel")
plt.show()
