"""The page's looks: colours by what they mean, light and dark."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --paper: #fcfcfb; --ink: #1d1d1b; --muted: #6b6a65; --line: #dddcd6;
  --ours: #2a78d6; --rival: #8d8c86; --l0: #2a78d6; --l1: #1baf7a; --l2: #eda100; --limit: #c2362f;
  --p50: #86b6ef; --p90: #2a78d6; --p99: #0d366b; --shade: 214, 120, 42; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #1a1a19; --ink: #ecebe6; --muted: #a3a29b; --line: #3a3a37; --ours: #4a97ef; --rival: #85847e;
    --l0: #3987e5; --l1: #199e70; --l2: #c98500; --limit: #f07a72; --p50: #1c5cab; --p90: #3987e5; --p99: #b7d3f6;
    --shade: 237, 161, 0; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 76rem; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin: 0 0 .4rem; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .4rem; }
.explained { color: var(--muted); max-width: 46rem; }
.note { border-left: 3px solid var(--limit); padding-left: .7rem; }
pre { border: 1px solid var(--line); border-radius: 6px; font-size: .85rem; padding: .6rem .8rem;
  white-space: pre-wrap; }
figure { margin: 1rem 0; overflow-x: auto; }
figure svg { height: auto; width: 100%; }
svg text { font-family: inherit; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; margin: .8rem 0; }
caption { color: var(--muted); padding-bottom: .3rem; text-align: left; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .55rem; text-align: left; vertical-align: top;
  white-space: nowrap; }
th { font-weight: 600; }
.number { text-align: right; }
td:last-child { min-width: 13rem; white-space: normal; }
.heat td:last-child, td.number:last-child { min-width: 0; }
.heat th { font-weight: 400; vertical-align: bottom; }
.heat td { border: 1px solid var(--paper); min-width: 2.1rem; text-align: right; }
.tall span { transform: rotate(180deg); writing-mode: vertical-rl; }
.shade1 { background: rgba(var(--shade), .12); }
.shade2 { background: rgba(var(--shade), .3); }
.shade3 { background: rgba(var(--shade), .52); }
.shade4 { background: rgba(var(--shade), .66); }
details { border-top: 1px solid var(--line); padding: .5rem 0; }
summary { cursor: pointer; }
"""
