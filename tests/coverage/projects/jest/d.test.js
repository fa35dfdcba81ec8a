test('d', () => {
  require('./shop/shared').f('d');
});
