//go:build !noprofile

package main

import (
	"fmt"
	"os"
	"runtime/pprof"
)

// profiled runs the server and writes a profile of it, if one is asked for.
func (o *options) profiled(run func() error) error {
	if o.cpuProfile == "" {
		return run()
	}
	file, err := os.Create(o.cpuProfile)
	if err != nil {
		return fmt.Errorf("--cpu-profile: %w", err)
	}
	defer file.Close()
	if err := pprof.StartCPUProfile(file); err != nil {
		return fmt.Errorf("--cpu-profile: %w", err)
	}
	defer pprof.StopCPUProfile()
	return run()
}
