test('g', () => {
  require('./shop/shared').f('b');
});
