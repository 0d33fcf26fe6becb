"""
What happens to text, dates and missing cells of a table?
=========================================================

A data frame is fitted as it is: :class:`~mercer.Tabular` encodes its columns in front of the map,
and says how. The table is generated: orders of a shop, with the days until they were delivered.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.dates import ConciseDateFormatter

from mercer import KernelRegressor

rng = np.random.default_rng(0)
n = 1500
words = ["fragile", "glass", "gift", "ring", "twice", "leave", "door", "please", "call", "thanks"]
orders = pd.DataFrame(
    {
        "order": np.arange(n),
        "placed": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365 * 24, n), "h"),
        "weight_kg": rng.lognormal(0, 0.7, size=n).round(2),
        "carrier": rng.choice(["road", "rail", "air"], size=n, p=[0.6, 0.3, 0.1]),
        "note": [" ".join(rng.choice(words, rng.integers(3, 8), replace=False)) for _ in range(n)],
    }
)
days = (
    2.0
    + orders["carrier"].map({"road": 1.0, "rail": 3.0, "air": 0.0})
    + 1.5 * (orders["placed"].dt.day_of_week >= 4)
    + 2.0 * np.exp(-(((orders["placed"].dt.day_of_year - 355) / 10) ** 2))
    + 1.0 * orders["note"].str.contains("fragile")
    + 0.3 * rng.normal(size=n)
)
orders.loc[rng.random(n) < 0.1, "weight_kg"] = np.nan
orders.loc[rng.random(n) < 0.05, "carrier"] = None
print(orders.head(3).to_string())

# %%
# Kinds of columns are inferred. The fitted map describes what became of each of them.

train, test = slice(0, 1000), slice(1000, None)
model = KernelRegressor(random_state=0).fit(orders[train], days[train])
print(model.feature_map_.maps_[0].describe_columns())
print(f"R2 on test rows {model.score(orders[test], days[test]):.3f}")

# %%
# Columns are matched by name, in any order.

predictions = model.predict(orders[test])
reversed_columns = orders[test][orders.columns[::-1]]
print("equal predictions:", np.array_equal(predictions, model.predict(reversed_columns)))

# %%
# Predictions for one order that differs in its date and its carrier: orders wait for the weekend,
# and longer before Christmas.

dates = pd.date_range("2024-10-01", "2024-12-30", freq="6h")
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
for carrier, style in (("rail", "C1-"), ("road", "C0-"), ("air", "C3-")):
    same = pd.DataFrame(
        {"placed": dates, "weight_kg": 1.0, "carrier": carrier, "note": "gift please", "order": 0}
    )
    daily = pd.Series(model.predict(same), dates).resample("D").mean()
    axes.plot(daily.index, daily, style, label=carrier)
axes.set(xlabel="date of the order", ylabel="predicted delivery (days)")
axes.set_xlim(dates[0], dates[-1])
axes.xaxis.set_major_formatter(ConciseDateFormatter(axes.xaxis.get_major_locator()))
figure.legend(loc="outside upper right", ncols=3, title="carrier")
plt.show()
