# frozen_string_literal: true

# What a plugin inside of a Ruby test framework writes into the record of a leg.
# Standard library only, Ruby 2.6+. Everything is asked for by the environment variables that
# ciguard_pytest.py describes; without CIGUARD_RECORD_FILE or CIGUARD_COLLECT_FILE it does nothing.

module Ciguard
  def self.asked?
    !ENV["CIGUARD_RECORD_FILE"].to_s.empty? || !ENV["CIGUARD_COLLECT_FILE"].to_s.empty?
  end

  # Yield once the first class or module of a file has been defined, in this process. The framework
  # must not be loaded from here: Bundler decides which version of it there is.
  def self.when_defined(file)
    TracePoint.new(:end) do |trace|
      next unless trace.path.end_with?(file)

      trace.disable
      yield
    end.enable
  end

  # Of the words of a command line, the options of some names, each with its value and its place.
  def self.options(words, names, place = "")
    words.each_index.select { |at| words[at].match?(names) }.map do |at|
      value = words[at + 1].to_s
      whole = words[at].include?("=") || value.empty? || value.start_with?("-")
      "#{place}#{words[at]}#{" #{value}" unless whole}"
    end
  end

  class Leg
    MESSAGE_BYTES = 4096
    COLOURS = /\e\[[0-9;]*m/.freeze
    OURS = %w[
      COLLECT_FILE RECORD_FILE UNITS_FILE STOP_FILE SUITE VARIANT PROCESS
      ORIGIN_AT ORIGIN_S ORIGIN_CLOCK TRIES_FILE OOM_FILE STACKS_FILE
    ].map { |name| "CIGUARD_#{name}" }.freeze

    attr_reader :collects, :units

    # Take what the leg asked for out of the environment: a framework that a test starts, as a
    # project that tests a test framework does, must not write into this record, nor need our files.
    # What is called later is taken here: tests replace functions of `File` and the clock.
    def initialize(plugin)
      require "json"
      require "pathname"
      asked = OURS.map { |name| [name, ENV.delete(name).to_s] }.to_h
      leave("RUBYOPT", " ", "-r#{plugin}")
      leave("RUBYLIB", File::PATH_SEPARATOR, __dir__)
      @folder = Pathname.new(Dir.pwd)
      @collects = !asked["CIGUARD_COLLECT_FILE"].empty?
      @stop_file = asked["CIGUARD_STOP_FILE"]
      units_file = asked["CIGUARD_UNITS_FILE"]
      @units = @collects ? [] : JSON.parse(File.read(units_file, encoding: "UTF-8")).uniq
      name = @collects ? asked["CIGUARD_COLLECT_FILE"] : asked["CIGUARD_RECORD_FILE"]
      @file = File.expand_path(name)
      @open = File.method(:open)
      @exists = File.method(:exist?)
      @generate = JSON.method(:generate)
      @clock = Process.method(:clock_gettime)
      @pid = Process.pid
      # The leg's clock is none of ours: the time of day now, and from here on our own.
      @offset_s = @clock.call(Process::CLOCK_REALTIME) - monotonic_s - asked["CIGUARD_ORIGIN_AT"].to_f
      @cases = Hash.new(0)
    end

    def now_s
      (monotonic_s + @offset_s).round(6)
    end

    # The id of a file: its path from where the framework was started, with "/".
    def unit_of(file)
      clean(Pathname.new(File.expand_path(file, @folder)).relative_path_from(@folder).to_s)
    end

    def stop?
      !@stop_file.empty? && @exists.call(@stop_file)
    end

    def start(unit)
      append(type: "start", unit: unit, at_s: now_s)
    end

    # A further case of the same name in the same unit is another test: "name #2".
    def numbered(unit, name)
      count = @cases[[unit, name]] += 1
      count == 1 ? name : "#{name} ##{count}"
    end

    # The result of a case, or without a name that of the unit.
    def result(unit, name, outcome, wall_s: nil, message: nil, reruns: 0)
      line = { type: "result", unit: unit, outcome: outcome, at_s: now_s }
      line[:case] = name if name
      line[:wall_s] = wall_s.round(6) if wall_s
      line[:reruns] = reruns if reruns.positive?
      line[:message] = truncated(message) if message
      append(line)
    end

    def closed(unit, **more)
      event("closed", unit: unit, **more)
    end

    # The units asked for that are not among those found, and why if their file is there.
    def report_missing(found, why)
      (@units - found).each do |unit|
        event("not_collected", unit: unit, detail: File.exist?(unit) ? why : "")
      end
    end

    # Whether bodies are executed: the settings of the run that say otherwise, by reason.
    def execution(settings)
      return settings[:filter].each { |text| append(filter: text) } if @collects

      found = settings.flat_map { |reason, texts| texts.uniq.map { |text| [reason, text] } }
      found = [["executed", ""]] if found.empty?
      found.first(20).each { |reason, text| event("execution", reason: reason, detail: text) }
    end

    def event(kind, **more)
      append(type: "event", kind: kind, at_s: now_s, **more)
    end

    # Test files are read: a process that ends meanwhile died of one, also with exit code 0.
    def collecting
      event("collection_start")
      yield
      event("collection_end")
    end

    def stopped(detail)
      event("session_stopped", detail: detail)
    end

    # What exists: all files, and at last that this is all.
    def listed(files)
      files.map { |file| unit_of(file) }.uniq.sort.each { |unit| append(unit: unit, file: unit) }
      append(done: true, rootdir: @folder.to_s)
    end

    # As UTF-8, which a message of a test or the name of a file need not be.
    def clean(text)
      plain = [Encoding::BINARY, Encoding::US_ASCII].include?(text.encoding) # as file names are
      return text.dup.force_encoding("UTF-8").scrub if plain

      text.encode("UTF-8", invalid: :replace, undef: :replace).scrub
    end

    private

    def monotonic_s
      @clock.call(Process::CLOCK_MONOTONIC)
    end

    def leave(name, separator, word)
      return unless ENV[name]

      rest = ENV[name].split(separator).reject { |one| one == word }
      ENV[name] = rest.empty? ? nil : rest.join(separator)
    end

    # The beginning of a text as UTF-8.
    def truncated(text)
      clean(text).gsub(COLOURS, "").byteslice(0, MESSAGE_BYTES).scrub("")
    end

    # A full disk breaks no test. A child that a test forked has no part in the record.
    def append(line)
      return unless Process.pid == @pid

      texts = line.map { |key, value| [key, value.is_a?(String) ? clean(value) : value] }
      # Opened for each line: a test may close all files.
      @open.call(@file, "ab") { |file| file.syswrite("#{@generate.call(texts.to_h)}\n") }
    rescue SystemCallError
      nil # the leg finds out
    end
  end
end
