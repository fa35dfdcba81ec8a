function f() {
  return 1;
}
exports.f = f;
