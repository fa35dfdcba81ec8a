def act(place)
  file = File.join(ENV["MARKS"], place)
  skip "not here" if ENV["ACT"] == "skip" && place != "hook"
  File.write(file, "ran\n", mode: "a") if place != "hook"
  return unless ENV["AT"] == place
  case ENV["ACT"]
  when "exit" then exit(0)
  when "kill" then Process.kill(:KILL, Process.pid)
  when "flood" then print("x" * (3 << 20))
  when "close" then IO.for_fd(1).close; IO.for_fd(2).close
  when "wait" then sleep(60)
  when "flaky" then raise "flaky" if File.readlines(file).size == 1
  end
end
