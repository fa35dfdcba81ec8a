test('b', () => {
  require('./shop/shared').f('b');
});
