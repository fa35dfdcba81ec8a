require "test_helper"

describe "odd [x] (y)" do
  it("says \"it's\" so") {}
  it("a line\nfeed") {}
  it("grüße 😀 日本") {}
  it("twice") {}
  it("twice") { raise "no UTF-8: \xff" if ENV["FAIL"] }
  it("") {}
  it("/pattern.*/") {}
end

# Classes of one name run in a random order.
2.times do |index|
  describe("a class of this name") { it("is there") { flunk "no #{index}" if ENV["FAIL"] && index == 1 } }
end
