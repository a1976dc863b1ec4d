package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func schedulerFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const (
	configurationHead = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	policyHead        = "apiVersion: v1\nkind: Policy\n"
)

func TestSchedulerConfig(t *testing.T) {
	configuration, policy := schedulerFile(t, configurationHead+"parallelism: 2"), schedulerFile(t, policyHead+"predicates: []\npriorities: []\nalwaysCheckAllPredicates: true")
	for arguments, want := range map[string]string{
		"":                                    "",
		"--scheduler-config " + configuration: "--scheduler-config: parallelism has no effect: ",
		"--policy-config-file " + policy:      "--policy-config-file: alwaysCheckAllPredicates has no effect: ",
	} {
		o, err := parse(strings.Fields(arguments)...)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(o.schedulerWarnings(), "\n")
		if (o.scheduler == nil) != (arguments == "") || !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %v, warnings %s", arguments, o.scheduler, got)
		}
	}
}

func TestSchedulerConfigRefused(t *testing.T) {
	configuration := schedulerFile(t, configurationHead+"parallelism: 0")
	policy := schedulerFile(t, policyHead+"priorities: [{name: LeastRequestedPriority}]")
	for arguments, want := range map[string]string{
		"--scheduler-config " + configuration:         "--scheduler-config " + configuration + ": parallelism: Invalid value: 0",
		"--policy-config-file " + policy:              "--policy-config-file " + policy + ": priorities[0].weight: Invalid value: 0",
		"--scheduler-config " + policy:                "not a KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1",
		"--policy-config-file missing":                "--policy-config-file missing: open missing: no such file",
		"--scheduler-config x --policy-config-file y": "--scheduler-config and --policy-config-file exclude each other",
	} {
		if _, err := parse(strings.Fields(arguments)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", arguments, err, want)
		}
	}
}
