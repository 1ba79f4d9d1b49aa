"""The support pack of an online shop: every procedure its support agent knows, one flow each.

Read one module and you have read them all. A flow is a class whose fields say
what it is for (`description`), when it is the right one (`condition`), what is
true once it has run (`desired_effects`), how customers ask for it (`examples`),
and what the agent then does (`tools`, `steps`).

Many flows are near-twins on purpose, because that is what a real shop has:
refund or exchange, late or lost, pause or cancel. Their conditions say where
one ends and the next begins, and name the fact that decides.

Some flows have a `chain`: the order in which their tools run, with the places where
there is a choice. `flows/tools.py` holds the tools of all flows, and `flows/shop/` the
small shop that they work on: a SQLite database, in memory or in a file, with customers,
orders, parcels and money, whose rows say what a conversation has done.

`flows/journeys.py` holds the composites, made of the flows next door.
`flows/guards.py` holds the facts on which a flow may be withheld.
`flows/seasonal.yaml` shows the same without Python.
"""
