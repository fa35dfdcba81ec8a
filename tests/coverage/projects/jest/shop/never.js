exports.f = () => {
  return 1;
};
