package podconfig

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestRound: what SetRound writes, Round reads; annotations of another writer are no round.
func TestRound(t *testing.T) {
	for _, first := range []bool{false, true} {
		for _, round := range []uint32{0, 1, 1<<32 - 1} {
			c := &runtimeapi.ContainerConfig{Annotations: map[string]string{}}
			SetRound(c, round, first)
			if n, f := Round(c.Annotations); n != round || f != (first && round > 0) {
				t.Errorf("%d %t became %d %t", round, first, n, f)
			}
			if round == 0 && len(c.Annotations) > 0 {
				t.Errorf("annotations %v", c.Annotations)
			}
		}
	}
	for _, bad := range []string{"", "-1", "x", "4294967296"} {
		if n, first := Round(map[string]string{AnnotationRound: bad, AnnotationFirst: "true"}); n != 0 || first {
			t.Errorf("%q is round %d", bad, n)
		}
	}
}
