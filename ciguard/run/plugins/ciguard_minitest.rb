# frozen_string_literal: true

# Minitest 5.11+: loads the test files that a leg asks for, runs them in its order, and records it.
# Loaded by RUBYOPT, so that it reaches the Ruby that rake, rails or a script starts. All of these
# require test files one by one: those not asked for are left out there. Reporters, plugins,
# seed and the order of the tests in a file stay what they are.

require_relative "ciguard_ruby"

module Ciguard
  # Of the reporters of a run one more, which writes of the unit that runs.
  class Recorder
    def initialize(leg)
      @leg = leg
      @names = {}
      @recorded, @failed = 0, false
    end

    def unit(unit, classes, error)
      @unit, @recorded, @failed = unit, 0, false
      @leg.start(unit)
      @names = {}
      if error
        @leg.result(unit, nil, "errored", message: error)
      else
        name_tests(classes)
        yield
        nothing = "no test of it is selected, or another file loads it"
        @leg.result(unit, nil, "skipped", message: nothing) if @recorded.zero?
      end
      @leg.closed(unit, facts: { defined: @names.size, selected: @recorded })
    rescue Interrupt
      @leg.closed(unit) if @failed # some reporters stop a run so that is to fail fast
      @leg.stopped("Minitest was interrupted, or is to fail fast")
      raise
    end

    def prerecord(klass, name)
      @name = @names[[klass, name]] || "#{klass}##{name}"
      @leg.event("case_start", unit: @unit, detail: @name)
    end

    def record(test)
      outcome = outcome_of(test)
      @recorded += 1
      @failed ||= %w[failed errored].include?(outcome)
      message = test.failures.map { |one| text(one) }.join("\n") unless outcome == "passed"
      @leg.result(@unit, @name, outcome, wall_s: test.time, message: message)
    end

    def start; end

    def report; end

    def passed?
      true
    end

    private

    # Two classes may have one name, as two of `describe` have. Their tests are numbered by the
    # order in the file, in whatever order they run.
    def name_tests(classes)
      classes.each do |klass|
        klass.runnable_methods.sort.each do |name|
          @names[[klass, name]] = @leg.numbered(@unit, "#{klass}##{name}")
        end
      end
    end

    def outcome_of(test)
      return "passed" if test.passed?
      return "skipped" if test.skipped?

      test.error? ? "errored" : "failed"
    end

    def text(failure)
      whole = [Minitest::Skip, Minitest::UnexpectedError].any? { |kind| failure.is_a?(kind) }
      whole ? failure.message : "#{failure.message}\n#{failure.location}"
    end
  end

  # Instead of threads, or processes, for the tests that may run in parallel.
  class SerialExecutor
    def start; end

    def shutdown; end

    def <<((klass, name, reporter))
      reporter.prerecord(klass, name)
      old = Minitest.respond_to?(:run_one_method) # before 6
      reporter.record(old ? Minitest.run_one_method(klass, name) : klass.new(name).run)
    end
  end

  # The test files that one process loads, and with each the classes that it defined.
  class TestFiles
    NAME = %r{(?:\A|/)(?:test|spec)_[^/]*\z|_(?:test|spec)(?:\.rb)?\z}.freeze
    UNIT = %r{
      (?:\A|/)(?:test|tests|spec)/(?!(?:dummy|fixtures|support)/)(?:.*/)?
      (?:(?!(?:test|spec)_helper\.rb)(?:test|spec)_[^/]*|[^/]*_(?:test|spec))\.rb\z
    }x.freeze
    FILTERS = /\A(?:-[neix]|--(?:name|exclude|include)(?:\z|=))|\.rb(?::\d+)+\z/.freeze

    def initialize
      @classes = {} # by unit
      @errors = {} # by unit
      @found = []
      @loading = @over = false
    end

    # A file that a test file requires belongs to that one.
    def load(path)
      file = test_file(path) unless @loading || @over
      return yield unless file

      unless @leg
        @leg = Leg.new("ciguard_minitest")
        @filters = Ciguard.options(ARGV, FILTERS) # before minitest-focus, which adds to it
      end
      unit = @leg.unit_of(file)
      return true if @found.include?(unit)

      @found << unit
      if @leg.units.include?(unit)
        @leg.collecting { load_unit(unit) { yield } }
      end
      enter if defined?(Minitest::Runnable)
      true
    end

    def join(reporter, seed)
      return if @leg.collects || @over

      @leg.event("seed", detail: "--seed #{seed}")
      Minitest.parallel_executor = SerialExecutor.new
      reporter.reporters.unshift(recorder) # before one that stops at a failure
    end

    # Run the units in the order asked for, each as if its classes were all there are.
    def run
      return yield if @over

      @over = true
      return list if @leg.collects

      all = Minitest::Runnable.runnables.dup
      others = all - @classes.values.flatten # of files that are none of ours
      report_missing
      (@leg.units & @found).each do |unit|
        break if @leg.stop?

        classes = others + (all & @classes[unit].to_a)
        others = []
        recorder.unit(unit, classes, @errors[unit]) do
          Minitest::Runnable.runnables.replace(classes)
          yield
        end
      end
    ensure
      Minitest::Runnable.runnables.replace(all) if all
    end

    # At the end of a process in which Minitest ran nothing.
    def finish
      if @leg.nil? then warn "ciguard: no test file was required" if defined?(Minitest::Runnable)
      elsif @over then return
      elsif @leg.collects then list
      else
        report_missing
        (@leg.units & @errors.keys).each { |unit| recorder.unit(unit, [], @errors[unit]) }
        @leg.stopped("Minitest did not run: are the tests those of test-unit?") if @classes.any?
      end
    end

    private

    def recorder
      @recorder ||= Recorder.new(@leg)
    end

    def test_file(path)
      path = path.to_s
      return unless path.match?(NAME)

      file = File.expand_path(path.end_with?(".rb") ? path : "#{path}.rb")
      folder = "#{Dir.pwd}/"
      file if file.start_with?(folder) && file[folder.size..-1].match?(UNIT) && File.file?(file)
    end

    # One that cannot be loaded has its error, and no class.
    def load_unit(unit)
      @loading = true
      known = runnables.size
      yield
      @classes[unit] = runnables.drop(known)
    rescue SystemExit, ScriptError, StandardError => error
      runnables.slice!(known..-1)
      trace = error.backtrace.to_a.select { |line| line.start_with?(Dir.pwd) }
      @errors[unit] = ["#{error.class}: #{error.message}", *trace].join("\n")
      warn "#{unit} cannot be loaded: #{@errors[unit]}"
    ensure
      @loading = false
    end

    def runnables
      defined?(Minitest::Runnable) ? Minitest::Runnable.runnables : []
    end

    def enter
      return if Minitest.singleton_class.include?(Runner)

      known = defined?(Minitest::Result)
      abort("Minitest 5.11 or newer is needed, not #{Minitest::VERSION}") unless known
      Minitest.singleton_class.prepend(Runner)
    end

    def list
      report_settings
      @leg.listed(@found)
    end

    def report_settings
      names = :@@filtered_names # of minitest-focus
      focused = defined?(Minitest::Test) && Minitest::Test.class_variable_defined?(names)
      classes = focused ? Minitest::Test.class_variable_get(names).map { |name| name[/.*(?=#)/] } : []
      units = @classes.select { |_, defined| (defined.map(&:to_s) & classes).any? }.keys
      @leg.execution(filter: @filters, focus: units.map { |unit| "#{unit}: focus" })
    end

    def report_missing
      report_settings
      @leg.report_missing(@found, "the suite's command does not load it")
    end
  end

  TESTS = TestFiles.new

  # In front of Object, for which Rails 6 defines `require`, and of Kernel, for which others do.
  module Loading
    private

    def require(path)
      TESTS.load(path) { super }
    end
  end

  module Runner
    def init_plugins(options)
      super.tap { TESTS.join(reporter, options[:seed]) }
    end

    def __run(reporter, options) # before Minitest 6
      TESTS.run { super }
    end

    def run_all_suites(reporter, options)
      TESTS.run { super }
    end
  end
end

if Ciguard.asked?
  Object.prepend(Ciguard::Loading)
  process = Process.pid
  at_exit do
    exits = $!.nil? || ($!.is_a?(SystemExit) && $!.success?)
    Ciguard::TESTS.finish if exits && Process.pid == process
  end
end
