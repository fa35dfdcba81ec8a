"""The three formats of a document: a module each, from blocks to one string."""
