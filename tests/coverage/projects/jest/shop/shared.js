function f(x) {
  if (x === "a") {
    return 1;
  }
  if (x === "b") {
    return 1;
  }
  if (x === "c") {
    return 1;
  }
  if (x === "d") {
    return 1;
  }
  if (x === "e") {
    return 1;
  }
  if (x === "f") {
    return 1;
  }
  if (x === "g") {
    return 1;
  }
  if (x === "h") {
    return 1;
  }
  return 2;
}
exports.f = f;
