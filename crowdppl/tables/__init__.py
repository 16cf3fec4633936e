"""Labels as they are handed over: rows, columns, ids and the whole numbers that stand for them."""
