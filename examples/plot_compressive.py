"""
How many measurements of a signal are enough for its kernel?
============================================================

A camera or sensor may store :math:`m` random combinations :math:`Px` of a signal :math:`x`
instead of its :math:`d` numbers. :class:`~mercer.CompressiveFourier` has features of the Gaussian
kernel of :math:`x` that depend on these measurements alone. Its error has two parts: the
projection, which only more measurements reduce, and the random features.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import zoom
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split

from mercer import CompressiveFourier, RandomFourier, certify

images, y = load_digits(return_X_y=True)
X = zoom(images.reshape(-1, 8, 8), (1, 2, 2), order=1).reshape(len(images), -1)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
gamma = RandomFourier(random_state=0).fit(X_train).gamma_
print(f"{X.shape[1]} pixels of digits that were enlarged from 8 x 8 to 16 x 16")

# %%
# ``certify`` reports both parts: ``bias`` is the error of the projection, ``sampling`` that of
# 512 random features.

measurements = [4, 8, 16, 32, 64, 128]
bias, sampling, accuracy = [], [], []
for m in measurements:
    phi = CompressiveFourier(512, n_measurements=m, gamma=gamma, random_state=0).fit(X_train)
    certificate = certify(phi, X_test, pairs=4000)
    bias.append(certificate.bias)
    sampling.append(certificate.sampling)
    model = RidgeClassifier(alpha=0.01).fit(phi.transform(X_train), y_train)
    accuracy.append(model.score(phi.transform(X_test), y_test))
    print(
        f"{m:>3} measurements: error of the projection {bias[-1]:6.2%}, of the features "
        f"{sampling[-1]:.2%}; accuracy {accuracy[-1]:.3f}"
    )

phi = RandomFourier(512, gamma=gamma, random_state=0).fit(X_train)
full = RidgeClassifier(alpha=0.01).fit(phi.transform(X_train), y_train)
full_accuracy = full.score(phi.transform(X_test), y_test)
print(f"all {X.shape[1]} pixels: accuracy {full_accuracy:.3f}")

# %%

plt.style.use("tableau-colorblind10")
figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.6), layout="constrained")
left.loglog(measurements, np.multiply(bias, 100), "o-", color="C0", label="error of the projection")
left.loglog(
    measurements, np.multiply(sampling, 100), "s--", color="C1", label="error of the features"
)
left.set_ylabel("relative error of kernel values (%)")
left.set_yticks([0.5, 1, 2, 5, 10, 20], [0.5, 1, 2, 5, 10, 20])
right.semilogx(measurements, accuracy, "D-", color="C3", label="accuracy")
right.axhline(full_accuracy, color="C3", linestyle=":", label="accuracy with all pixels")
right.set_ylabel("accuracy on test rows")
for axes in (left, right):
    axes.set_xlabel("measurements of an image")
    axes.set_xticks(measurements, measurements)
    axes.minorticks_off()
figure.legend(loc="outside upper center", ncols=2, fontsize=9)
plt.show()
