require "test_helper"

class SumsTest < ActiveSupport::TestCase
  test "adds" do
    assert_equal 42, 40 + 2
  end
end
