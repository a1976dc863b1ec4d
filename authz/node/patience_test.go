package node_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/node"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPatience asks for a secret before the cache knows the pod that refers to it.
func TestPatience(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.PodSpec{
		NodeName: "n1", ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
	}}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other"}, Spec: corev1.PodSpec{NodeName: "n1", ServiceAccountName: "default"}}
	for _, tc := range []struct {
		name  string
		known time.Duration // when the cache knows the pod
		gone  time.Duration // when the asker gives up
		want  authz.Decision
		after time.Duration
	}{
		{"in time", 300 * time.Millisecond, time.Minute, authz.Allow, 300 * time.Millisecond},
		{"too late", time.Second, time.Minute, authz.NoOpinion, 500 * time.Millisecond},
		{"given up", time.Second, 100 * time.Millisecond, authz.NoOpinion, 100 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pods := localcache.NewMap[*corev1.Pod]()
				nodes, err := node.New(node.Config{Pods: pods, Patience: 500 * time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				running, stop := context.WithCancel(t.Context())
				defer stop()
				go func() { _ = nodes.Run(running) }()
				synctest.Wait()
				time.AfterFunc(50*time.Millisecond, func() { pods.Put(other) }) // not what is waited for
				time.AfterFunc(tc.known, func() { pods.Put(pod) })
				ctx, cancel := context.WithTimeout(t.Context(), tc.gone)
				defer cancel()
				asked := time.Now()
				got, reason, err := nodes.Authorize(ctx, authz.Attributes{
					User: kubelet("n1"), Verb: "get", Resource: "secrets", Namespace: "shop", Name: "registry",
				})
				if got != tc.want || err != nil || time.Since(asked) != tc.after {
					t.Errorf("%v %q %v after %v, want %v after %v", got, reason, err, time.Since(asked), tc.want, tc.after)
				}
				time.Sleep(2 * time.Second) // until the timers have fired
			})
		})
	}
	if _, err := node.New(node.Config{Pods: localcache.NewMap[*corev1.Pod](), Patience: -1}); err == nil {
		t.Error("a negative patience, no error")
	}
}
