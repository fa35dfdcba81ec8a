test('e', () => {
  require('./shop/shared').f('e');
});
