# frozen_string_literal: true

# RSpec 3.8+: runs the files that a leg asks for, in that order, and records them as they run.
# Loaded by RUBYOPT, so that it reaches an RSpec that bundle, rake or a script starts. It changes
# the objects of the run alone, not RSpec's classes: an RSpec that a test runs is none of ours.
# The configuration of the project stays what it is, its formatters and filters included.

require_relative "ciguard_ruby"

module Ciguard
  # A file and the groups that it defined, for RSpec a group of its own among the top-level ones.
  class SpecFile
    attr_reader :unit
    attr_accessor :groups, :error

    def initialize(unit, run)
      @unit, @run = unit, run
    end

    def descendants
      @groups.to_a.flat_map(&:descendants)
    end

    def examples
      descendants.flat_map(&:examples)
    end

    def run(reporter)
      @groups && @run.file(self) do
        ordering = RSpec.configuration.ordering_registry.fetch(:global)
        ordering.order(@groups).map { |group| group.run(reporter) }.all?
      end
    end
  end

  # One run of RSpec. An error outside of an example is one of the file that is loaded or that runs;
  # one of a before(:suite) hook, or of a file that .rspec requires, is one of every file.
  class Run
    attr_reader :leg

    SETTINGS = /\A(?:-[eEtn]|--(?:dry-run|example|example-matches|tag|only-failures|next-failure)\b)/.freeze

    def initialize(leg, world, options)
      @leg, @world, @options = leg, world, options
      @files = leg.units.map { |unit| [unit, SpecFile.new(unit, self)] }.to_h
      @left = leg.units.dup
      @found = []
      @now = @loading = nil
      @size = 0
      @names = {}
    end

    # Before test files are read: a listing reads none, and must name the same filters.
    def read_settings
      files = %w[.rspec .rspec-local]
      words = files.map { |file| ["#{file}: ", @options.send(:args_from_options_file, file)] }
      words += [["", @options.args], ["SPEC_OPTS: ", ENV["SPEC_OPTS"].to_s.shellsplit]]
      given = words.flat_map { |place, options| Ciguard.options(options, SETTINGS, place) }
      @dry_runs, @filters = given.partition { |text| text.include?("--dry-run") }
      rules = RSpec.configuration.filter_manager.then { |found| [found.inclusions, found.exclusions] }
      @known, @known_exclusions = rules.map { |one| one.rules.keys }
      return unless @filters.empty?

      @filters = rules.reject(&:empty?).map { |one| "RSpec.configure: filter #{one.description}" }
    end

    # Before the first example. What a test file adds, as by the spec_helper that it requires, is in
    # no listing: a tag that selects is a focus, one that excludes is stated.
    def report_settings
      configuration = RSpec.configuration
      @dry_runs << "RSpec.configure: dry_run = true" if configuration.dry_run? && @dry_runs.empty?
      manager = configuration.filter_manager
      keys = manager.inclusions.rules.keys - @known
      focused = spec_files.flat_map do |file|
        used = keys.select { |key| file.examples.any? { |example| example.metadata[key] } }
        used.map { |key| "#{file.unit}: #{key}" }
      end
      excluded = manager.exclusions.rules.keys - @known_exclusions
      excluding = excluded.map { |key| "RSpec.configure in a test file: exclude #{key}" }
      @leg.execution(
        not_executed: @dry_runs, filter: @filters, focus: focused, filter_in_tests: excluding
      )
      random = configuration.ordering_registry.fetch(:global).is_a?(RSpec::Core::Ordering::Random)
      @leg.event("seed", detail: "--seed #{configuration.seed}") if random && !@leg.collects
    end

    def spec_files
      @files.values_at(*@found)
    end

    # Of the files that RSpec would run, those that the leg asks for, in its order.
    def select(files)
      paths = files.map { |file| [@leg.unit_of(file), file] }.to_h
      @found = @left = @leg.units.select { |unit| paths.key?(unit) }
      paths.values_at(*@found)
    end

    def report_missing
      @leg.report_missing(@found, "left out by the options of RSpec")
    end

    # A file that cannot be loaded ends the run of RSpec; here it has its error, and no group.
    def load(file)
      return yield if @world.wants_to_quit

      @loading = @files.fetch(@leg.unit_of(file))
      begin
        yield
      rescue SystemExit => error
        @loading.error ||= "An `exit` while loading #{@loading.unit}: #{text(error)}" # before 3.11
      end
      # A group of a file that .rspec requires runs with the first one.
      defined = @world.example_groups.slice!(@size..-1)
      @loading.groups = @loading.error ? [] : defined
      @world.wants_to_quit = false if @loading.error
      @size = @world.example_groups.concat(@loading.groups).size
      name_examples(@loading)
      @loading = nil
    end

    def file(file)
      unit, error = file.unit, file.error
      return true if @leg.stop? || @world.wants_to_quit

      @now = unit
      @failed, @recorded = false, 0
      @left -= [unit]
      @leg.start(unit)
      @leg.result(unit, nil, "errored", message: error) if error
      passed = yield
      nothing = @recorded.zero? && !error && !@world.wants_to_quit
      @leg.result(unit, nil, "skipped", message: "no example of it is selected") if nothing
      # An interrupt leaves examples of it out; so does fail-fast, after one has failed.
      selected = file.descendants.sum { |group| group.filtered_examples.size }
      facts = { defined: file.examples.count { |one| applies?(one) }, selected: selected }
      @leg.closed(unit, facts: facts) if @failed || !@world.wants_to_quit
      @now = nil # what fails after the last file, as an after(:suite) hook, is none of its
      passed && !error
    end

    def error(exception, place)
      message = "#{place.strip.chomp('.')}: #{text(exception)}"
      if @loading then @loading.error = message
      elsif @now then @leg.result(@now, nil, "errored", message: message)
      else @error = message
      end
    end

    def example_started(notification)
      name = @names[notification.example] # else it has one once it has run
      @leg.event("case_start", unit: @now, detail: name) if name
    end

    def example_passed(notification)
      record(notification.example, "passed")
    end

    def example_failed(notification)
      @failed = true
      record(notification.example, "failed")
    end

    def example_pending(notification)
      record(notification.example, "skipped")
    end

    def finish
      if @error
        @left.each do |unit|
          @leg.start(unit)
          @leg.result(unit, nil, "errored", message: @error)
          @leg.closed(unit)
        end
      elsif @world.wants_to_quit && !@leg.collects
        fast = RSpec.configuration.fail_fast
        @leg.stopped(fast ? "fail_fast is set; --no-fail-fast runs all" : "RSpec was interrupted")
      end
    end

    private

    # RSpec's own conditions, as `if: windows?`, are no filter.
    def applies?(example)
      example.metadata.fetch(:if, true) && !example.metadata[:unless]
    end

    # Of two examples of one name the second in the file is "name #2", in whatever order they run.
    # One without a name has it once it has run.
    def name_examples(file)
      file.examples.each do |example|
        next if example.metadata[:description].to_s.empty?

        @names[example] = @leg.numbered(file.unit, example.full_description)
      end
    end

    def record(example, outcome)
      found = example.execution_result
      message = text(found.exception, example) if outcome == "failed"
      if outcome == "skipped" && found.pending_message
        message = "#{'xfail: ' unless example.skipped?}#{found.pending_message}"
      end
      @recorded += 1
      name = @names[example] || @leg.numbered(@now, example.full_description)
      reruns = example.metadata[:retry_attempts].to_i # of rspec-retry
      @leg.result(@now, name, outcome, wall_s: found.run_time, message: message, reruns: reruns)
    end

    def text(exception, example = nil)
      lines = @leg.clean(exception.message.to_s).strip
      expectation = defined?(RSpec::Expectations::ExpectationNotMetError) &&
                    exception.is_a?(RSpec::Expectations::ExpectationNotMetError)
      # "\nexpected: 5\n     got: 4\n\n(compared using ==)": the first line says it all.
      lines = lines.sub(/\A.*?(?=\n\n|\z)/m) { |first| first.gsub(/\s*\n\s*/, ", ") } if expectation
      lines = "#{exception.class}: #{lines}" unless expectation
      formatter = RSpec.configuration.backtrace_formatter
      trace = formatter.format_backtrace(exception.backtrace || [], example ? example.metadata : {})
      [lines, *trace].join("\n")
    end
  end

  # What the objects of the run do besides.
  module Configuration
    attr_accessor :ciguard

    def files_to_run
      ciguard.leg.collects ? super : ciguard.select(super)
    end

    def load_spec_files
      ciguard.read_settings
      if ciguard.leg.collects
        ciguard.report_settings
        ciguard.leg.listed(files_to_run)
        world.wants_to_quit = true
      else
        ciguard.leg.collecting { super }
        self.fail_if_no_examples = false # a shard may have files without any
        ciguard.report_settings
        ciguard.report_missing
      end
    end

    # Made at its first use, after the output that it writes to was configured.
    def reporter
      super.tap do |found|
        next if found.respond_to?(:ciguard)

        found.extend(Reporter)
        found.ciguard = ciguard
        events = %i[example_started example_passed example_failed example_pending]
        found.register_listener(ciguard, *events)
      end
    end

    private

    def load_file_handling_errors(method, file)
      method == :load ? ciguard.load(file) { super } : super
    end
  end

  module World
    attr_accessor :ciguard

    def ordered_example_groups
      ciguard.leg.collects ? super : ciguard.spec_files
    end
  end

  module Reporter
    attr_accessor :ciguard

    def notify_non_example_exception(exception, place)
      ciguard.error(exception, place)
      super
    end
  end

  module Runner
    def run(*streams)
      return super unless Ciguard.asked?

      known = @configuration.respond_to?(:load_file_handling_errors, true)
      abort("RSpec 3.8 or newer is needed, not #{RSpec::Core::Version::STRING}") unless known
      ciguard = Run.new(Leg.new("ciguard_rspec"), @world, @options)
      @configuration.backtrace_exclusion_patterns << Regexp.new(Regexp.escape(__FILE__))
      [[@configuration, Configuration], [@world, World]].each do |object, change|
        object.singleton_class.include(change) # `extend` of the configuration is RSpec's own
        object.ciguard = ciguard
      end
      super.tap { ciguard.finish }
    end
  end
end

if Ciguard.asked?
  Ciguard.when_defined("/rspec/core/runner.rb") { RSpec::Core::Runner.prepend(Ciguard::Runner) }
end
