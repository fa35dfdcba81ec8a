RSpec.describe "odd [x] (y)" do
  it("says \"it's\" so") {}
  it("a line\nfeed") {}
  it("grüße 😀 日本") {}
  it("twice") {}
  it("twice") { raise "no UTF-8: \xff" if ENV["FAIL"] }
  it("") {}
  it { expect(1).to eq 1 }
end
