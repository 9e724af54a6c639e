"""scikit-learn's SGDClassifier: a step is one partial_fit."""

from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

from amsfl.flower import sklearn_client


def rows(context):
    x, y = (part[context.node_config["partition-id"] :: 3] for part in load_digits(return_X_y=True))
    return x / 16, y


app = sklearn_client(lambda: SGDClassifier(loss="log_loss"), rows, classes=range(10), test_rows=rows)
