require "test_helper"

class SumsTest < Minitest::Test
  parallelize_me!

  [[1, 2], [2, 3]].each { |a, sum| define_method("test_#{a} + 1 = #{sum}") { assert_equal sum, a + 1 } }

  def test_divides = skip("not yet")

  def test_adds = assert_equal(42, 40 + (ENV["FAIL"] ? 3 : 2))
end
