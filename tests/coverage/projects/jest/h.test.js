test('h', () => {
  require('./shop/shared').f('b');
});
