package cpumanager

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Names of the options of the static policy.
const (
	// FullPCPUsOnly gives containers whole cores only.
	FullPCPUsOnly = "full-pcpus-only"
	// StrictCPUReservation keeps all pods off the reserved CPUs.
	StrictCPUReservation = "strict-cpu-reservation"
)

// options are the parsed options of the static policy.
type options struct{ fullCores, strictReservation bool }

// alphaOptions are the options that Kubernetes has behind a feature gate that is off.
var alphaOptions = []string{"align-by-socket", "distribute-cpus-across-cores"}

// missingOptions are the options of Kubernetes that this package does not have.
var missingOptions = []string{"distribute-cpus-across-numa", "prefer-align-cpus-by-uncorecache"}

func parseOptions(policy string, given map[string]string) (options, error) {
	var o options
	if policy == PolicyNone && len(given) > 0 {
		return o, fmt.Errorf("policy %q: received unsupported options=%v", policy, given)
	}
	fields := map[string]*bool{FullPCPUsOnly: &o.fullCores, StrictCPUReservation: &o.strictReservation}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch field := fields[name]; {
		case field != nil:
			value, err := strconv.ParseBool(given[name])
			if err != nil {
				return o, fmt.Errorf("bad value for option %q: %w", name, err)
			}
			*field = value
		case slices.Contains(alphaOptions, name):
			return o, fmt.Errorf("CPU Manager Policy Alpha-level Options not enabled, but option %q provided", name)
		case slices.Contains(missingOptions, name):
			return o, fmt.Errorf("CPU Manager policy option %q is not supported", name)
		default:
			return o, fmt.Errorf("unknown CPU Manager Policy option: %q", name)
		}
	}
	return o, nil
}
