require "test_helper"

class EndsTest < ActiveSupport::TestCase
  test "before" do
    assert true
  end

  test "ends" do
    exit 0 if ENV["WAY"] == "exit0"
    flunk if ENV["WAY"] == "fails"
  end
end
