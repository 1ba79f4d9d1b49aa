"""The patients' desk of a hospital: flows, tools, labelled requests and conversations; see README.md."""
