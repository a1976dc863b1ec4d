package kindtest_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestDecode reads an object and fills one by the same seed twice.
func TestDecode(t *testing.T) {
	pod := kindtest.Decode(t, func() runtime.Object { return &corev1.Pod{} }, "{metadata: {name: web}}")
	if name := pod.(*corev1.Pod).Name; name != "web" {
		t.Errorf("name %q", name)
	}
	if err := kindtest.Unmarshal("{spec: {unknown: 1}}", &corev1.Pod{}); err == nil {
		t.Error("an unknown field is read")
	}
	var a, b corev1.Pod
	kindtest.Filler(1).Fill(&a)
	kindtest.Filler(1).Fill(&b)
	kindtest.ExpectYAML(t, &a, &b)
}
