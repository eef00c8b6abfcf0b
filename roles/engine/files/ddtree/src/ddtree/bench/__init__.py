# SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
# SPDX-License-Identifier: Apache-2.0
"""Load and acceptance measurement over the OpenAI API, for either engine.

`python -m ddtree.bench run` measures one server, `python -m ddtree.bench sweep` measures several
configurations with a fresh server each. Needs numpy only; torch is never imported.

One file owns one thing: `prompts` the data sets, `client` the wire, `load` the arrival of requests,
`metrics` the server's counters, `stats` the estimates, `record` the result row, `control` the life of
a server, `sweep` the order of a comparison.
"""
