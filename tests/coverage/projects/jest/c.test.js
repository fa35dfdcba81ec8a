test('c', () => {
  require('./shop/shared').f('c');
});
