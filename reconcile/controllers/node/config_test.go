package node

import (
	"fmt"
	"testing"
)

// TestConfig checks that constructors refuse an empty configuration and name what is missing.
func TestConfig(t *testing.T) {
	failure := func(_ any, err error) string { return fmt.Sprint(err) }
	for want, got := range map[string]string{
		"node: IPAMConfig: no Nodes":         failure(NewIPAM(IPAMConfig{})),
		"node: LifecycleConfig: no Nodes":    failure(NewLifecycle(LifecycleConfig{})),
		"node: PodGarbageConfig: no Pods":    failure(NewPodGarbage(PodGarbageConfig{})),
		"node: TaintEvictionConfig: no Pods": failure(NewTaintEviction(TaintEvictionConfig{})),
	} {
		if got != want {
			t.Errorf("error %q, want %q", got, want)
		}
	}
}
