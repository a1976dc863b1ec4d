package eviction

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestReserved(t *testing.T) {
	thresholds, err := Parse(Settings{Hard: DefaultHard(), Soft: map[string]string{"memory.available": "1Gi"}, SoftGrace: map[string]string{"memory.available": "1m"}})
	if err != nil {
		t.Fatal(err)
	}
	got := Reserved(thresholds, corev1.ResourceList{
		corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourceEphemeralStorage: resource.MustParse("50Gi"), corev1.ResourceCPU: resource.MustParse("2"),
	})
	memory, storage := got[corev1.ResourceMemory], got[corev1.ResourceEphemeralStorage]
	if len(got) != 2 || memory.String() != "100Mi" || storage.String() != "5Gi" {
		t.Errorf("Reserved() = %v with memory %s and ephemeral storage %s, want only 100Mi and 5Gi", got, memory.String(), storage.String())
	}
	if got := Reserved(nil, nil); len(got) > 0 {
		t.Errorf("Reserved(nil, nil) = %v, want none", got)
	}
}
