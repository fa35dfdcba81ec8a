sub act {
    my ($place) = @_;
    my $what = ($ENV{AT} // "") eq $place ? $ENV{ACT} : "";
    if ($place ne "hook") {
        plan(skip_all => "not here") if ($ENV{ACT} // "") eq "skip";
        open my $file, ">>", "$ENV{MARKS}/$place" or die;
        print $file "ran\n";
        close $file;
        pass();
    }
    exit 0 if $what eq "exit";
    kill 9, $$ if $what eq "kill";
    print "x" x (3 << 20) if $what eq "flood";
    close(STDOUT), close(STDERR) if $what eq "close";
    sleep 60 if $what eq "wait";
}
1;
