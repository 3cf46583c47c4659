"""Writes deploy/grafana/routing.json: ``python -m scripts.dashboard``.

queries  PromQL for what the gateways tell: filtered by the dashboard's variables, in one way everywhere
panels   what a row and a panel say; rows/: all of them, one a file: the part to change
layout   panels as Grafana's JSON: ids, places, variables
"""
