test('f', () => {
  require('./shop/shared').f('f');
});
