package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
)

// TestSame: what both make of a pod is the same, but for the random part of the name
// of the volume with the token.
func TestSame(t *testing.T) {
	ours, theirs, _, err := sides(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	a, b := ours.pods(1)[0], theirs.pods(1)[0]
	if err := ours.create(a); err != nil {
		t.Fatal(err)
	}
	if err := theirs.create(b); err != nil {
		t.Fatal(err)
	}
	podA, err := ours.stored(a)
	if err != nil {
		t.Fatal(err)
	}
	podB, err := theirs.stored(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []*struct{ volume *string }{{&podA.Spec.Volumes[0].Name}, {&podB.Spec.Volumes[0].Name}} {
		if !strings.HasPrefix(*spec.volume, "kube-api-access-") {
			t.Errorf("the volume is %s", *spec.volume)
		}
		*spec.volume = "token"
	}
	for i := range podA.Spec.Containers {
		podA.Spec.Containers[i].VolumeMounts[0].Name, podB.Spec.Containers[i].VolumeMounts[0].Name = "token", "token"
	}
	podA.Spec.InitContainers[0].VolumeMounts[0].Name, podB.Spec.InitContainers[0].VolumeMounts[0].Name = "token", "token"
	if podA.Spec.Priority == nil || len(podA.Spec.Tolerations) != 2 || podA.Spec.ServiceAccountName != "default" {
		t.Errorf("planekit stores the spec %+v, want a priority, 2 tolerations and the service account default", podA.Spec)
	}
	if !equality.Semantic.DeepEqual(podA, podB) {
		t.Errorf("planekit\n%+v\nkube-apiserver\n%+v", podA, podB)
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, 1, 10, 600); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n| "); lines != 5 {
		t.Errorf("%d lines:\n%s", lines, out.String())
	}
}

func BenchmarkChain(b *testing.B) {
	ours, theirs, _, err := sides(b.Context(), 1000)
	if err != nil {
		b.Fatal(err)
	}
	for name, s := range map[string]side{"planekit": ours, "kube-apiserver": theirs} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var pods []any
			for b.Loop() {
				if len(pods) == 0 {
					b.StopTimer()
					pods = s.pods(1000)
					b.StartTimer()
				}
				if err := s.create(pods[0]); err != nil {
					b.Fatal(err)
				}
				pods = pods[1:]
			}
		})
	}
}
