RSpec.describe "sums" do
  before(:context) { @base = 40 }
  it("adds") { expect(@base + 2).to eq 42 }
  [[1, 2], [2, 3]].each { |a, sum| it("#{a} + 1 = #{sum}") { expect(a + 1).to eq sum } }
  xit("divides") {}
  it "multiplies"
  it("rounds") { pending "not yet"; expect(1).to eq 2 }
end

RSpec.describe("more sums") { include_examples "a shared one" }
