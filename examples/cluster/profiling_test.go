package main

import "testing"

// TestProfilesCanBeTurnedOff: --profiling=false serves none.
func TestProfilesCanBeTurnedOff(t *testing.T) {
	for _, on := range []bool{true, false} {
		o := options{profiling: on}
		if _, served := o.profiles()["/debug/pprof/"]; served != on {
			t.Errorf("--profiling=%v: served %v", on, served)
		}
	}
}
