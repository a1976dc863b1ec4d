package randomcluster_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/planekit/planekit/internal/randomcluster"
)

// TestNew checks that a seed makes one cluster, and that no node has a host port twice.
func TestNew(t *testing.T) {
	placed := 0
	for seed := range uint64(200) {
		a, b := randomcluster.New(seed), randomcluster.New(seed)
		if !reflect.DeepEqual(a, b) || !reflect.DeepEqual(a.Pod(), b.Pod()) || !reflect.DeepEqual(a.Node("x"), b.Node("x")) {
			t.Fatalf("seed %d makes two clusters", seed)
		}
		taken := map[string]bool{}
		for _, p := range a.Pods {
			placed++
			for _, c := range p.Spec.Containers {
				for _, port := range c.Ports {
					at := fmt.Sprint(p.Spec.NodeName, " ", port.HostPort)
					if taken[at] {
						t.Errorf("seed %d: %s is taken twice", seed, at)
					}
					taken[at] = true
				}
			}
		}
	}
	if placed < 200 {
		t.Errorf("%d pods in 200 clusters", placed)
	}
}
