package intern_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/client/intern"
	corev1 "k8s.io/api/core/v1"
)

// TestTableAges lets time pass: pods of a template that recurs keep sharing their parts; those of
// one that was not seen for long are decoded again.
func TestTableAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := intern.New()
		image := func(template int) *corev1.Container {
			pod := &corev1.Pod{}
			if err := table.UnmarshalPod(marshal(t, newPod(template, 0, false)), pod); err != nil {
				t.Fatal(err)
			}
			return &pod.Spec.Containers[0]
		}
		image(0) // a part that occurs twice is kept
		image(1)
		often, once := image(0), image(1)
		if image(0) != often || image(1) != once {
			t.Fatal("nothing is shared")
		}
		for range 30 {
			time.Sleep(4 * time.Minute)
			synctest.Wait() // no test of a table while it is aging
			if image(0) != often {
				t.Fatal("a template that comes every four minutes was forgotten")
			}
		}
		if image(1) == once {
			t.Error("a template that did not come for two hours was not forgotten")
		}
	})
}
