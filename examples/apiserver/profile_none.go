//go:build noprofile

package main

import "errors"

// profiled runs the server; it says so where a profile is asked for in vain.
func (o *options) profiled(run func() error) error {
	if o.cpuProfile != "" {
		return errors.New("--cpu-profile: no profiler is linked into this program (it was built with -tags noprofile)")
	}
	return run()
}
