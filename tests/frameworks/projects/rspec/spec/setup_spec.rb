RSpec.describe "setup" do
  before(:context) { raise "fails in set-up" if ENV["WAY"] == "setup" }
  after(:context) { raise "fails in tear-down" if ENV["WAY"] == "teardown" }
  it("one") {}
  it("two") {}
end
