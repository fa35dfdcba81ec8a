// Of --file: its hooks are for every file.
beforeEach(() => { globalThis.prepared = true; });
