//go:build noprofile

package main

import "errors"

// profiled runs the server; a request for a profile is an error.
func (o *options) profiled(run func() error) error {
	if o.cpuProfile != "" {
		return errors.New("--cpu-profile: no profiler is linked into this program (it was built with -tags noprofile)")
	}
	return run()
}
