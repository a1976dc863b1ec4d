package kube

import (
	"math/rand"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"
)

// filler makes random objects.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(100_000), resource.DecimalSI)
		},
		func(at *metav1.Time, c randfill.Continue) { *at = metav1.Unix(c.Int63n(1e9), 0) },
		func(*metav1.FieldsV1, randfill.Continue) {},
		func(*runtime.RawExtension, randfill.Continue) {},
	)
}

// TestSharingChangesNothing shares the parts of random pods, each of which comes
// several times: all stay what they were, and equal ones become one.
func TestSharingChangesNothing(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	fill, pick := filler(seed), rand.New(rand.NewSource(seed))
	parts := newPodParts()
	pods := make([]*corev1.Pod, 50)
	first := make([]*corev1.Pod, len(pods))
	for i := range pods {
		pods[i] = &corev1.Pod{}
		fill.Fill(pods[i])
	}
	for range 400 {
		i := pick.Intn(len(pods))
		pod := pods[i].DeepCopy()
		parts.share(pod)
		if !equality.Semantic.DeepEqual(pod, pods[i]) {
			t.Fatalf("pod %d was changed:\n%v\nto\n%v", i, pods[i], pod)
		}
		if first[i] == nil {
			first[i] = pod
			continue
		}
		for c := range pod.Spec.Containers {
			a, b := &first[i].Spec.Containers[c], &pod.Spec.Containers[c]
			if a.LivenessProbe != b.LivenessProbe || a.SecurityContext != b.SecurityContext || len(a.Env) > 0 && &a.Env[0] != &b.Env[0] ||
				reflect.ValueOf(a.Resources.Limits).Pointer() != reflect.ValueOf(b.Resources.Limits).Pointer() {
				t.Fatalf("container %d of pod %d has parts of its own", c, i)
			}
		}
	}
}

func BenchmarkSharePod(b *testing.B) {
	pod := &corev1.Pod{}
	filler(1).Fill(pod)
	parts := newPodParts()
	b.ReportAllocs()
	for b.Loop() {
		parts.share(pod)
	}
}
