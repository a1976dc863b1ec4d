package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/planekit/planekit/schedule/policy"
)

// schedulerFile returns the file of the scheduler, with the flag that names it and how it is decoded; all are
// zero without a file.
func (o *options) schedulerFile() (path, flag string, decode func([]byte) (*policy.File, error)) {
	switch {
	case o.schedulerConfig != "":
		return o.schedulerConfig, "--scheduler-config", policy.DecodeConfiguration
	case o.policyConfigFile != "":
		return o.policyConfigFile, "--policy-config-file", policy.DecodePolicy
	}
	return "", "", nil
}

// readSchedulerConfig reads --scheduler-config or --policy-config-file.
func (o *options) readSchedulerConfig() error {
	if o.schedulerConfig != "" && o.policyConfigFile != "" {
		return errors.New("--scheduler-config and --policy-config-file exclude each other")
	}
	path, flag, decode := o.schedulerFile()
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if err == nil {
		o.scheduler, err = decode(data)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", flag, path, err)
	}
	return nil
}

// schedulerWarnings returns what in the file of the scheduler has no effect.
func (o *options) schedulerWarnings() []string {
	if o.scheduler == nil {
		return nil
	}
	_, flag, _ := o.schedulerFile()
	var list []string
	for _, warning := range o.scheduler.Warnings() {
		list = append(list, flag+": "+warning)
	}
	return list
}
