"""Tools of an HTTP API, out of its OpenAPI document: the document, its operations, who is asked, and with what."""
