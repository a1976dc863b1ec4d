package kubelets

import "regexp"

// Difference is a known difference between the kubelets.
type Difference struct {
	// Scenario is its name; empty stands for all.
	Scenario string
	// Line matches the lines that differ.
	Line *regexp.Regexp
	// Why says how the stock kubelet differs, as COMPATIBILITY.md does. It is empty if the
	// difference is one of timing.
	Why string
}

// Known returns the known differences.
func Known() []Difference {
	return []Difference{
		{"", regexp.MustCompile(`^(limits:|memory: 9007199254740988Ki|resources:( \{\})?)$`),
			"on cgroup v1 it reports the largest number as the limit of a pod that has none"},
		{"runs", regexp.MustCompile(`^(limits:|cpu: 100m|memory: 32Mi)$`),
			"a pod in which one container has no limit has a limit in its status"},
		{"no-command", regexp.MustCompile(`^startedAt: `), "a container that could not be started was started in 1970"},
		{"no-command", regexp.MustCompile(`^podIPs?: `), "a pod that has ended may have lost its addresses"},
		{"environment", regexp.MustCompile(`^(limits:|cpu: 150m|memory: 40Mi)$`),
			"a pod that has ended may have lost the resources that its cgroup had"},
		// containerd may report the exit before the reason.
		{"killed", regexp.MustCompile(`^reason: (OOMKilled|Error)$`), ""},
		{"started", regexp.MustCompile(`Warning Unhealthy: Readiness probe failed: $`), ""},
	}
}

func known(scenario, line string) bool {
	for _, d := range Known() {
		if (d.Scenario == "" || d.Scenario == scenario) && d.Line.MatchString(line) {
			return true
		}
	}
	return false
}
