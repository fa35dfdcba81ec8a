const after = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
test("holds 150 MiB", async () => {
  await after(200);
  const kept = Buffer.alloc(150 << 20, 1);
  await after(200);
  expect(kept).toHaveLength(150 << 20);
}, 20000); // a busy machine fills them slowly
