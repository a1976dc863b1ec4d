package main

import (
	"fmt"
	"os"

	"github.com/planekit/planekit/admission/plugins"
	"github.com/planekit/planekit/plane/pluginset"
)

// admission returns what the flags say of admission plugins.
func (c *cluster) admission() (pluginset.Options, error) {
	o := &c.options.access
	configuration, err := readAdmissionConfig(o.admissionConfig)
	return pluginset.Options{
		Enable: o.enabled, Disable: o.disabled, Configuration: configuration, More: []plugins.Plugin{c.initialResources()},
		NotReady: &o.notReadyFor, Unreachable: &o.unreachableFor,
	}, err
}

func readAdmissionConfig(file string) (plugins.Configuration, error) {
	if file == "" {
		return plugins.Configuration{}, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return plugins.Configuration{}, fmt.Errorf("--admission-control-config-file: %w", err)
	}
	configuration, err := plugins.Parse(data, file, os.ReadFile)
	if err != nil {
		return plugins.Configuration{}, fmt.Errorf("--admission-control-config-file %s: %w", file, err)
	}
	return configuration, nil
}
