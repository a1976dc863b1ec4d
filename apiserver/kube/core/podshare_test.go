package core

import (
	"math/rand"
	"reflect"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// TestSharingChangesNothing shares the parts of random pods, each of which comes
// several times: all stay what they were, and equal ones become one.
func TestSharingChangesNothing(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	fill, pick := kindtest.Filler(seed), rand.New(rand.NewSource(seed))
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
	kindtest.Filler(1).Fill(pod)
	parts := newPodParts()
	b.ReportAllocs()
	for b.Loop() {
		parts.share(pod)
	}
}
