test('a', () => {
  require('./shop/shared').f('a');
});
