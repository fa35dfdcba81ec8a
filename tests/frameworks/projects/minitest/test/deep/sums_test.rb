require "test_helper"

class DeepSumsTest < Minitest::Test
  def test_has_the_same_base_name = pass
end
