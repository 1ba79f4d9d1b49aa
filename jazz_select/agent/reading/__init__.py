"""What a message says: a yes or a no to what was asked, the flows that it is for, and the values that it gives."""
